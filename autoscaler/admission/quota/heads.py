"""Who of a ClusterQueue is looked at next. Pure.

BestEffortFIFO: the first of each class of equal shape, so that smaller ones may pass. StrictFIFO: one after the other;
a Workload that lacks room blocks those behind it, a slice that does blocks nobody.
"""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from autoscaler.admission.quota.refusals import Refusal
from autoscaler.admission.quota.waiting import Place, WaitingClass


@dataclass(frozen=True, slots=True)
class Head:
    """One who is looked at: the n-th of its class."""

    found: WaitingClass
    index: int

    @property
    def place(self) -> Place:
        return self.found.members[self.index]

    @property
    def is_first(self) -> bool:
        return self.index == 0

    def next(self) -> "Head | None":
        """Return the next of the class; None: there is none."""
        return Head(self.found, self.index + 1) if self.index + 1 < len(self.found) else None


class Line(Protocol):
    """The heads of one ClusterQueue."""

    def start(self) -> Iterator[Head]:
        """Return who is looked at first."""
        ...

    def granted(self, head: Head) -> Iterator[Head]:
        """Return who is looked at after one that was granted what it wants."""
        ...

    def refused(self, head: Head, refusal: Refusal) -> Iterator[Head]:
        """Return who is looked at after one that was not."""
        ...


class BestEffort:
    """A class that was refused is done with; the others go on."""

    def __init__(self, classes: Iterable[WaitingClass]) -> None:
        self._classes = classes

    def start(self) -> Iterator[Head]:
        return (Head(found, 0) for found in self._classes)

    def granted(self, head: Head) -> Iterator[Head]:
        following = head.next()
        if following is not None:
            yield following

    def refused(self, head: Head, refusal: Refusal) -> Iterator[Head]:  # noqa: ARG002  # the other line needs them
        return iter(())


class Strict:
    """One at a time, in order."""

    def __init__(self, classes: Iterable[WaitingClass]) -> None:
        self._heap = [(found.members[0], 0, found) for found in classes]
        heapq.heapify(self._heap)
        self._blocked_by: Place | None = None

    def start(self) -> Iterator[Head]:
        return self._following()

    def granted(self, head: Head) -> Iterator[Head]:
        following = head.next()
        if following is not None:
            heapq.heappush(self._heap, (following.place, following.index, following.found))
        return self._following()

    def refused(self, head: Head, refusal: Refusal) -> Iterator[Head]:
        if refusal.lacks_room and not head.place.is_slice and self._blocked_by is None:
            self._blocked_by = head.place
        return self._following()

    def _following(self) -> Iterator[Head]:
        while self._heap:
            place, index, found = heapq.heappop(self._heap)
            if self._blocked_by is None or _may_pass(place, self._blocked_by):
                yield Head(found, index)
                return


def _may_pass(place: Place, blocked: Place) -> bool:
    """Tell whether one may be looked at though a Workload before it is blocked: only an older slice of its priority."""
    same_priority = place.lowered_priority == blocked.lowered_priority
    return place.is_slice and same_priority and (place.created_at, place.uid) < (blocked.created_at, blocked.uid)
