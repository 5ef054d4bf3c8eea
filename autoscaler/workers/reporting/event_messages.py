"""What is told about a pool, in words: the events' reasons are the seed's. Pure.

Of what happens again and again the words are the same each time, so that it is counted instead of repeated.
"""

from collections.abc import Sequence
from typing import Final

from autoscaler.workers.model import Growth, Reason, Stuck, Told

_NAMES_SHOWN: Final = 3
FILLED_BY_FAILED: Final = "FailedWorkersFillPool"
"""Why a pool is full: failed workers that are kept take all of it."""


def adopted(identity: str) -> Told:
    return Told(reason=Reason.ADOPTED, message=f"adopted by {identity}", is_change=True)


def created(count: int) -> Told:
    return Told(reason=Reason.CREATED_WORKERS, message=f"created {workers(count)}")


def cleaned(count: int) -> Told:
    return Told(reason=Reason.CLEAN_UP, message=f"removed {workers(count)} that ended")


def replaced(count: int, why: str) -> Told:
    """Tell of workers that never started and are removed, so that others take their place."""
    return Told(reason=Reason.CLEAN_UP, message=f"removed {workers(count)} that never started: {why}")


def failed(count: int) -> Told:
    """Tell of workers that ended in failure. Without names: the same words are counted instead of repeated."""
    return Told(reason=Reason.FAILED_WORKER, message=f"{workers(count)} failed", warning=True)


def stuck(found: Sequence[Stuck]) -> Told:
    """Tell of workers that cannot start, and why."""
    return Told(reason=Reason.FAILED_WORKER, message=cannot_start(found), warning=True)


def cannot_start(found: Sequence[Stuck], late: int = 0) -> str:
    """Say how many workers cannot start and why, and how many were replaced for that; empty if there are none."""
    said = []
    if found:
        said.append(f"{workers(len(found))} cannot start: {', '.join(sorted({worker.trouble for worker in found}))}")
    if late:
        said.append(f"{workers(late)} had a node, did not start within startTimeoutMinutes and went")
    return "; ".join(said)


def full(growth: Growth, capacity: int, kept: Sequence[str]) -> Told | None:
    """Tell that more work waits than the pool may have workers for, or that failed workers that are kept fill it."""
    jobs = "1 job has" if growth.left_out == 1 else f"{growth.left_out} jobs have"
    left = f", and {jobs} no worker" if growth.left_out else ""
    if kept and len(kept) >= capacity > 0:  # one that may have none is not full by its failed workers
        advice = "delete them, or set spec.workerSpec.failedWorkersLimit"
        failed = f"and failed ones that are kept fill it ({_some(kept)})"
        return _full(f"the pool may have {workers(capacity)}, {failed}{left}: {advice}", FILLED_BY_FAILED)
    if growth.left_out:
        return _full(f"the pool may have {workers(capacity)}{left}", Reason.CAPACITY_REACHED)
    return None


def _full(message: str, condition: str) -> Told:
    return Told(reason=Reason.CAPACITY_REACHED, message=message, warning=True, is_change=True, condition=condition)


def not_reconciled(message: str) -> Told:
    return Told(reason=Reason.FAILED_TO_RECONCILE, message=message, warning=True)


def not_cleaned(message: str) -> Told:
    return Told(reason=Reason.FAILED_CLEANUP, message=message, warning=True)


def paused() -> Told:
    message = "worker pool paused: the queue is read, and no worker is made"
    return Told(reason=Reason.PAUSED, message=message, is_change=True)


def shut_down() -> Told:
    message = "worker pool shut down: the queue is not read, and workers are removed"
    return Told(reason=Reason.SHUTDOWN, message=message, is_change=True)


def workers(count: int) -> str:
    """Write a number of workers."""
    return "1 worker" if count == 1 else f"{count} workers"


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
