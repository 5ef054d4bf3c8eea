"""Launch templates in moto. The image on the wire is always one that moto brings along.

The program may name an image by an alias that only AWS resolves, or one of somebody's account; the state keeps what
it said. Of the rest moto gets what its instances, or a test, can use.
"""

from collections.abc import Mapping
from typing import Any, Final

from tools.engine.providers import calls, wire
from tools.engine.providers.aws import cloud, tags

TYPE: Final = "aws:ec2/launchTemplate:LaunchTemplate"
IMAGE: Final = "ami-12c6146b"  # one that moto brings along
# Changes of these make no new version.
_OUTSIDE: Final = frozenset({"name", "tags", "updateDefaultVersion", "defaultVersion", "description"})


def create(aws: cloud.Cloud, asked: calls.Create) -> calls.State:
    inputs: dict[str, Any] = wire.plain(asked.inputs)
    answer = aws.call(
        "ec2",
        "create_launch_template",
        LaunchTemplateName=inputs["name"],
        LaunchTemplateData=_data(inputs),
        **tags.specification("launch-template", inputs),
    )
    return _state(aws, str(answer["LaunchTemplate"]["LaunchTemplateId"]), asked.inputs)


def read(aws: cloud.Cloud, asked: calls.Read) -> calls.State | None:
    """Tell versions as they are now; the inputs are trusted, since nobody else writes templates."""
    live = _live(aws, asked.id)
    if live is None:
        return None
    return calls.State(
        id=asked.id, outputs=asked.old_inputs | asked.old_outputs | _described(aws, live), inputs=asked.old_inputs
    )


def update(aws: cloud.Cloud, asked: calls.Update) -> calls.State:
    inputs: dict[str, Any] = wire.plain(asked.inputs)
    if makes_version(asked):
        answer = aws.call(
            "ec2", "create_launch_template_version", LaunchTemplateId=asked.id, LaunchTemplateData=_data(inputs)
        )
        if inputs.get("updateDefaultVersion"):
            number = str(answer["LaunchTemplateVersion"]["VersionNumber"])
            aws.call("ec2", "modify_launch_template", LaunchTemplateId=asked.id, DefaultVersion=number)
    tags.update(aws, asked.id, asked)
    return _state(aws, asked.id, asked.inputs)


def delete(aws: cloud.Cloud, asked: calls.Delete) -> None:
    aws.find("ec2", "delete_launch_template", LaunchTemplateId=asked.id)


def makes_version(asked: calls.Update) -> bool:
    """Tell whether a change makes a new version, of which a preview cannot know the number."""
    return bool(asked.changed - _OUTSIDE)


def _state(aws: cloud.Cloud, identifier: str, inputs: wire.Properties) -> calls.State:
    live = _live(aws, identifier)
    if live is None:
        raise calls.RefusedError(f"the launch template {identifier} is gone; run a refresh")
    return calls.State(id=identifier, outputs=inputs | _described(aws, live))


def _live(aws: cloud.Cloud, identifier: str) -> dict[str, Any] | None:
    answer = aws.find("ec2", "describe_launch_templates", LaunchTemplateIds=[identifier])
    found: list[dict[str, Any]] = answer["LaunchTemplates"] if answer else []
    return found[0] if found else None


def _described(aws: cloud.Cloud, live: Mapping[str, Any]) -> wire.Properties:
    identifier = live["LaunchTemplateId"]
    return {
        "arn": aws.settings.arn("ec2", f"launch-template/{identifier}"),
        "name": live["LaunchTemplateName"],
        "latestVersion": live["LatestVersionNumber"],
        "defaultVersion": live["DefaultVersionNumber"],
    }


def _data(inputs: Mapping[str, Any]) -> dict[str, Any]:
    data: dict[str, Any] = {"ImageId": IMAGE}
    for name, wire_name in (("instanceType", "InstanceType"), ("userData", "UserData"), ("keyName", "KeyName")):
        if inputs.get(name):
            data[wire_name] = inputs[name]
    if inputs.get("tagSpecifications"):
        data["TagSpecifications"] = [
            {"ResourceType": each["resourceType"], "Tags": tags.listed(each.get("tags") or {})}
            for each in inputs["tagSpecifications"]
        ]
    if inputs.get("metadataOptions"):
        data["MetadataOptions"] = _metadata(inputs["metadataOptions"])
    if inputs.get("blockDeviceMappings"):
        data["BlockDeviceMappings"] = [_device(each) for each in inputs["blockDeviceMappings"]]
    return data


def _metadata(given: Mapping[str, Any]) -> dict[str, Any]:
    names = {
        "httpEndpoint": "HttpEndpoint",
        "httpTokens": "HttpTokens",
        "httpPutResponseHopLimit": "HttpPutResponseHopLimit",
        "instanceMetadataTags": "InstanceMetadataTags",
    }
    return {wire_name: given[name] for name, wire_name in names.items() if given.get(name) is not None}


def _device(given: Mapping[str, Any]) -> dict[str, Any]:
    disk = given.get("ebs") or {}
    sent: dict[str, Any] = {
        "VolumeType": disk.get("volumeType"),
        "VolumeSize": disk.get("volumeSize"),
        "Iops": disk.get("iops"),
        "Throughput": disk.get("throughput"),
        "Encrypted": _truth(disk.get("encrypted")),
        "DeleteOnTermination": _truth(disk.get("deleteOnTermination")),
    }
    return {
        "DeviceName": given["deviceName"],
        "Ebs": {name: value for name, value in sent.items() if value is not None},
    }


def _truth(value: object) -> bool | None:
    return None if value is None else value in {True, "true"}
