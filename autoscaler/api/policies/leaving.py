"""Deleting the drain object ends a stack, so it is refused to all but those who run Pulumi, unless it was confirmed.

A slip of the hand or a GitOps tool that prunes would otherwise drain every pool. Deployers are named by the stack's
file. Everybody else who may write ConfigMaps there confirms first, by an annotation: two acts, of which one says what
it is for. When the whole namespace goes, Kubernetes' own controllers delete the object with it.

The garbage collector deletes what has an owner that is gone, so giving the object an owner is refused just the same.
Finalizers are free: without them a deletion is still refused, and a deletion under way must be able to end.
"""

from dataclasses import dataclass
from typing import Final

from autoscaler.api import keys, names, version
from autoscaler.api.manifests import Manifest
from autoscaler.api.policies import identities
from autoscaler.api.policies.base import Match, Operation, Request, ValidatingPolicy, Validation

CONFIRMED: Final = "true"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployers:
    """Those who run Pulumi, as the API server knows them."""

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = (keys.DEPLOYERS_GROUP,)


def policy(namespace: str, deployers: Deployers) -> ValidatingPolicy:
    """Write the policy for a runtime in this namespace."""
    message = (
        f"deleting ConfigMap {names.DRAIN_OBJECT}, or giving it an owner, drains all pools and ends Sluice, as"
        f" `pulumi destroy` does: if that is meant, confirm it (kubectl -n {namespace} annotate configmap"
        f" {names.DRAIN_OBJECT} {keys.CONFIRM_LEAVING}={CONFIRMED}) and try again, or do it as a user or group that"
        " the stack's file names as autoscaler.deployers"
    )

    def refusal(request: Request) -> str | None:
        metadata = (request.old_object or {})["metadata"]
        if (metadata.get("namespace"), metadata["name"]) != (namespace, names.DRAIN_OBJECT):
            return None
        is_harmless = request.operation is Operation.UPDATE and not _gains_owner(request)
        return None if is_harmless or _may(request, deployers) else message

    is_known = identities.is_one_of((*identities.CONTROLLERS, *deployers.users))
    return ValidatingPolicy(
        name=f"confirm-leaving.{version.GROUP}",
        match=Match(
            resources=("configmaps",),
            operations=(Operation.UPDATE, Operation.DELETE),
            conditions={
                # When a collection is deleted the request has no name; each object of it has.
                "drain-object": f"oldObject.metadata.name == '{names.DRAIN_OBJECT}'",
                "in-the-runtimes-namespace": f"request.namespace == '{namespace}'",
                "goes": f"request.operation == 'DELETE' || {_GAINS_OWNER}",
            },
        ),
        validations=(
            Validation(
                expression=f"{_IS_CONFIRMED} || {is_known}"
                f" || request.userInfo.?groups.orValue([]).exists(g, g in {identities.texts(deployers.groups)})",
                message=message,
            ),
        ),
        twin=refusal,
    )


def _may(request: Request, deployers: Deployers) -> bool:
    is_confirmed = _annotations(request.old_object).get(keys.CONFIRM_LEAVING) == CONFIRMED
    is_known = request.username in (*identities.CONTROLLERS, *deployers.users)
    return is_confirmed or is_known or any(group in deployers.groups for group in request.groups)


def _gains_owner(request: Request) -> bool:
    old, new = _owners(request.old_object), _owners(request.object)
    return any(owner not in old for owner in new)


def _owners(config_map: Manifest | None) -> list[str]:
    return [owner["uid"] for owner in (config_map or {})["metadata"].get("ownerReferences") or ()]


def _annotations(config_map: Manifest | None) -> dict[str, str]:
    return (config_map or {})["metadata"].get("annotations") or {}


_IS_CONFIRMED: Final = f"oldObject.metadata.?annotations[?'{keys.CONFIRM_LEAVING}'].orValue('') == '{CONFIRMED}'"
_GAINS_OWNER: Final = (
    "object.metadata.?ownerReferences.orValue([])"
    ".exists(n, !oldObject.metadata.?ownerReferences.orValue([]).exists(o, o.uid == n.uid))"
)
