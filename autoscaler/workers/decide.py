"""What a worker pool should do now. Pure: workers and one reading of the queue in, numbers and names out.

Two decisions, in this order. Cleaning up frees places; growing counts what is there afterwards, so that a removal
that failed can never lead to more pods than the pool may have. One reading of the queue grows the pool once: the same
number read again may speak of jobs that the new workers have already taken.
"""

from collections.abc import Sequence
from typing import assert_never

from autoscaler.api.resources.worker_pools import PoolStatus
from autoscaler.workers.model import CleanUp, Counts, Growth, Phase, Policy, Reason, Told, Worker


def counts(workers: Sequence[Worker], capacity: int) -> Counts:
    """Count workers as the status shows them. Every pod takes a place, failed and leaving ones too."""
    return Counts(
        running=_of(workers, Phase.RUNNING),
        pending=_of(workers, Phase.PENDING),
        failed=_of(workers, Phase.FAILED),
        total=len(workers),
        capacity=max(0, capacity - len(workers)),
    )


def clean_up(workers: Sequence[Worker], policy: Policy) -> CleanUp:
    """Choose the workers to remove: those that ended, failed ones unless retained, and all of them on Shutdown."""
    failed = [worker.name for worker in workers if worker.phase is Phase.FAILED and not worker.terminating]
    told = (_failed(failed),) if failed else ()
    match policy.status:
        case PoolStatus.SHUTDOWN:
            leaving = [worker.name for worker in workers if not worker.terminating]
            return CleanUp(remove=tuple(sorted(leaving)), told=told)
        case PoolStatus.ACTIVE | PoolStatus.PAUSED:
            ended = _ended(workers, retain_failed=policy.retain_failed)
            return CleanUp(remove=ended, told=(*told, _cleaned(len(ended))) if ended else told)
        case _:
            assert_never(policy.status)


def grow(workers: Sequence[Worker], policy: Policy, queue_size: int) -> Growth:
    """Say how many workers to make for a queue of this length.

    Workers that wait to start are assumed to have taken no job yet; those that leave will never take one.
    Invariant: workers + create never exceeds the pool's capacity.
    """
    waiting = sum(worker.phase is Phase.PENDING and not worker.terminating for worker in workers)
    wanted = max(0, queue_size - waiting)
    capacity = max(0, policy.capacity - len(workers))
    if policy.status is not PoolStatus.ACTIVE:
        return Growth(create=0, wanted=wanted, capacity=capacity)
    create = min(capacity, wanted)
    told = []
    if create:
        told.append(Told(reason=Reason.CREATED_WORKERS, message=f"created {_workers(create)}"))
    if wanted > capacity:
        told.append(_full(policy.capacity, wanted - create))
    return Growth(create=create, wanted=wanted, capacity=capacity, told=tuple(told))


def _of(workers: Sequence[Worker], phase: Phase) -> int:
    return sum(worker.phase is phase for worker in workers)


def _ended(workers: Sequence[Worker], *, retain_failed: bool) -> tuple[str, ...]:
    ended = {Phase.SUCCEEDED} if retain_failed else {Phase.SUCCEEDED, Phase.FAILED}
    return tuple(sorted(worker.name for worker in workers if worker.phase in ended and not worker.terminating))


def _failed(names: Sequence[str]) -> Told:
    shown = ", ".join(sorted(names)[:3])
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return Told(reason=Reason.FAILED_WORKER, message=f"failed: {shown}{more}", warning=True)


def _cleaned(count: int) -> Told:
    return Told(reason=Reason.CLEAN_UP, message=f"removed {_workers(count)} that ended")


def _full(capacity: int, left: int) -> Told:
    jobs = "1 job has" if left == 1 else f"{left} jobs have"
    return Told(
        reason=Reason.CAPACITY_REACHED,
        message=f"the pool may have {_workers(capacity)}, and {jobs} no worker",
        warning=True,
    )


def _workers(count: int) -> str:
    return "1 worker" if count == 1 else f"{count} workers"
