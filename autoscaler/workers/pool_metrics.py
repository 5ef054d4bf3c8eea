"""The numbers of worker pools, as metrics. Pure."""

from collections.abc import Iterable, Sequence
from typing import Final

from autoscaler.control import metrics
from autoscaler.workers.model import Phase
from autoscaler.workers.pool_reconciler import PoolReconciler

_PREFIX: Final = "sluice_worker_pool"


def of(pools: Sequence[PoolReconciler]) -> Iterable[metrics.Metric]:
    """Return the numbers of the pools that are handled."""
    counted = [(_labels(pool), pool.counts()) for pool in pools]
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


def _labels(pool: PoolReconciler) -> dict[str, str]:
    return {"pool_namespace": pool.key.namespace, "pool": pool.key.name}
