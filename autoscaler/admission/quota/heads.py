"""Who of a ClusterQueue is looked at next. Pure.

BestEffortFIFO: the first of each class of equal shape, so that smaller ones may pass. StrictFIFO: one after the other;
a Workload that lacks room blocks those behind it, a slice that does blocks nobody. Whether one fits is not asked here.
"""

import bisect
import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from autoscaler.admission.quota.cache.waiting import Place, QueueLine, WaitingClass
from autoscaler.admission.quota.refusals import Refusal


@dataclass(frozen=True, slots=True)
class Head:
    """One who is looked at: the n-th of its class."""

    found: WaitingClass
    index: int

    @property
    def place(self) -> Place:
        return self.found.members[self.index]

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
    """One at a time, in order. Who has a claim is not among them."""

    def __init__(self, line: QueueLine) -> None:
        self._line = line
        self._at = 0
        """How many of the line's heads were looked at."""
        self._next: list[tuple[Place, int, WaitingClass]] = []
        """Those behind heads that were granted what they want."""
        self._blocked_by: Place | None = None

    def start(self) -> Iterator[Head]:
        return self._following()

    def granted(self, head: Head) -> Iterator[Head]:
        following = head.next()
        if following is not None:
            heapq.heappush(self._next, (following.place, following.index, following.found))
        return self._following()

    def refused(self, head: Head, refusal: Refusal) -> Iterator[Head]:
        if refusal.lacks_room and not head.place.is_slice:
            self._block(head.place)
        return self._following()

    def _block(self, place: Place) -> None:
        """Pass over all Workloads: only slices of this priority may go on, and none of them was looked at yet."""
        self._blocked_by = place
        slices = Place(place.lowered_priority, is_slice=True, created_at=float("-inf"), uid="")
        self._at = bisect.bisect_left(self._line.heads, slices)
        self._next.clear()

    def _following(self) -> Iterator[Head]:
        while (head := self._pop()) is not None:
            if self._blocked_by is not None and not may_pass(head.place, self._blocked_by):
                return
            if not head.found.key.claimant:
                yield head
                return

    def _pop(self) -> Head | None:
        heads = self._line.heads
        if self._next and (self._at >= len(heads) or self._next[0][0] < heads[self._at]):
            _, index, found = heapq.heappop(self._next)
            return Head(found, index)
        if self._at >= len(heads):
            return None
        self._at += 1
        return Head(self._line.class_of(heads[self._at - 1]), 0)


def may_pass(place: Place, blocked: Place) -> bool:
    """Tell whether one behind a blocked Workload is looked at all the same: only an older slice of its priority."""
    same_priority = place.lowered_priority == blocked.lowered_priority
    return same_priority and (place.created_at, place.uid) < (blocked.created_at, blocked.uid)
