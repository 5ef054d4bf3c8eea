"""What was asked for and not done: it is left for a moment, longer every time, whatever else happens meanwhile.

A busy cluster makes many plans a second, and each would ask again: a provider that wants fewer calls would get more,
and so would pods that a disruption budget holds. It remembers only, and sends nothing.
"""

from dataclasses import dataclass
from typing import Final

from autoscaler import clock

FIRST_SECONDS: Final = 4.0
LONGEST_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class _Rest:
    until: float
    seconds: float


class Resting:
    """Remembers what failed, by the name of a group or an instance, or by the UID of a pod."""

    def __init__(self, time: clock.Clock) -> None:
        self._clock = time
        self._rests: dict[str, _Rest] = {}
        self._swept_at = time.monotonic()

    def holds(self, name: str) -> bool:
        """Tell whether it should not be asked for now."""
        rest = self._rests.get(name)
        return rest is not None and self._clock.monotonic() < rest.until

    def note(self, name: str, *, is_done: bool) -> None:
        """Note what became of it; what failed long ago is forgotten."""
        now = self._clock.monotonic()
        self._sweep(now)
        before = self._rests.pop(name, None)
        if not is_done:
            seconds = FIRST_SECONDS if before is None else min(LONGEST_SECONDS, 2 * before.seconds)
            self._rests[name] = _Rest(now + seconds, seconds)

    def _sweep(self, now: float) -> None:
        if now >= self._swept_at + LONGEST_SECONDS:
            self._rests = {name: each for name, each in self._rests.items() if now < each.until + LONGEST_SECONDS}
            self._swept_at = now
