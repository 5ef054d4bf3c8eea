"""IAM roles, policies and instance profiles in moto. Policies of AWS itself are not there: those are taken on trust."""

import json
from collections.abc import Mapping
from typing import Any, Final

from tools.engine.providers import calls, wire
from tools.engine.providers.aws import cloud, tags

ROLE: Final = "aws:iam/role:Role"
ROLE_POLICY: Final = "aws:iam/rolePolicy:RolePolicy"
POLICY: Final = "aws:iam/policy:Policy"
ATTACHMENT: Final = "aws:iam/rolePolicyAttachment:RolePolicyAttachment"
PROFILE: Final = "aws:iam/instanceProfile:InstanceProfile"
_MANAGED_BY_AWS = "arn:aws:iam::aws:policy/"
_VERSIONS_KEPT = 5


def create_role(aws: cloud.Cloud, asked: calls.Create) -> calls.State:
    inputs: dict[str, Any] = wire.plain(asked.inputs)
    name = str(inputs["name"])
    options = {
        wire_name: inputs[given]
        for given, wire_name in (
            ("path", "Path"),
            ("description", "Description"),
            ("maxSessionDuration", "MaxSessionDuration"),
        )
        if inputs.get(given)
    }
    aws.call(
        "iam",
        "create_role",
        RoleName=name,
        AssumeRolePolicyDocument=_text(inputs["assumeRolePolicy"]),
        Tags=tags.listed(inputs.get("tags") or {}),
        **options,
    )
    _attach(aws, name, inputs.get("managedPolicyArns") or ())
    for policy in inputs.get("inlinePolicies") or ():
        aws.call(
            "iam", "put_role_policy", RoleName=name, PolicyName=policy["name"], PolicyDocument=_text(policy["policy"])
        )
    return _role(aws, name, asked.inputs)


def read_role(aws: cloud.Cloud, asked: calls.Read) -> calls.State | None:
    answer = aws.find("iam", "get_role", RoleName=asked.id)
    if answer is None:
        return None
    live = answer["Role"]
    outputs = asked.old_inputs | asked.old_outputs | {"arn": live["Arn"], "uniqueId": live["RoleId"]}
    inputs = dict(asked.old_inputs)
    if json.loads(_text(wire.plain(inputs["assumeRolePolicy"]))) != live["AssumeRolePolicyDocument"]:
        inputs["assumeRolePolicy"] = json.dumps(live["AssumeRolePolicyDocument"])
    return calls.State(id=asked.id, outputs=outputs, inputs=inputs)


def update_role(aws: cloud.Cloud, asked: calls.Update) -> calls.State:
    inputs: dict[str, Any] = wire.plain(asked.inputs)
    old: dict[str, Any] = wire.plain(asked.old_inputs)
    if "assumeRolePolicy" in asked.changed:
        document = _text(inputs["assumeRolePolicy"])
        aws.call("iam", "update_assume_role_policy", RoleName=asked.id, PolicyDocument=document)
    if "tags" in asked.changed:
        aws.call("iam", "tag_role", RoleName=asked.id, Tags=tags.listed(inputs.get("tags") or {}))
        gone = sorted((old.get("tags") or {}).keys() - (inputs.get("tags") or {}).keys())
        if gone:
            aws.call("iam", "untag_role", RoleName=asked.id, TagKeys=gone)
    if "managedPolicyArns" in asked.changed:
        given, before = (set(facts.get("managedPolicyArns") or ()) for facts in (inputs, old))
        _attach(aws, asked.id, sorted(given - before))
        _detach(aws, asked.id, sorted(before - given))
    return _role(aws, asked.id, asked.inputs)


def delete_role(aws: cloud.Cloud, asked: calls.Delete) -> None:
    """Take off what this resource itself put on; what others attached holds the role back, as in AWS."""
    inputs: dict[str, Any] = wire.plain(asked.old_inputs)
    _detach(aws, asked.id, inputs.get("managedPolicyArns") or ())
    for policy in inputs.get("inlinePolicies") or ():
        aws.find("iam", "delete_role_policy", RoleName=asked.id, PolicyName=policy["name"])
    aws.find("iam", "delete_role", RoleName=asked.id)


def create_role_policy(aws: cloud.Cloud, asked: calls.Create) -> calls.State:
    inputs: dict[str, Any] = wire.plain(asked.inputs)
    _put_role_policy(aws, inputs)
    return calls.State(id=f"{inputs['role']}:{inputs['name']}", outputs=asked.inputs)


def read_role_policy(aws: cloud.Cloud, asked: calls.Read) -> calls.State | None:
    role, _, name = asked.id.partition(":")
    live = aws.find("iam", "get_role_policy", RoleName=role, PolicyName=name)
    if live is None:
        return None
    inputs = dict(asked.old_inputs)
    if json.loads(_text(wire.plain(inputs["policy"]))) != live["PolicyDocument"]:
        inputs["policy"] = json.dumps(live["PolicyDocument"])
    return calls.State(id=asked.id, outputs=asked.old_outputs | inputs, inputs=inputs)


def update_role_policy(aws: cloud.Cloud, asked: calls.Update) -> calls.State:
    _put_role_policy(aws, wire.plain(asked.inputs))
    return calls.State(id=asked.id, outputs=asked.inputs)


def delete_role_policy(aws: cloud.Cloud, asked: calls.Delete) -> None:
    role, _, name = asked.id.partition(":")
    aws.find("iam", "delete_role_policy", RoleName=role, PolicyName=name)


def create_policy(aws: cloud.Cloud, asked: calls.Create) -> calls.State:
    inputs: dict[str, Any] = wire.plain(asked.inputs)
    answer = aws.call(
        "iam",
        "create_policy",
        PolicyName=inputs["name"],
        PolicyDocument=_text(inputs["policy"]),
        Tags=tags.listed(inputs.get("tags") or {}),
    )
    arn = str(answer["Policy"]["Arn"])
    return calls.State(id=arn, outputs=asked.inputs | {"arn": arn, "policyId": answer["Policy"]["PolicyId"]})


def read_policy(aws: cloud.Cloud, asked: calls.Read) -> calls.State | None:
    if aws.find("iam", "get_policy", PolicyArn=asked.id) is None:
        return None
    return calls.State(id=asked.id, outputs=asked.old_outputs, inputs=asked.old_inputs)


def update_policy(aws: cloud.Cloud, asked: calls.Update) -> calls.State:
    if "policy" in asked.changed:
        spare = _old_versions(aws, asked.id)
        if len(spare) + 1 >= _VERSIONS_KEPT:
            aws.call("iam", "delete_policy_version", PolicyArn=asked.id, VersionId=spare[0])
        document = _text(wire.plain(asked.inputs)["policy"])
        aws.call("iam", "create_policy_version", PolicyArn=asked.id, PolicyDocument=document, SetAsDefault=True)
    return calls.State(id=asked.id, outputs=asked.old_outputs | asked.inputs)


def delete_policy(aws: cloud.Cloud, asked: calls.Delete) -> None:
    if aws.find("iam", "get_policy", PolicyArn=asked.id) is None:
        return
    for version in _old_versions(aws, asked.id):
        aws.find("iam", "delete_policy_version", PolicyArn=asked.id, VersionId=version)
    aws.find("iam", "delete_policy", PolicyArn=asked.id)


def create_attachment(aws: cloud.Cloud, asked: calls.Create) -> calls.State:
    inputs: dict[str, Any] = wire.plain(asked.inputs)
    _attach(aws, inputs["role"], [inputs["policyArn"]])
    return calls.State(id=f"{inputs['role']}/{inputs['policyArn']}", outputs=asked.inputs)


def read_attachment(aws: cloud.Cloud, asked: calls.Read) -> calls.State | None:
    role, _, policy = asked.id.partition("/")
    answer = aws.find("iam", "list_attached_role_policies", RoleName=role)
    if answer is None:
        return None
    attached = {each["PolicyArn"] for each in answer["AttachedPolicies"]}
    if policy not in attached and not policy.startswith(_MANAGED_BY_AWS):
        return None
    return calls.State(id=asked.id, outputs=asked.old_outputs, inputs=asked.old_inputs)


def update_attachment(aws: cloud.Cloud, asked: calls.Update) -> calls.State:
    del aws  # every change is a replacement
    return calls.State(id=asked.id, outputs=asked.inputs)


def delete_attachment(aws: cloud.Cloud, asked: calls.Delete) -> None:
    role, _, policy = asked.id.partition("/")
    _detach(aws, role, [policy])


def create_profile(aws: cloud.Cloud, asked: calls.Create) -> calls.State:
    inputs: dict[str, Any] = wire.plain(asked.inputs)
    name = str(inputs["name"])
    answer = aws.call(
        "iam", "create_instance_profile", InstanceProfileName=name, Tags=tags.listed(inputs.get("tags") or {})
    )
    if inputs.get("role"):
        aws.call("iam", "add_role_to_instance_profile", InstanceProfileName=name, RoleName=inputs["role"])
    live = answer["InstanceProfile"]
    outputs = asked.inputs | {"arn": live["Arn"], "uniqueId": live["InstanceProfileId"]}
    return calls.State(id=name, outputs=outputs)


def read_profile(aws: cloud.Cloud, asked: calls.Read) -> calls.State | None:
    answer = aws.find("iam", "get_instance_profile", InstanceProfileName=asked.id)
    if answer is None:
        return None
    inputs = dict(asked.old_inputs)
    roles = [role["RoleName"] for role in answer["InstanceProfile"]["Roles"]]
    if "role" in inputs:
        inputs["role"] = roles[0] if roles else None
    return calls.State(id=asked.id, outputs=asked.old_outputs | inputs, inputs=inputs)


def update_profile(aws: cloud.Cloud, asked: calls.Update) -> calls.State:
    if "role" in asked.changed:
        _change_role(aws, asked.id, wire.plain(asked.old_inputs).get("role"), wire.plain(asked.inputs).get("role"))
    return calls.State(id=asked.id, outputs=asked.old_outputs | asked.inputs)


def delete_profile(aws: cloud.Cloud, asked: calls.Delete) -> None:
    _change_role(aws, asked.id, wire.plain(asked.old_inputs).get("role"), None)
    aws.find("iam", "delete_instance_profile", InstanceProfileName=asked.id)


def _role(aws: cloud.Cloud, name: str, inputs: wire.Properties) -> calls.State:
    live = aws.call("iam", "get_role", RoleName=name)["Role"]
    return calls.State(id=name, outputs=inputs | {"arn": live["Arn"], "uniqueId": live["RoleId"]})


def _put_role_policy(aws: cloud.Cloud, inputs: Mapping[str, Any]) -> None:
    aws.call(
        "iam",
        "put_role_policy",
        RoleName=inputs["role"],
        PolicyName=inputs["name"],
        PolicyDocument=_text(inputs["policy"]),
    )


def _old_versions(aws: cloud.Cloud, arn: str) -> list[str]:
    versions = aws.call("iam", "list_policy_versions", PolicyArn=arn)["Versions"]
    return sorted(each["VersionId"] for each in versions if not each["IsDefaultVersion"])


def _attach(aws: cloud.Cloud, role: str, policies: Any) -> None:  # noqa: ANN401 - any collection of names
    for policy in policies:
        if not policy.startswith(_MANAGED_BY_AWS):
            aws.call("iam", "attach_role_policy", RoleName=role, PolicyArn=policy)


def _detach(aws: cloud.Cloud, role: str, policies: Any) -> None:  # noqa: ANN401 - any collection of names
    for policy in policies:
        if not policy.startswith(_MANAGED_BY_AWS):
            aws.find("iam", "detach_role_policy", RoleName=role, PolicyArn=policy)


def _change_role(aws: cloud.Cloud, profile: str, old: str | None, new: str | None) -> None:
    if old:
        aws.find("iam", "remove_role_from_instance_profile", InstanceProfileName=profile, RoleName=old)
    if new:
        aws.call("iam", "add_role_to_instance_profile", InstanceProfileName=profile, RoleName=new)


def _text(document: object) -> str:
    return document if isinstance(document, str) else json.dumps(document)
