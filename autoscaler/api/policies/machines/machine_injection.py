"""Guests get what their machine type has, what takes them to its nodes, and the gate sluice.dev/machine (seed 001).

The catalogue, a ConfigMap that the runtime keeps, says what a type has; it is read while the runtime is away too. The
chosen container's requests and limits become the type's: of cpu, memory and GPUs, what the pod says itself is replaced.
What the pod requires of nodes stays: ours is added to each of its terms. A guest that cannot be let in, because its
type is unknown for one, gets no resources, and other policies refuse it with the reason.
"""

from typing import Any, Final

from autoscaler.api import keys, machine_catalogue, machine_pods, names, version
from autoscaler.api.machine_catalogue import MachineResources
from autoscaler.api.manifests import Manifest
from autoscaler.api.policies.base import MutatingPolicy, Operation, Param, Request
from autoscaler.api.policies.machines import guests, machine_patches

NAME: Final = f"machine-injection.{version.GROUP}"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_GATE: Final = {"name": keys.MACHINE_GATE}
_EFFECT: Final = "NoSchedule"


def catalogue(namespace: str) -> Param:
    """Name the catalogue of a runtime in this namespace."""
    return Param(api_version="v1", kind="ConfigMap", name=names.MACHINE_CATALOGUE, namespace=namespace)


# The twin; machine_patches.py says the same in CEL


def _injected(request: Request) -> Manifest:
    pod = request.object or {}
    if not guests.is_new_guest(request):
        return pod
    labels = guests.labels_of(pod)
    group, machine_type = (labels[key] for key in guests.ASKING)
    pod = {**pod, "metadata": {**pod["metadata"], "labels": {**labels, keys.POD_ROLE: keys.ROLE_GUEST}}}
    pod = {**pod, "spec": _gated(pod["spec"])}
    machine = machine_catalogue.find((request.param or {}).get("data") or {}, group, machine_type)
    index = guests.container_index(pod)
    if machine is None or index is None:
        return pod
    tolerations = machine_pods.tolerations(group, machine_type, machine.parent)
    requirements = machine_pods.node_requirements(group, machine_type, machine.gpu_label)
    spec = _tolerating(_requiring(pod["spec"], requirements), tolerations)
    containers = list(spec["containers"])
    containers[index] = _equipped(containers[index], machine)
    return {**pod, "spec": {**spec, "containers": containers}}


def _gated(spec: Manifest) -> Manifest:
    """Add the gate; with a node, the API server would refuse it in words that do not help."""
    gates = spec.get("schedulingGates") or []
    return spec if spec.get("nodeName") or _GATE in gates else {**spec, "schedulingGates": [*gates, _GATE]}


def _equipped(container: Manifest, machine: MachineResources) -> Manifest:
    given = container.get("resources") or {}
    kept = {part: _without_ours(given.get(part) or {}) for part in ("requests", "limits")}
    equipped = {part: {**amounts, **machine.requests()} for part, amounts in kept.items()}
    return {**container, "resources": {**given, **equipped}}


def _without_ours(amounts: Manifest) -> Manifest:
    return {name: amount for name, amount in amounts.items() if name not in ("cpu", "memory", keys.GPU_RESOURCE)}


def _tolerating(spec: Manifest, tolerations: list[Manifest]) -> Manifest:
    present = spec.get("tolerations") or []
    missing = [wanted for wanted in tolerations if not any(_covers(each, wanted) for each in present)]
    return {**spec, "tolerations": [*present, *missing]} if missing else spec


def _covers(toleration: Manifest, wanted: Manifest) -> bool:
    """Tell whether a toleration does what is wanted; one with a value compares it, whether it says so or not."""
    is_same = all(toleration.get(name, "") == wanted[name] for name in ("key", "value"))
    return is_same and (toleration.get("effect") or _EFFECT) == _EFFECT


def _requiring(spec: Manifest, requirements: list[Manifest]) -> Manifest:
    affinity = spec.get("affinity") or {}
    node_affinity = affinity.get("nodeAffinity") or {}
    terms = (node_affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    tightened = [_tightened(term, requirements) for term in terms] or [{"matchExpressions": requirements}]
    node_affinity = {**node_affinity, _REQUIRED: {"nodeSelectorTerms": tightened}}
    return {**spec, "affinity": {**affinity, "nodeAffinity": node_affinity}}


def _tightened(term: Manifest, requirements: list[Manifest]) -> Manifest:
    """Add what is required to a term; one that says nothing selects no node, and stays so."""
    present: list[Any] = term.get("matchExpressions") or []
    if not present and not term.get("matchFields"):
        return term
    return {**term, "matchExpressions": [*present, *(each for each in requirements if each not in present)]}


def policy(namespace: str) -> MutatingPolicy:
    """Write the policy for a runtime in this namespace."""
    return MutatingPolicy(
        name=NAME,
        match=guests.matching("pods", operation=Operation.CREATE),
        param=catalogue(namespace),
        variables=machine_patches.VARIABLES,
        patches=(machine_patches.PATCH,),
        twin=_injected,
    )
