"""Where one stands in its queue, and about how long it will still wait. Pure.

The estimate follows the last admissions of the queue: if the last n came in t seconds, the k-th in line comes in about
k · t / n. Silence since then counts, so that an estimate grows while nothing moves. It is only shown:
nothing is decided by it.
"""

import math
from dataclasses import dataclass
from typing import Final

from autoscaler.admission.quota.cache.books import Books
from autoscaler.admission.workloads.workload import Workload

SHOWN: Final = 20
"""How many of a queue are told their position."""
_FEWEST: Final = 2
"""From one admission alone nothing follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What one who waits may be told."""

    workload: Workload
    position: int
    wait_seconds: int | None
    """None: too little was admitted to tell."""


def first(books: Books, queue: str, *, now: float, most: int = SHOWN) -> list[Outlook]:
    """Tell the first of a ClusterQueue where they stand."""
    interval = _interval(books.admitted.recent(queue), now)
    return [
        Outlook(
            workload=books.workload(place.uid),
            position=position,
            wait_seconds=math.ceil(position * interval) if interval is not None else None,
        )
        for position, place in enumerate(books.waiting.first(queue, most), start=1)
    ]


def _interval(recent: tuple[float, ...], now: float) -> float | None:
    if len(recent) < _FEWEST or now <= recent[0]:
        return None
    return (now - recent[0]) / len(recent)
