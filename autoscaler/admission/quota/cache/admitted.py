"""The admitted Workloads of each queue: who is displaced first, and when the last ones were admitted.

Nobody is chosen here: whether one is displaced is decided in `preemption`.
"""

import bisect
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from autoscaler.admission.workloads.workload import ConditionType, Workload

RECENT_MAX: Final = 64
"""How many admissions of each queue are remembered for estimates."""


class Standing(NamedTuple):
    """A Workload's place among those that may be displaced: lowest priority, then youngest, then UID."""

    priority: int
    lowered_admitted_at: float
    """When it was admitted, with its sign changed, so that smaller means sooner."""
    uid: str


class _Granted(NamedTuple):
    queue: str
    is_slice: bool
    admitted_at: float
    standing: Standing | None


class Admitted:
    """All that have quota, by ClusterQueue."""

    def __init__(self) -> None:
        self._granted: dict[str, _Granted] = {}
        self._displaceable: dict[str, list[Standing]] = {}
        self._leaving: dict[str, set[str]] = {}
        self._recent: dict[str, list[float]] = {}

    def displaceable(self, queue: str) -> list[Standing]:
        """Return the Workloads of a queue that are not leaving, in the order in which they are displaced."""
        return self._displaceable.get(queue, [])

    def leaving(self, queue: str) -> AbstractSet[str]:
        """Return the UIDs of the Workloads of a queue that are about to give their quota back."""
        return self._leaving.get(queue, frozenset())

    def recent(self, queue: str) -> tuple[float, ...]:
        """Return when the last Workloads and slices were admitted into a ClusterQueue, oldest first."""
        return tuple(self._recent.get(queue, ()))

    def take(self, uid: str, workload: Workload | None) -> AbstractSet[str]:
        """Take over what a Workload or slice is now; return the queues in which others may be displaced now."""
        old, new = self._granted.get(uid), _granted(workload)
        if old == new:
            return set()
        if old is not None:
            del self._granted[uid]
            self._list(uid, old, -1)
        if new is not None:
            self._granted[uid] = new
            self._list(uid, new, 1)
        if new is not None and (old is None or old.queue != new.queue):
            self._remember(new.queue, new.admitted_at)
        return {each.queue for each in (old, new) if each is not None}

    def _list(self, uid: str, granted: _Granted, times: int) -> None:
        if granted.is_slice:
            return
        if granted.standing is None:
            leaving = self._leaving.setdefault(granted.queue, set())
            leaving.add(uid) if times > 0 else leaving.remove(uid)
            return
        listed = self._displaceable.setdefault(granted.queue, [])
        if times > 0:
            bisect.insort(listed, granted.standing)
        else:
            del listed[bisect.bisect_left(listed, granted.standing)]

    def _remember(self, queue: str, at: float) -> None:
        recent = self._recent.setdefault(queue, [])
        bisect.insort(recent, at)
        del recent[:-RECENT_MAX]


def is_leaving(workload: Workload) -> bool:
    """Tell whether a Workload has quota that it is about to give back."""
    return workload.is_evicted or workload.is_finished or workload.is_leaving or not workload.active


def admitted_at(workload: Workload) -> float:
    """Return when a Workload was admitted; 0 if it does not say."""
    found = workload.conditions.get(ConditionType.ADMITTED)
    return found.since if found is not None else 0.0


def _granted(workload: Workload | None) -> _Granted | None:
    if workload is None or workload.admission is None:
        return None
    at = admitted_at(workload)
    return _Granted(
        queue=workload.admission.cluster_queue,
        is_slice=workload.is_slice,
        admitted_at=at,
        standing=None if is_leaving(workload) else Standing(workload.priority, -at, workload.meta.uid),
    )
