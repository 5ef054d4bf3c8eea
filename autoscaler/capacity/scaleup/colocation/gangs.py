"""Pods that go to one zone together: who they are, whether all of them are there, and where the first ones went. Pure.

A gang is the pods of one owner that wait behind the placement gate. Nothing but pods remembers a zone: one that was
opened selects it, and who comes later joins it there.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from autoscaler.api import keys
from autoscaler.capacity.scaleup import demand
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.kube import objects

SETTLE_SECONDS: Final = 2.0
"""A gang is taken as whole when none has joined it for so long: controllers make pods one after the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """Pods that wait to go to one zone together."""

    name: str
    """Whose pods they are, as a person would say it."""
    pods: tuple[objects.Pod, ...]
    zone: str | None = None
    """Where others of the same owner are already, or must go. None: it is free to choose."""
    last_zone: str | None = None
    """Where others of the same owner were that have ended."""


def gather(snapshot: Snapshot) -> tuple[Gang, ...]:
    """Return the pods that wait for a zone by their owner; the more important and the older first."""
    members: dict[str, list[objects.Pod]] = defaultdict(list)
    for pod in snapshot.indexed.unbound.values():
        if pod.gates and demand.waits_for_zone(pod):
            members[_owner(pod)].append(pod)
    there, ended = _homes(snapshot, members)
    made = [
        Gang(
            name=_name(pods[0]),
            pods=tuple(sorted(pods, key=lambda pod: pod.meta.key)),
            zone=there.get(owner),
            last_zone=ended.get(owner),
        )
        for owner, pods in members.items()
    ]
    return tuple(sorted(made, key=_rank))


def due(gang: Gang, now: float) -> float | None:
    """Return when a gang will be taken as whole; None if it is. Clocks that differ must not hold it up."""
    newest = max(pod.meta.created_at for pod in gang.pods)
    return newest + SETTLE_SECONDS if 0 <= now - newest < SETTLE_SECONDS else None


def _owner(pod: objects.Pod) -> str:
    """Return what the pods of a gang have in common; a pod that nobody controls is a gang by itself."""
    controller = pod.meta.controller
    return controller.uid if controller is not None else pod.meta.uid


def _name(pod: objects.Pod) -> str:
    controller = pod.meta.controller
    return f"{controller.kind} {controller.name}" if controller is not None else f"pod {pod.meta.key.name}"


def _rank(gang: Gang) -> tuple[int, float, objects.Key]:
    first = min(pod.meta.created_at for pod in gang.pods)
    return (-max(pod.priority for pod in gang.pods), first, gang.pods[0].meta.key)


def _homes(snapshot: Snapshot, owners: Collection[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the zones of each owner's pods: of those that go there or are there, and of those that have ended."""
    there: dict[str, Counter[str]] = defaultdict(Counter)
    ended: dict[str, Counter[str]] = defaultdict(Counter)
    for pod in snapshot.pods.values() if owners else ():
        if pod.meta.annotations.get(keys.SAME_ZONE) == "true" and _is_opened(pod) and _owner(pod) in owners:
            zone = pod.shape.node_selector.get(keys.ZONE) or _zone_of_node(snapshot, pod.node_name)
            is_over = pod.is_terminal or pod.meta.deleted_at is not None
            (ended if is_over else there)[_owner(pod)] += Counter([zone] if zone else [])
    return _of_most(there), _of_most(ended)


def _is_opened(pod: objects.Pod) -> bool:
    """Tell whether a pod was given its zone; a guest may wait for a machine there."""
    return not pod.gates or (pod.gates == (keys.MACHINE_GATE,) and keys.ZONE in pod.shape.node_selector)


def _of_most(found: Mapping[str, Counter[str]]) -> dict[str, str]:
    """Return the zone of most pods, where a person has split them; equals by name."""
    return {owner: min(zones, key=lambda zone: (-zones[zone], zone)) for owner, zones in found.items() if zones}


def _zone_of_node(snapshot: Snapshot, name: str) -> str:
    node = snapshot.nodes.get(objects.Key("", name))
    return node.meta.labels.get(keys.ZONE, "") if node is not None else ""
