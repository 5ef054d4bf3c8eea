"""Whether what follows changes still says what making it afresh would say. It heals nothing and decides nothing.

Whoever keeps something current by changes makes it afresh now and then, a portion at a time so that no cycle pays for
all of it, and tells here of what was different. A difference is a defect of ours: it is logged and counted.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Final

import structlog

from autoscaler import control
from autoscaler.control import metrics

log = structlog.get_logger()
ALL_SECONDS: Final = 600.0
"""Within about this time everything is made afresh once."""
PORTION: Final = 100
"""So many objects at a time."""
TOLD_MAX: Final = 5
DIFFERENCES: Final = "sluice_index_differences_total"


class Rechecks:
    """When the next portion is due, and what was different so far."""

    def __init__(self, context: control.ControllerContext) -> None:
        self._clock = context.clock
        self._next_at = 0.0
        self._differences: Counter[str] = Counter()
        context.measure(self._measure)

    def is_due(self, existing: int) -> bool:
        """Tell whether another portion of so many objects should be looked at now; it counts as done then."""
        now = self._clock.monotonic()
        if now < self._next_at:
            return False
        self._next_at = now + pause(existing)
        return True

    def tell(self, index: str, different: Collection[str]) -> None:
        """Tell what was different."""
        if different:
            self._differences[index] += len(different)
            log.warning("index_differs", index=index, count=len(different), objects=sorted(different)[:TOLD_MAX])

    def _measure(self) -> Iterable[metrics.Metric]:
        text = "Objects of which an index said something else than making it afresh did; healed at once."
        yield metrics.counter(DIFFERENCES, text, [({"index": name}, n) for name, n in self._differences.items()])


def pause(existing: int) -> float:
    """Return how many seconds lie between two portions of so many objects."""
    return min(ALL_SECONDS, ALL_SECONDS * PORTION / max(1, existing))
