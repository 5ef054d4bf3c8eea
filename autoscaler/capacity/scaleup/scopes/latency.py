"""How many slots to start for pods that wait, so that each begins before its deadline. Pure.

A slot is room for one pod, and serves one after another. A pod's deadline is the moment at which it began to wait plus
the target T. A slot is free at a known time: an idle one now, a booting one B after its launch, a busy one when its pod
has run for D; a pod that has run for longer is expected to take as long again. Pods go, oldest first, to the slot that
is free first, which is then free D later. Who would begin too late gets a new slot, unless that would be free later
still. Where T is below B no new slot is in time, and each pod without one in time gets its own.

Deadlines are absolute: pods that wait for a slot get none in a later cycle either, unless work takes longer than
expected. `wake_at` says when that would show. Pods and slots that are alike are taken together, so that N pods on C
slots take O((N + C) log C) steps at most.
"""

import dataclasses
import heapq
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from autoscaler.api import keys
from autoscaler.api.resources.instances import Instance, Phase
from autoscaler.capacity import work
from autoscaler.kube import objects

DURATION_SECONDS: Final = 600
"""How long a pod is thought to run while none has ended yet."""
BOOT_SECONDS: Final = 120
"""How long an instance is thought to take while none is there."""
COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
"""Label on the pods of an Indexed Job."""
_LOOK_SECONDS: Final = 1.0
"""Time alone leads to another look at most so often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a scope wants of a pool, and what the pool can do."""

    target_seconds: int | None = None
    """None: room for all at once."""
    boot_seconds: int = BOOT_SECONDS
    duration_seconds: int | None = None
    """Of the scope's pods in the pool, on average. None: none has ended yet."""
    is_ephemeral: bool = False

    @property
    def shares_slots(self) -> bool:
        """Tell whether a pod may wait for a slot that another one has: not in ephemeral pools, nor without a target."""
        return self.target_seconds is not None and not self.is_ephemeral

    @property
    def is_reachable(self) -> bool:
        """Tell whether a new slot is in time for a pod that begins to wait."""
        return self.target_seconds is not None and self.target_seconds >= self.boot_seconds

    @property
    def mean_seconds(self) -> int:
        return DURATION_SECONDS if self.duration_seconds is None else max(1, self.duration_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How many of the waiting pods get a slot now, and the numbers compared."""

    waiting: int
    slots: int
    """For so many pods there is a slot that is idle, booting or new; the others wait for one to be free."""
    target: Target
    busy: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    """Pods of one kind that have waited since the same moment."""

    kind: int
    since: float
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Slots:
    """Slots that are free at the same time."""

    free_at: float
    stands_until: float
    """What is expected by then and does not come makes `free_at` move on with the clock."""
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Which pods get a slot of their own, and which wait for one."""

    new: tuple[Queued, ...] = ()
    """Those that get a new slot each, oldest first."""
    waiting: int = 0
    """How many wait for a slot that is free in time, or sooner than a new one."""
    late: tuple[Queued, ...] = ()
    """Those that would begin too late, and may have no new slot."""
    wake_at: float | None = None
    """When time alone may change the answer."""


def busy(began_at: float, target: Target, now: float) -> Slots:
    """Return the slot of a pod that runs."""
    rest = target.mean_seconds - max(0.0, now - began_at)
    if rest > 0:
        return Slots(free_at=now + rest, stands_until=now + rest)
    return Slots(free_at=now + target.mean_seconds, stands_until=now)


def taken(ready_at: float, target: Target, now: float, count: int) -> Slots:
    """Return slots that are idle or booting, once pods that wait now have begun and ended there."""
    begins_at = max(now, ready_at)
    return Slots(free_at=begins_at + target.mean_seconds, stands_until=begins_at, count=count)


def schedule(
    pods: Iterable[Queued],
    slots: Iterable[Slots],
    target: Target,
    *,
    now: float,
    most: Mapping[int, int] | None = None,
) -> Schedule:
    """Say which pods get a new slot, of each kind so many at most, and which wait for one that is there."""
    times = _Timetable(slots if target.shares_slots else (), target, now)
    new, late, waiting, given = list[Queued](), list[Queued](), 0, dict[int, int]()
    for pod in sorted(pods, key=lambda each: each.since):
        left = pod.count
        while left:
            served = times.take(pod.since, left)
            waiting += served
            left -= served
            if served:
                continue
            room = left if most is None else most.get(pod.kind, 0) - given.get(pod.kind, 0)
            more = min(times.needed(pod.since, left), room)
            if not more:
                late.append(dataclasses.replace(pod, count=left))
                break
            times.add(more)
            new.append(dataclasses.replace(pod, count=more))
            given[pod.kind] = given.get(pod.kind, 0) + more
            left -= more
    return Schedule(new=tuple(new), waiting=waiting, late=tuple(late), wake_at=times.wake_at)


class _Timetable:
    """When slots are free: a heap of (time, until when that time stands, count)."""

    def __init__(self, slots: Iterable[Slots], target: Target, now: float) -> None:
        self._target, self._now = target, now
        self._new_at = now + target.boot_seconds
        self.wake_at: float | None = None
        counts: dict[tuple[float, float], int] = {}
        for each in slots:
            key = (each.free_at, each.stands_until)
            counts[key] = counts.get(key, 0) + each.count
        self._heap = [(free_at, stands, count) for (free_at, stands), count in counts.items()]
        heapq.heapify(self._heap)

    def take(self, since: float, count: int) -> int:
        """Give the slots that are free first to so many pods at most, if that is soon enough; return to how many."""
        if not self._heap:
            return 0
        free_at, stands, there = self._heap[0]
        deadline = self._deadline(since)
        if free_at > deadline and not (self._target.is_reachable and free_at <= self._new_at):
            return 0
        self._look_again(free_at, stands, deadline)
        taken = min(count, there)
        heapq.heapreplace(self._heap, (free_at + self._target.mean_seconds, stands, taken))
        if taken < there:
            heapq.heappush(self._heap, (free_at, stands, there - taken))
        return taken

    def needed(self, since: float, count: int) -> int:
        """Return how many new slots serve so many pods in time."""
        spare = self._deadline(since) - self._new_at
        if not self._target.shares_slots or spare < 0:
            return count
        return -(-count // (int(spare // self._target.mean_seconds) + 1))

    def add(self, count: int) -> None:
        """Add new slots, each of which has a pod."""
        if self._target.shares_slots:
            heapq.heappush(self._heap, (self._new_at + self._target.mean_seconds, self._new_at, count))

    def _deadline(self, since: float) -> float:
        return since + (self._target.target_seconds or 0)

    def _look_again(self, free_at: float, stands: float, deadline: float) -> None:
        """Note when a slot may turn out to be free later than expected; where it does already, when that is too late.

        The time of a new slot moves on as well, so pods that are late already stay where they are.
        """
        if stands > self._now:
            at = stands
        elif free_at <= deadline:
            at = self._now + deadline - free_at
        else:
            return
        at = max(at, self._now + _LOOK_SECONDS)
        self.wake_at = at if self.wake_at is None else min(at, self.wake_at)


def makes_room(leaving: Mapping[str, int], coming: Iterable[Mapping[str, int]]) -> bool:
    """Tell whether the slot of a pod can be taken by any of those that wait; only then does it count as busy.

    All are what pods request. Otherwise pods of another size would be left to wait for a slot that never suits them.
    """
    return all(amount <= leaving.get(name, 0) for each in coming for name, amount in each.items())


def may_wait(pod: objects.Pod) -> bool:
    """Tell whether a pod may be left to wait for another one to end.

    Not those that only work together (jobs under quota or in one zone, Indexed Jobs), nor those that may never end.
    """
    owner, labels = pod.meta.controller, pod.meta.labels
    if owner is None or keys.QUEUE_NAME in labels or COMPLETION_INDEX in labels:
        return False
    if keys.SAME_ZONE in pod.meta.annotations:
        return False
    return owner.kind in work.FINITE


def boot_seconds(
    instances: Iterable[Instance], by_provider: Mapping[str, objects.Node], longest: float = float("inf")
) -> int:
    """Return how long instances take from their launch until their node is ready: the median of those that are.

    One that took longer than any may was ready before, and is so again: nobody knows how long it took at first.
    """
    took = []
    for instance in instances:
        status = instance.status
        node = by_provider.get(status.provider_id or "")
        if status.phase is Phase.READY and status.instance_created_at is not None and node is not None and node.ready:
            ready_at = node.ready_changed_at or node.meta.created_at
            took.append(max(0, int(ready_at - status.instance_created_at.timestamp())))
    took = [seconds for seconds in took if seconds <= longest]
    return statistics.median_high(took) if took else BOOT_SECONDS
