"""What changed and is to be looked at, each thing at most once in so many seconds. It decides nothing."""

import heapq
import itertools
from collections.abc import Hashable, Iterator
from typing import Final, Generic, TypeVar

from autoscaler import clock

K = TypeVar("K", bound=Hashable)
_TICK_SECONDS: Final = 0.001
"""What is due within this is due now: clocks are rounded."""


class Pacer(Generic[K]):
    """What changed, and when each of it may be looked at again. All times are of the monotonic clock."""

    def __init__(self, time: clock.Clock, seconds: float) -> None:
        self._clock = time
        self._seconds = seconds
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._order = itertools.count()
        self._last: dict[K, float] = {}
        """When each was last handed out, oldest first; forgotten once that does not matter any more."""

    def note(self, key: K, *, at: float = 0.0) -> None:
        """Have something looked at, not before a time, and not too soon after the last look."""
        due = max(at, self._last.get(key, float("-inf")) + self._seconds)
        if due < self._due.get(key, float("inf")):
            self._due[key] = due
            heapq.heappush(self._heap, (due, next(self._order), key))

    def take(self) -> Iterator[K]:
        """Hand out what is due now, earliest first."""
        now = self._clock.monotonic()
        self._forget(now)
        while self.next_at is not None and self.next_at <= now + _TICK_SECONDS:
            key = heapq.heappop(self._heap)[2]
            del self._due[key]
            self._last.pop(key, None)
            self._last[key] = now
            yield key

    @property
    def next_at(self) -> float | None:
        """When something is due; None: nothing is."""
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _forget(self, now: float) -> None:
        while self._last and next(iter(self._last.values())) + self._seconds <= now:
            del self._last[next(iter(self._last))]
