"""A pool's status from what is known of it. Pure: what was written before, what is true now, and the difference."""

from dataclasses import dataclass
from typing import Any, Final

from autoscaler.api import conditions, keys
from autoscaler.api import status as statuses
from autoscaler.api.manifests import Manifest
from autoscaler.api.resources.worker_pools import PoolStatus, WorkerPool, WorkerPoolStatus
from autoscaler.workers.model import Counts, Problem, Told

READY: Final = "Ready"
"""The last reconciliation did what it should."""
ACTIVE: Final = "Active"
"""The pool follows its queue."""
AT_CAPACITY: Final = "AtCapacity"
"""More work waits than the pool may have workers for, or failed workers that are kept fill it."""
NO_OPERATOR: Final = "NoOperator"
"""Why a pool is not ready that nobody handles."""


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
    return statuses.changes(pool.status, _status(pool, known, now))


def unhandled(pool: WorkerPool, message: str, now: float) -> Manifest:
    """Return what must be written into the status of a pool that nobody handles; empty if it says so already."""
    ready = _condition(pool, READY, holds=False, reason=NO_OPERATOR, message=message, now=now)
    others = [each.model_dump(mode="json", by_alias=True) for each in pool.status.conditions if each.type != READY]
    return statuses.changes(pool.status, {"conditions": [ready, *others]})


def was(pool: WorkerPool) -> PoolStatus | None:
    """Return what the pool was last told to do, as its status remembers it; None if that was never written."""
    found = next((condition for condition in pool.status.conditions if condition.type == ACTIVE), None)
    return PoolStatus(found.reason) if found and found.reason in list(PoolStatus) else None


def _status(pool: WorkerPool, known: Known, now: float) -> WorkerPoolStatus:
    counts = known.counts
    is_shut_down = pool.spec.status is PoolStatus.SHUTDOWN  # its queue is not read: an old number would mislead
    queue_size = 0 if is_shut_down else known.queue_size
    return WorkerPoolStatus(
        current_capacity=counts.capacity,
        failed_workers=counts.failed,
        managed_by=known.managed_by,
        pending_workers=counts.pending,
        queue_endpoint=pool.spec.queue.source.endpoint,
        running_workers=counts.running,
        workers=counts.total,
        selector=f"{keys.WORKER_POOL}={pool.metadata.name}",
        observed_generation=known.generation,
        conditions=_conditions(pool, known, now),
        **({} if queue_size is None else {"queue_size": queue_size}),
    )


def _conditions(pool: WorkerPool, known: Known, now: float) -> Any:  # noqa: ANN401  # the model reads them
    problem, full, wanted = known.problem, known.full, pool.spec.status
    full_reason = "HasRoom" if full is None else full.condition
    said = (
        (READY, problem is None, problem.reason if problem else "Reconciled", problem.message if problem else ""),
        (ACTIVE, wanted is PoolStatus.ACTIVE, wanted, ""),
        (AT_CAPACITY, full is not None, full_reason, full.message if full else ""),
    )
    return tuple(
        _condition(pool, kind, holds=holds, reason=reason, message=message, now=now)
        for kind, holds, reason, message in said
    )


def _condition(  # a condition has as many parts
    pool: WorkerPool, kind: str, *, holds: bool, reason: str, message: str, now: float
) -> Manifest:
    before = pool.status.conditions
    return conditions.written(kind, holds=holds, reason=reason, message=message, before=before, now=now)
