"""How long to wait before what failed is tried again. It counts and remembers, and sends nothing.

Everything that may be refused for ever has one of these, and one moment at which it is next tried: whatever else wakes
its owner meanwhile does not bring that moment forward.
"""

import random
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from autoscaler import clock

_EXPONENT_MAX: Final = 30
_TICK_SECONDS: Final = 0.001
"""What is due within this is due now: clocks are rounded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Pauses that grow with each failure in a row."""

    first_seconds: float
    longest_seconds: float
    factor: float = 2.0

    def pause(self, failures: int) -> float:
        """Return how long to wait after so many failures in a row; nothing after none."""
        if failures <= 0:
            return 0.0
        grown = self.first_seconds * self.factor ** min(failures - 1, _EXPONENT_MAX)
        return min(self.longest_seconds, grown)

    def jittered(self, failures: int, chance: random.Random) -> float:
        """Return a random pause, at least half as long: for many who fail at the same moment."""
        longest = self.pause(failures)
        return chance.uniform(longest / 2, longest)


class Retry:
    """One step that may fail: how often in a row it did, and when it is next tried."""

    def __init__(self, time: clock.Clock, backoff: Backoff) -> None:
        self.failures = 0
        self.next_at: float | None = None
        """On the monotonic clock; None: it has not failed."""
        self._clock = time
        self._backoff = backoff

    @property
    def is_due(self) -> bool:
        """Whether it may be tried now."""
        return self.next_at is None or self._clock.monotonic() >= self.next_at - _TICK_SECONDS

    def failed(self) -> float:
        """Note a failure; return how long it is left alone."""
        self.failures += 1
        pause = self._backoff.pause(self.failures)
        self.next_at = self._clock.monotonic() + pause
        return pause

    def succeeded(self) -> None:
        """Begin anew."""
        self.failures, self.next_at = 0, None

    def note(self, *, is_done: bool) -> None:
        """Note what became of it."""
        if is_done:
            self.succeeded()
        else:
            self.failed()


class Retries:
    """Many steps that may fail, each by the name of what it is about; forgotten some time after the last failure."""

    def __init__(self, time: clock.Clock, backoff: Backoff) -> None:
        self._clock = time
        self._backoff = backoff
        self._steps: dict[Hashable, Retry] = {}
        self._swept_at = float("-inf")

    def holds(self, name: Hashable) -> bool:
        """Tell whether it should be left alone now."""
        step = self._steps.get(name)
        return step is not None and not step.is_due

    def next_at(self, name: Hashable) -> float | None:
        """Return when it is next tried, on the monotonic clock; None if it has not failed."""
        step = self._steps.get(name)
        return step.next_at if step is not None else None

    def soonest(self) -> float | None:
        """Return when the first of those is due that are left alone now; None: none is."""
        now = self._clock.monotonic()
        return min((at for step in self._steps.values() if (at := step.next_at or now) > now), default=None)

    def failures(self, name: Hashable) -> int:
        """Return how often in a row it failed."""
        step = self._steps.get(name)
        return step.failures if step is not None else 0

    def note(self, name: Hashable, *, is_done: bool) -> None:
        """Note what became of it."""
        self._sweep()
        if is_done:
            self._steps.pop(name, None)
        else:
            self._steps.setdefault(name, Retry(self._clock, self._backoff)).failed()

    def _sweep(self) -> None:
        """Forget what failed long ago and was not tried again: it is gone."""
        now, kept = self._clock.monotonic(), self._backoff.longest_seconds
        if now >= self._swept_at + kept:
            self._steps = {name: step for name, step in self._steps.items() if now < (step.next_at or now) + kept}
            self._swept_at = now
