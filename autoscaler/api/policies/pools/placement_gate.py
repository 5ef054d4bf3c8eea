"""Pods that ask for one zone wait behind the gate sluice.dev/placement, which the runtime alone takes off (seed 002).

The gate is put on pods, when they are made: by whatever controller, from whatever template. So a job's own manifest
stays as it was written, and applying it once more is never refused (ADR 0023). Left alone are pods that the capacity
controller does not plan for: those of another scheduler, those that have their node, and DaemonSet pods.
"""

from typing import Final

from autoscaler.api import keys, version
from autoscaler.api.manifests import Manifest
from autoscaler.api.policies.base import Match, MutatingPolicy, Operation, Request, ValidatingPolicy, Validation

SCHEDULERS: Final = ("", "default-scheduler")
_GATE: Final = {"name": keys.PLACEMENT_GATE}
_PATH: Final = "/spec/schedulingGates"
_KEPT: Final = f"gates-are-kept.{version.GROUP}"


# The twins


def _gated(request: Request) -> Manifest:
    pod = request.object or {}
    spec = pod["spec"]
    asks = (pod["metadata"].get("annotations") or {}).get(keys.SAME_ZONE) == "true"
    present = spec.get("schedulingGates") or []
    if not asks or spec.get("nodeName") or _GATE in present or not _is_planned_for(pod):
        return pod
    return {**pod, "spec": {**spec, "schedulingGates": [*present, _GATE]}}


def _is_planned_for(pod: Manifest) -> bool:
    owners = pod["metadata"].get("ownerReferences") or ()
    is_daemon = any(owner["kind"] == "DaemonSet" and owner.get("controller", False) for owner in owners)
    return pod["spec"].get("schedulerName", "") in SCHEDULERS and not is_daemon


def _ours(pod: Manifest | None) -> set[str]:
    gates = ((pod or {}).get("spec") or {}).get("schedulingGates") or ()
    return {gate["name"] for gate in gates if gate["name"].startswith(keys.PREFIX)}


# The same in CEL

_GATES: Final = "object.spec.?schedulingGates.orValue([])"
_OLD_GATES: Final = "oldObject.spec.?schedulingGates.orValue([])"
_IS_OURS: Final = f"g.name.startsWith('{keys.PREFIX}')"
_IS_DAEMON: Final = (
    "object.metadata.?ownerReferences.orValue([]).exists(o, o.kind == 'DaemonSet' && o.?controller.orValue(false))"
)
_SCHEDULERS: Final = "[" + ", ".join(f"'{name}'" for name in SCHEDULERS) + "]"

POLICY: Final = MutatingPolicy(
    name=f"placement-gate.{version.GROUP}",
    match=Match(
        resources=("pods",),
        operations=(Operation.CREATE,),
        conditions={
            "asks-for-one-zone": f"object.metadata.?annotations[?'{keys.SAME_ZONE}'].orValue('') == 'true'",
            "has-no-node": "object.spec.?nodeName.orValue('') == ''",
            "is-planned-for": f"object.spec.?schedulerName.orValue('') in {_SCHEDULERS} && !{_IS_DAEMON}",
        },
    ),
    patches=(
        (
            f"{_GATES}.exists(g, g.name == '{keys.PLACEMENT_GATE}') ? [] : (has(object.spec.schedulingGates) ? []"
            f" : [JSONPatch{{op: 'add', path: '{_PATH}', value: []}}])"
            f" + [JSONPatch{{op: 'add', path: '{_PATH}/-', value: {{'name': '{keys.PLACEMENT_GATE}'}}}}]"
        ),
    ),
    twin=_gated,
)


def kept_by(runtime: str) -> ValidatingPolicy:
    """Write the policy that nobody but the runtime, who is this user, takes one of our gates off a pod."""
    message = (
        f"only the runtime ({runtime}) takes gates of {keys.PREFIX}* off a pod, when there is room and quota for it: to"
        " run a pod regardless, make it or its job anew without the label or annotation that asks for the gate; if the"
        f" runtime cannot come back, first delete the ValidatingAdmissionPolicyBinding {_KEPT}"
    )

    def refusal(request: Request) -> str | None:
        is_allowed = request.username == runtime or _ours(request.old_object) <= _ours(request.object)
        return None if is_allowed else message

    return ValidatingPolicy(
        name=_KEPT,
        match=Match(
            resources=("pods",),
            operations=(Operation.UPDATE,),
            conditions={"has-our-gate": f"{_OLD_GATES}.exists(g, {_IS_OURS})"},
        ),
        validations=(
            Validation(
                expression=f"request.userInfo.username == '{runtime}'"
                f" || {_OLD_GATES}.all(g, !{_IS_OURS} || {_GATES}.exists(n, n.name == g.name))",
                message=message,
            ),
        ),
        twin=refusal,
    )
