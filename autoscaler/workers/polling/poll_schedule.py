"""When a pool's queue is asked. Pure.

Each pool has a fixed phase within its interval, made from its uid: polls of many pools spread evenly, and neither a
restart nor a change of the pool moves them. A queue that cannot be read is asked less and less often, but in phase.
"""

import hashlib
from typing import Final

BACKOFF_MAX_SECONDS: Final = 300.0
"""A queue that cannot be read is asked at least this often, or once in its interval if that is longer."""
_DOUBLINGS: Final = 16


def seconds(interval: str) -> int:
    """Read an interval, `HH:MM:SS`."""
    hours, minutes, rest = interval.split(":")
    return int(hours) * 3600 + int(minutes) * 60 + int(rest)


def next_poll(now: float, *, uid: str, interval_seconds: int, failures: int = 0) -> float:
    """Return when the queue is next asked, after `failures` readings in a row that failed."""
    return _in_phase_after(now + _pause(failures, interval_seconds), uid, interval_seconds)


def _in_phase_after(now: float, uid: str, interval_seconds: int) -> float:
    """Return the first moment after `now` that is in the pool's phase."""
    millis = interval_seconds * 1000
    phase = int.from_bytes(hashlib.sha256(uid.encode()).digest()[:8]) % millis
    done = (int(now * 1000) - phase) // millis
    return ((done + 1) * millis + phase) / 1000


def _pause(failures: int, interval_seconds: int) -> float:
    """Return how long to leave a queue alone before its next turn; the first failure costs nothing."""
    if failures < 2:
        return 0.0
    grown = interval_seconds * (2.0 ** min(failures - 1, _DOUBLINGS) - 1)
    return min(grown, max(0.0, BACKOFF_MAX_SECONDS - interval_seconds))
