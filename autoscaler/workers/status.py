"""A pool's status from what is known of it. Pure: what was written before, what is true now, and the difference."""

from dataclasses import dataclass
from typing import Any, Final

from autoscaler import clock
from autoscaler.api import keys
from autoscaler.api.manifests import Manifest
from autoscaler.api.resources.base import Condition, ConditionStatus
from autoscaler.api.resources.worker_pools import PoolStatus, WorkerPool
from autoscaler.workers.model import Counts, Problem, Told

READY: Final = "Ready"
"""The last reconciliation did what it should."""
ACTIVE: Final = "Active"
"""The pool follows its queue."""
AT_CAPACITY: Final = "AtCapacity"
"""More work waits than the pool may have workers for."""
MESSAGE_MAX: Final = 1024


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
    conditions = [_ready(known), _active(pool.spec.status), _at_capacity(known.full)]
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
        "conditions": [_dated(condition, pool.status.conditions, now) for condition in conditions],
    }


def _ready(known: Known) -> Manifest:
    if known.problem is None:
        return _condition(READY, "Reconciled", "", holds=True)
    return _condition(READY, known.problem.reason, known.problem.message, holds=False)


def _active(wanted: PoolStatus) -> Manifest:
    return _condition(ACTIVE, wanted, "", holds=wanted is PoolStatus.ACTIVE)


def _at_capacity(full: Told | None) -> Manifest:
    if full is None:
        return _condition(AT_CAPACITY, "HasRoom", "", holds=False)
    return _condition(AT_CAPACITY, full.reason, full.message, holds=True)


def _condition(kind: str, reason: str, message: str, *, holds: bool) -> Manifest:
    status = ConditionStatus.TRUE if holds else ConditionStatus.FALSE
    return {"type": kind, "status": str(status), "reason": str(reason), "message": message[:MESSAGE_MAX]}


def _dated(condition: Manifest, written: tuple[Condition, ...], now: float) -> Manifest:
    """Add since when the condition has had its status."""
    before = next((each for each in written if each.type == condition["type"]), None)
    same = before is not None and str(before.status) == condition["status"]
    since = before.last_transition_time.timestamp() if before is not None and same else now
    return {**condition, "lastTransitionTime": clock.to_rfc3339(since)}
