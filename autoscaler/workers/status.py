"""A pool's status from what is known of it. Pure: what was written before, what is true now, and the difference."""

from dataclasses import dataclass
from typing import Any, Final

from autoscaler.api import conditions, keys
from autoscaler.api.manifests import Manifest
from autoscaler.api.resources.worker_pools import PoolStatus, WorkerPool
from autoscaler.workers.model import Counts, Problem, Told

READY: Final = "Ready"
"""The last reconciliation did what it should."""
ACTIVE: Final = "Active"
"""The pool follows its queue."""
AT_CAPACITY: Final = "AtCapacity"
"""More work waits than the pool may have workers for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is true of a pool now."""

    managed_by: str
    generation: int
    counts: Counts
    queue_size: int | None
    """None: the queue was not read since we handle the pool, and what was written before stays."""
    problem: Problem | None
    full: Told | None


def changes(pool: WorkerPool, known: Known, now: float) -> Manifest:
    """Return the fields of the status that must be written; empty if it says all this already."""
    written = pool.status.model_dump(mode="json", by_alias=True, exclude_none=True)
    wanted = _status(pool, known, now)
    return {key: value for key, value in wanted.items() if written.get(key) != value}


def was(pool: WorkerPool) -> PoolStatus | None:
    """Return what the pool was last told to do, as its status remembers it; None if that was never written."""
    found = next((condition for condition in pool.status.conditions if condition.type == ACTIVE), None)
    return PoolStatus(found.reason) if found and found.reason in list(PoolStatus) else None


def _status(pool: WorkerPool, known: Known, now: float) -> dict[str, Any]:
    counts = known.counts
    return {
        "currentCapacity": counts.capacity,
        "failedWorkers": counts.failed,
        "managedBy": known.managed_by,
        "pendingWorkers": counts.pending,
        "queueEndpoint": pool.spec.queue.source.endpoint,
        **({} if known.queue_size is None else {"queueSize": known.queue_size}),
        "runningWorkers": counts.running,
        "workers": counts.total,
        "selector": f"{keys.WORKER_POOL}={pool.metadata.name}",
        "observedGeneration": known.generation,
        "conditions": _conditions(pool, known, now),
    }


def _conditions(pool: WorkerPool, known: Known, now: float) -> list[Manifest]:
    problem, full, wanted = known.problem, known.full, pool.spec.status
    said = (
        (READY, problem is None, problem.reason if problem else "Reconciled", problem.message if problem else ""),
        (ACTIVE, wanted is PoolStatus.ACTIVE, wanted, ""),
        (AT_CAPACITY, full is not None, full.reason if full else "HasRoom", full.message if full else ""),
    )
    return [
        conditions.written(kind, holds=holds, reason=reason, message=message, before=pool.status.conditions, now=now)
        for kind, holds, reason, message in said
    ]
