"""How many places to start for pods that wait, so that the last of them waits no longer than its scope wants. Pure.

A place is room for one pod. It serves a pod at once and another one each time a pod ends, so within a target T it
serves floor((T - B) / D) + 1 pods, where B is how long an instance takes to start and D how long a pod runs. So N pods
need ceil(N / that) places, and those that are there or on their way count. A lower target means more places.

The number of places is reckoned anew from all pods that wait and all places that are there, never from what an earlier
reckoning left over: pods left to wait for a place to become free start nothing in the next cycle either.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
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


class Reason(StrEnum):
    """What decided how many pods get a place."""

    NO_TARGET = "NoTarget"
    EPHEMERAL = "Ephemeral"
    """No place serves twice."""
    TARGET_BELOW_BOOT = "TargetBelowBoot"
    """Whatever is started comes too late: all that can be done is not to add to it."""
    TARGET = "Target"


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
    def reason(self) -> Reason:
        if self.is_ephemeral:
            return Reason.EPHEMERAL
        if self.target_seconds is None:
            return Reason.NO_TARGET
        return Reason.TARGET_BELOW_BOOT if self.target_seconds < self.boot_seconds else Reason.TARGET

    @property
    def pods_per_place(self) -> int:
        """How many pods one place serves within the target."""
        if self.target_seconds is None or self.reason is not Reason.TARGET:
            return 1
        mean = DURATION_SECONDS if self.duration_seconds is None else max(1, self.duration_seconds)
        return (self.target_seconds - self.boot_seconds) // mean + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How many of the waiting pods get a place now, and the numbers compared."""

    waiting: int
    places: int
    """For so many pods there should be a place that is idle, starting or new; the others wait for one to be free."""
    target: Target
    busy: int = 0

    @property
    def left(self) -> int:
        """The pods that wait for a place to become free."""
        return self.waiting - self.places


def needed(waiting: int, target: Target) -> int:
    """Return how many places serve so many pods within the target."""
    return -(-waiting // target.pods_per_place)


def patience(waiting: int, target: Target, *, busy: int) -> Patience:
    """Return how many of the waiting pods should have a place now that no pod holds.

    Placement fills idle and booting places before it starts new ones, so these are not subtracted here. Busy ones are:
    they serve waiting pods too, unless no place serves twice or nothing can be in time.
    """
    places = max(0, needed(waiting, target) - _counted(target, busy))
    return Patience(waiting=waiting, places=places, target=target, busy=busy)


def served(places: int, target: Target, *, busy: int) -> int:
    """Return how many waiting pods so many places serve within the target, with those that become free."""
    return (places + _counted(target, busy)) * target.pods_per_place


def shared(places: int, counts: Sequence[int]) -> tuple[int, ...]:
    """Share places out to kinds of pods: one each while there are any, for a kind may fit where no other does.

    The rest goes by numbers, and what cannot be divided to the first of the largest remainders. The sum is the number
    of places, or that of the pods if it is lower; no kind gets more than it has.
    """
    parts = [0] * len(counts)
    for number in [number for number, count in enumerate(counts) if count][:places]:
        parts[number] = 1
    missing = [count - part for count, part in zip(counts, parts, strict=True)]
    total = sum(missing)
    given = min(places - sum(parts), total)
    for number, count in enumerate(missing):
        parts[number] += given * count // total if total else 0
    order = sorted(range(len(counts)), key=lambda number: (-(given * missing[number] % max(1, total)), number))
    for number in order[: min(places, sum(counts)) - sum(parts)]:
        parts[number] += 1
    return tuple(parts)


def makes_room(leaving: Mapping[str, int], coming: Iterable[Mapping[str, int]]) -> bool:
    """Tell whether the place of a pod can be taken by any of those that wait; only then does it count as busy.

    All are what pods request. Otherwise pods of another size would be left to wait for a place that never suits them.
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


def _counted(target: Target, busy: int) -> int:
    """Return how many busy places serve waiting pods in time."""
    return busy if target.reason is Reason.TARGET else 0
