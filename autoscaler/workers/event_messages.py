"""What is told about a pool, in words: the events' reasons are the seed's. Pure."""

from collections.abc import Sequence

from autoscaler.workers.model import Growth, Reason, Told, Worker


def adopted(identity: str) -> Told:
    return Told(reason=Reason.ADOPTED, message=f"adopted by {identity}")


def created(count: int) -> Told:
    return Told(reason=Reason.CREATED_WORKERS, message=f"created {workers(count)}")


def cleaned(count: int) -> Told:
    return Told(reason=Reason.CLEAN_UP, message=f"removed {workers(count)} that ended")


def failed(count: int) -> Told:
    """Tell of workers that ended in failure. Without names: the same words are counted instead of repeated."""
    return Told(reason=Reason.FAILED_WORKER, message=f"{workers(count)} failed", warning=True)


def stuck(found: Sequence[Worker]) -> Told:
    """Tell of workers that cannot start, and why."""
    why = ", ".join(sorted({worker.trouble for worker in found}))
    return Told(reason=Reason.FAILED_WORKER, message=f"{workers(len(found))} cannot start: {why}", warning=True)


def full(growth: Growth, capacity: int) -> Told:
    """Tell that more work waits than the pool may have workers for."""
    left = growth.left_out
    jobs = "1 job has" if left == 1 else f"{left} jobs have"
    message = f"the pool may have {workers(capacity)}, and {jobs} no worker"
    return Told(reason=Reason.CAPACITY_REACHED, message=message, warning=True)


def not_reconciled(message: str) -> Told:
    return Told(reason=Reason.FAILED_TO_RECONCILE, message=message, warning=True)


def not_cleaned(message: str) -> Told:
    return Told(reason=Reason.FAILED_CLEANUP, message=message, warning=True)


def paused() -> Told:
    return Told(reason=Reason.PAUSED, message="worker pool paused: the queue is read, and no worker is made")


def shut_down() -> Told:
    return Told(reason=Reason.SHUTDOWN, message="worker pool shut down: the queue is not read, and workers are removed")


def workers(count: int) -> str:
    """Write a number of workers."""
    return "1 worker" if count == 1 else f"{count} workers"
