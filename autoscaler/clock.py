"""Time as everything above reads it: the wall clock for what is written down, the monotonic one for deadlines.

In a simulation both are virtual. Nothing but this module may read the computer's clock.
"""

import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> float:
        """Return seconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back, the same as the event loop's `time()`."""
        ...


class SystemClock:
    """The computer's clock."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


def to_rfc3339(seconds: float) -> str:
    """Write a time as Kubernetes does in most places: UTC, whole seconds."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def to_rfc3339_micro(seconds: float) -> str:
    """Write a time as Kubernetes does in Leases and Events: UTC, six digits of the second."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def on_wall(time: Clock, monotonic: float | None) -> float | None:
    """Return when a moment of the monotonic clock is on the wall clock, now at the earliest; None stays None."""
    return None if monotonic is None else time.now() + max(0.0, monotonic - time.monotonic())


def earliest(times: Iterable[float | None]) -> float | None:
    """Return the first of several moments, those that are not known left out; None if none is."""
    return min((at for at in times if at is not None), default=None)
