"""Which machines go. Pure: idle ones, never below their group's minimum, and never one that waiting pods count on.

A machine is idle while no pod works on it; what runs on every node anyway is no work. Whoever carries this out marks
the node, waits, and looks again before anything is ended.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from autoscaler.capacity import supply
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.cloud import port as cloud
from autoscaler.kube import objects

AT_ONCE: Final = 10


class Reason(StrEnum):
    """Why a machine goes."""

    IDLE = "Idle"


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """A machine that should go."""

    group: cloud.GroupName
    instance: cloud.InstanceId
    node: objects.Key
    node_uid: str
    reason: Reason
    idle_since: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Machines that should go now, and when the next one might."""

    removals: tuple[Removal, ...] = ()
    wake_at: float | None = None


def is_work(pod: objects.Pod) -> bool:
    """Tell whether a pod keeps its node: all but what ended, what every node runs, and what a node runs for itself."""
    owner = pod.meta.controller
    is_daemon = owner is not None and owner.kind in {"DaemonSet", "Node"}
    return not pod.is_terminal and not is_daemon and objects.MIRROR not in pod.meta.annotations


def idle_since(snapshot: Snapshot, before: Mapping[str, float]) -> dict[str, float]:
    """Return since when each idle node of a group has been so, given what was known a moment ago."""
    busy = {pod.node_name or pod.nominated_node for pod in snapshot.pods.values() if is_work(pod)}
    found = {}
    for group in snapshot.groups:
        for node in supply.nodes_of(snapshot, group).values():
            name = node.meta.key.name
            if node.ready and name not in busy:
                found[name] = before.get(name, max(snapshot.now, node.ready_changed_at or 0.0))
    return found


def choose(snapshot: Snapshot, idle: Mapping[str, float], needed: frozenset[str]) -> Choice:
    """Choose idle machines, the longest idle first, a few at a time."""
    spare = {group.name: max(0, group.desired - group.minimum) for group in snapshot.groups}
    due: list[Removal] = []
    later: list[float] = []
    for removal, at in _candidates(snapshot, idle):
        if removal.node.name in needed:
            continue
        if at > snapshot.now:
            later.append(at)
        else:
            due.append(removal)
    due.sort(key=lambda each: (each.idle_since, each.node))
    return Choice(removals=_within(due, spare), wake_at=min(later, default=None))


def _candidates(snapshot: Snapshot, idle: Mapping[str, float]) -> Iterable[tuple[Removal, float]]:
    for group in snapshot.groups:
        pool = snapshot.pools.get(group.key.pool)
        nodes = supply.nodes_of(snapshot, group)
        for instance in group.members if pool is not None else ():
            node = nodes.get(instance.provider_id)
            if pool is None or node is None or node.meta.key.name not in idle:
                continue
            since = idle[node.meta.key.name]
            removal = Removal(
                group=group.name,
                instance=instance.id,
                node=node.meta.key,
                node_uid=node.meta.uid,
                reason=Reason.IDLE,
                idle_since=since,
            )
            yield removal, since + pool.limits.max_idle_seconds


def _within(due: Iterable[Removal], spare: Mapping[cloud.GroupName, int]) -> tuple[Removal, ...]:
    """Keep what no group's minimum forbids, and not more than may go at once."""
    taken: Counter[cloud.GroupName] = Counter()
    chosen: list[Removal] = []
    for removal in due:
        if len(chosen) < AT_ONCE and taken[removal.group] < spare[removal.group]:
            taken[removal.group] += 1
            chosen.append(removal)
    return tuple(chosen)
