"""Machine groups that pull nodes (`provision: true`): which gated pods count as demand, and which nodes stay. Pure.

Sleepers and guests wait behind the machine gate until there is room, so the scheduler never says that there is none.
For groups that pull nodes capacity counts them itself: guests as far as the type's number allows, and as many sleepers
as should hold room beside them. Room that open sleepers hold is for guests of their type, and no node is started for
it twice. Other groups pull nothing, and their sleepers keep no node.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from autoscaler.api import keys
from autoscaler.capacity import work
from autoscaler.capacity.scaleup import demand
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.kube import objects


class MachineType(NamedTuple):
    group: str
    name: str


@dataclass(slots=True, kw_only=True)
class _Pods:
    """The pods of a type that have not ended."""

    guests: list[objects.Pod] = field(default_factory=list)
    sleepers: list[objects.Pod] = field(default_factory=list)


def waiting(snapshot: Snapshot) -> list[objects.Pod]:
    """Return the gated pods that nodes should be started for, if there is no room."""
    available = _available(snapshot)
    found = _pods(snapshot, available)
    return [pod for kind in sorted(found) for pod in _wanted(found[kind], available[kind])]


def kept_nodes(snapshot: Snapshot) -> frozenset[str]:
    """Return the nodes on which sleepers of groups that pull nodes hold room."""
    found = _pods(snapshot, _available(snapshot)).values()
    return frozenset(pod.node_name for each in found for pod in each.sleepers if pod.node_name and _stays(pod))


def _available(snapshot: Snapshot) -> dict[MachineType, int]:
    """Return how many machines there are at most, of types whose groups pull nodes."""
    return {
        MachineType(group, each.name): each.available
        for group, spec in snapshot.machines.items()
        if spec.provision
        for each in spec.machine_types
    }


def _pods(snapshot: Snapshot, known: Iterable[MachineType]) -> dict[MachineType, _Pods]:
    found: dict[MachineType, _Pods] = defaultdict(_Pods)
    types = frozenset(known)
    for pod in snapshot.indexed.of_machines.values() if types else ():
        kind = MachineType(pod.meta.labels.get(keys.MACHINE_GROUP, ""), pod.meta.labels.get(keys.MACHINE_TYPE, ""))
        if kind not in types or pod.is_terminal:
            continue
        if work.is_sleeper(pod):
            found[kind].sleepers.append(pod)
        elif _is_guest(snapshot, pod):
            found[kind].guests.append(pod)
    return found


def _wanted(pods: _Pods, available: int) -> Iterator[objects.Pod]:
    """Yield the gated guests that may be opened and have no sleeper's room, then the sleepers that are missing."""
    opened = sum(keys.MACHINE_GATE not in pod.gates for pod in pods.guests)
    gated = sorted(filter(_is_last_gate, pods.guests), key=_age)[: max(0, available - opened)]
    held = sum(keys.MACHINE_GATE not in pod.gates and _stays(pod) for pod in pods.sleepers)
    asleep = sorted(filter(_is_last_gate, pods.sleepers), key=_age)
    target = max(0, available - len(pods.guests))
    yield from gated[held:]
    yield from asleep[: max(0, target - max(0, held - len(gated)))]


def _is_guest(snapshot: Snapshot, pod: objects.Pod) -> bool:
    """Tell whether the policies made a pod a guest: they do so in namespaces that are open for guests alone."""
    labels = snapshot.namespaces.get(pod.meta.key.namespace, {})
    is_open = labels.get(keys.INJECT_RESOURCE) == keys.INJECT_ENABLED
    return is_open and pod.meta.labels.get(keys.POD_ROLE) == keys.ROLE_GUEST


def _is_last_gate(pod: objects.Pod) -> bool:
    return pod.gates == (keys.MACHINE_GATE,) and demand.is_planned_for(pod)


def _stays(pod: objects.Pod) -> bool:
    return pod.meta.deleted_at is None


def _age(pod: objects.Pod) -> tuple[float, objects.Key]:
    return pod.meta.created_at, pod.meta.key
