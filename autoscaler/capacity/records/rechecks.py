"""Whether what follows changes still says what making it afresh would say. It heals nothing and decides nothing.

Whoever keeps something current by changes makes it afresh now and then, a portion at a time so that no cycle pays for
all of it, and tells here of what was different. A difference is a defect of ours: it is logged and counted.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import structlog

from autoscaler import control
from autoscaler.capacity.indexes import afresh
from autoscaler.control import metrics
from autoscaler.kube import store

log = structlog.get_logger()
ALL_SECONDS: Final = 600.0
"""Within about this time everything is made afresh once."""
TOLD_MAX: Final = 5
DIFFERENCES: Final = "sluice_index_differences"


class Rechecks:
    """When the next portion is due, and what was different so far."""

    def __init__(self, context: control.ControllerContext, indexes: Mapping[str, afresh.Afresh[Any]]) -> None:
        self._clock = context.clock
        self._indexes = indexes
        self._next_at = 0.0
        self._differences: Counter[str] = Counter()
        context.measure(self._measure)

    def pause(self) -> float:
        """Return how many seconds lie between two portions."""
        return ALL_SECONDS / self._steps()

    def go_on(self) -> bool:
        """Take the next portion of everything, if it is time; tell whether it was."""
        now = self._clock.monotonic()
        if now < self._next_at:
            return False
        self._next_at = now + self.pause()
        for name, index in self._indexes.items():
            if index.go_on(self.share_of(index.table)):
                self.tell(name, {name})
        return True

    def share_of(self, table: store.Table[Any]) -> int:
        """Return how many objects of a table are a portion."""
        return math.ceil(len(table) / self._steps())

    def _steps(self) -> float:
        return max(1.0, *(len(index.table) / index.portion for index in self._indexes.values()))

    def tell(self, index: str, different: Collection[str]) -> None:
        """Tell what was different."""
        if different:
            self._differences[index] += len(different)
            log.warning("index_differs", index=index, count=len(different), objects=sorted(different)[:TOLD_MAX])

    def _measure(self) -> Iterable[metrics.Metric]:
        text = "Differences between an index and the same made afresh, which were healed at once."
        yield metrics.counter(DIFFERENCES, text, [({"index": name}, n) for name, n in self._differences.items()])
