"""The numbers of worker pools, as metrics. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from autoscaler.control import metrics
from autoscaler.kube import objects
from autoscaler.workers.model import Counts, Phase

_PREFIX: Final = "sluice_worker_pool"


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """What is counted of one pool."""

    pool: objects.Key
    workers: Counts
    queue_size: int | None
    """What the queue said last; None: nobody knows."""
    polls: Counter[str] = field(default_factory=Counter)
    """Readings of the queue by how they ended."""
    poll_seconds: float = 0.0


def of(pools: Sequence[Numbers]) -> Iterable[metrics.Metric]:
    """Return the numbers of these pools."""
    counted = [(_labels(pool), pool.workers) for pool in pools]
    by_phase = [
        ({**labels, "phase": phase}, number)
        for labels, counts in counted
        for phase, number in (
            (Phase.RUNNING, counts.running),
            (Phase.PENDING, counts.pending),
            (Phase.FAILED, counts.failed),
        )
    ]
    yield metrics.gauge(f"{_PREFIX}_workers", "Worker pods of a pool, by phase.", by_phase)
    capacity = [(labels, counts.capacity) for labels, counts in counted]
    yield metrics.gauge(f"{_PREFIX}_capacity", "How many more workers a pool may have.", capacity)
    sizes = [(_labels(pool), pool.queue_size) for pool in pools if pool.queue_size is not None]
    yield metrics.gauge(f"{_PREFIX}_queue_size", "Jobs that waited when the queue was last read.", sizes)
    polls = [
        ({**_labels(pool), "outcome": outcome}, number)
        for pool in pools
        for outcome, number in sorted(pool.polls.items())
    ]
    yield metrics.counter(f"{_PREFIX}_polls", "Readings of a pool's queue, by how they ended.", polls)
    seconds = [(_labels(pool), pool.poll_seconds, pool.polls.total()) for pool in pools]
    yield metrics.summary(f"{_PREFIX}_poll_seconds", "How long readings of a pool's queue take.", seconds)


def _labels(numbers: Numbers) -> dict[str, str]:
    return {"pool_namespace": numbers.pool.namespace, "pool": numbers.pool.name}
