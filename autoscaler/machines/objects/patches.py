"""What each command writes to its pod, as merge patches. Pure.

It must not decide whether a command is right, nor touch gates, annotations and affinity that are not ours: what others
put on a pod stays.
"""

from typing import Any, Final

import msgspec

from autoscaler.api import keys
from autoscaler.api.manifests import Manifest
from autoscaler.kube import objects
from autoscaler.machines.model import OpenGuest, OpenSleeper, PromiseGuest, RecordTried

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def promise(command: PromiseGuest) -> Manifest:
    """Name the promised node, and begin the scheduler's time anew where it is given."""
    said = {keys.MACHINE_PROMISED: command.node}
    if command.trying_since is not None:
        said[keys.MACHINE_TRYING_SINCE] = _written(command.trying_since)
    return {"metadata": {"annotations": said}}


def open_guest(command: OpenGuest, pod: objects.Pod) -> Manifest:
    """Take our gate off, and begin the scheduler's time."""
    said = {keys.MACHINE_TRYING_SINCE: _written(command.trying_since)}
    return {"metadata": {"annotations": said}, "spec": {"schedulingGates": objects.other_gates(pod, keys.MACHINE_GATE)}}


def record_tried(command: RecordTried) -> Manifest:
    """Name the nodes that were tried, and end the scheduler's time."""
    said = {keys.MACHINE_TRIED: ",".join(sorted(command.nodes)), keys.MACHINE_TRYING_SINCE: None}
    return {"metadata": {"annotations": said}}


def open_sleeper(command: OpenSleeper, pod: objects.Pod) -> Manifest:
    """Take our gate off and pin a sleeper to its node.

    A gated pod's node affinity may only be tightened: the node's name is added to each term that is there.
    """
    terms = [{**term, "matchFields": [*term.get("matchFields", ()), _named(command.node)]} for term in _terms(pod)]
    affinity = {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms or [{"matchFields": [_named(command.node)]}]}}}
    return {
        "metadata": {"annotations": {keys.MACHINE_PINNED: command.node}},
        "spec": {"affinity": affinity, "schedulingGates": objects.other_gates(pod, keys.MACHINE_GATE)},
    }


def _terms(pod: objects.Pod) -> list[dict[str, Any]]:
    affinity = pod.shape.affinity.node_affinity if pod.shape.affinity else None
    terms = affinity.required.node_selector_terms if affinity and affinity.required else ()
    written: list[dict[str, Any]] = msgspec.json.decode(msgspec.json.encode(terms))
    return written


def _named(node: str) -> Manifest:
    return {"key": "metadata.name", "operator": "In", "values": [node]}


def _written(seconds: float) -> str:
    return f"{seconds:.3f}"
