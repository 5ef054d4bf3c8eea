"""Rights that were granted, read from roles and IAM policies, and rights that were used, as the servers saw it."""

import json
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tools.local.plane import Plane

RBAC = "/apis/rbac.authorization.k8s.io/v1"
EVERYWHERE = ""
SAME_RIGHT = {"sqs:DeleteMessageBatch": "sqs:DeleteMessage"}
"""Calls that AWS lets whoever has another right make."""


class Right(NamedTuple):
    """One thing that is allowed, or one call that was made."""

    namespace: str
    """Where; empty: in the whole cluster, or an object that is in no namespace."""
    group: str
    resource: str
    verb: str
    name: str
    """Empty: objects of all names, or a call about no object in particular."""

    def allows(self, call: "Right") -> bool:
        """Tell whether a call needed this."""
        return (
            self.namespace in {EVERYWHERE, call.namespace}
            and (self.group, self.resource, self.verb) == (call.group, call.resource, call.verb)
            and self.name in {"", call.name}
        )


def granted(plane: Plane, namespace: str, account: str) -> set[Right]:
    """Return what the roles in the cluster grant a ServiceAccount."""
    found: set[Right] = set()
    for binding in [
        *plane.api.get(f"{RBAC}/clusterrolebindings")["items"],
        *plane.api.get(f"{RBAC}/rolebindings")["items"],
    ]:
        who = {(one["kind"], one.get("namespace"), one["name"]) for one in binding.get("subjects", ())}
        if ("ServiceAccount", namespace, account) in who:
            place: str = binding["metadata"].get("namespace", EVERYWHERE)
            found |= set(_of_rules(place, _role(plane, place, binding["roleRef"])["rules"]))
    return found


def _role(plane: Plane, namespace: str, ref: Mapping[str, str]) -> dict[str, Any]:
    path = f"namespaces/{namespace}/roles" if ref["kind"] == "Role" else "clusterroles"
    role: dict[str, Any] = plane.api.get(f"{RBAC}/{path}/{ref['name']}")
    return role


def _of_rules(namespace: str, rules: Iterable[Mapping[str, Any]]) -> Iterable[Right]:
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    for name in rule.get("resourceNames", ("",)):
                        yield Right(namespace, group, resource, verb, name)


class Calls(NamedTuple):
    """What an account asked of the API server."""

    used: set[Right]
    forbidden: set[Right]
    """What it was refused for want of a right."""


def calls(audit_log: Path, namespace: str, account: str) -> Calls:
    """Read what a ServiceAccount did from the API server's audit log."""
    made = Calls(used=set(), forbidden=set())
    user = f"system:serviceaccount:{namespace}:{account}"
    for line in audit_log.read_text().splitlines():
        event = json.loads(line)
        if event["user"]["username"] == user and "objectRef" in event:
            refused = event.get("responseStatus", {}).get("code") == 403
            (made.forbidden if refused else made.used).add(_call(event))
    return made


def _call(event: Mapping[str, Any]) -> Right:
    about = event["objectRef"]
    resource = about["resource"] + (f"/{about['subresource']}" if about.get("subresource") else "")
    return Right(
        about.get("namespace", EVERYWHERE), about.get("apiGroup", ""), resource, event["verb"], about.get("name", "")
    )


def unused(have: Collection[Right], made: Calls) -> set[Right]:
    """Return the rights that no call needed. A right to all names is needed where no right to the name is granted."""
    named = [right for right in have if right.name]
    others = {call for call in made.used if not any(right.allows(call) for right in named)}
    return {right for right in have if not any(map(right.allows, made.used if right.name else others))}


def granted_actions(iam: Any, account: str) -> set[str]:
    """Return the actions that the IAM policies grant whoever is a ServiceAccount of a cluster."""
    found: set[str] = set()
    for role in iam.list_roles()["Roles"]:
        if account in json.dumps(role["AssumeRolePolicyDocument"]):
            for name in iam.list_role_policies(RoleName=role["RoleName"])["PolicyNames"]:
                document = iam.get_role_policy(RoleName=role["RoleName"], PolicyName=name)["PolicyDocument"]
                found |= {action for statement in document["Statement"] for action in statement["Action"]}
    return found


def used_actions(seen: Iterable[str]) -> set[str]:
    """Return the rights that calls need, from what was seen on the wire."""
    return {SAME_RIGHT.get(call, call) for call in seen}
