"""What of ours is on an object, whatever its kind, and what it is without it. Pure: plain manifests in, patches out.

Traces are finalizers, scheduling gates, and the marks that we put on nodes. What a node was born with, such as the name
of its pool, is no trace: it says what the node is.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from autoscaler.api import keys
from autoscaler.api.manifests import Manifest

GATES: Final = frozenset({keys.ADMISSION_GATE, keys.PLACEMENT_GATE, keys.MACHINE_GATE})
_TAINTS: Final = frozenset({keys.REMOVING, keys.RESERVED_FOR, keys.NODE_POOL, keys.MACHINE_CLOSED})
_LABELS: Final = frozenset({keys.NODE_POOL})
_ANNOTATIONS: Final = frozenset({keys.MACHINE_GROUP, keys.INTERRUPTED_AT, keys.MAINTENANCE_AT, keys.REBALANCE_AT})
_MACHINE: Final = keys.machine_label("")


def without(found: Mapping[str, Any]) -> Manifest:
    """Return the merge patch that takes all that is ours off an object; empty if there is nothing."""
    metadata = _finalizers(found.get("metadata", {}))
    spec = _gates(found.get("spec") or {})
    if found.get("kind") == "Node":
        metadata |= _marks(found.get("metadata", {}))
        spec |= _taints(found.get("spec") or {})
    return {**({"metadata": metadata} if metadata else {}), **({"spec": spec} if spec else {})}


def told(patch: Manifest) -> str:
    """Say in a few words what a patch takes away."""
    metadata, spec = patch.get("metadata", {}), patch.get("spec", {})
    said = [("finalizer", "finalizers" in metadata), ("gate", "schedulingGates" in spec)]
    said += [("mark", "labels" in metadata or "annotations" in metadata or "taints" in spec)]
    return ", ".join(word for word, is_said in said if is_said)


def is_ours(finalizer: str) -> bool:
    """Tell whether a finalizer is ours."""
    return finalizer.startswith(keys.PREFIX)


def _finalizers(metadata: Mapping[str, Any]) -> Manifest:
    finalizers = metadata.get("finalizers") or ()
    return _kept("finalizers", finalizers, [each for each in finalizers if not is_ours(each)])


def _gates(spec: Mapping[str, Any]) -> Manifest:
    gates = spec.get("schedulingGates") or ()
    return _kept("schedulingGates", gates, [each for each in gates if each.get("name") not in GATES])


def _taints(spec: Mapping[str, Any]) -> Manifest:
    taints = spec.get("taints") or ()
    return _kept("taints", taints, [each for each in taints if not _is_mark(each.get("key", ""), _TAINTS)])


def _marks(metadata: Mapping[str, Any]) -> Manifest:
    found = {"labels": _LABELS, "annotations": _ANNOTATIONS}
    gone = {part: _gone(metadata.get(part) or {}, marks) for part, marks in found.items()}
    if (metadata.get("labels") or {}).get(keys.EXCLUDED_FROM_LOAD_BALANCERS) == keys.EXCLUDED_BY_US:
        gone["labels"][keys.EXCLUDED_FROM_LOAD_BALANCERS] = None
    return {part: marks for part, marks in gone.items() if marks}


def _gone(there: Iterable[str], marks: frozenset[str]) -> Manifest:
    return {key: None for key in there if _is_mark(key, marks)}


def _is_mark(key: str, marks: frozenset[str]) -> bool:
    return key in marks or key.startswith(_MACHINE)


def _kept(part: str, there: Iterable[object], kept: list[Any]) -> Manifest:
    """Write a list without what is ours, if something is; None takes an empty list away."""
    return {part: kept or None} if len(kept) < len(list(there)) else {}
