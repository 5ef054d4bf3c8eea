"""What a worker pool should do now. Pure: workers and one reading of the queue in, numbers and names out.

Two decisions, in this order. Cleaning up frees places; growing counts what is there afterwards, so that a removal
that failed can never lead to more pods than the pool may have. One reading of the queue grows the pool once: the same
number read again may speak of jobs that the new workers have already taken.
"""

from collections.abc import Sequence
from typing import assert_never

from autoscaler.api.resources.worker_pools import PoolStatus
from autoscaler.workers.model import CleanUp, Counts, Growth, Phase, Policy, Worker


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
    staying = sorted((worker for worker in workers if not worker.terminating), key=lambda worker: worker.name)
    match policy.status:
        case PoolStatus.SHUTDOWN:
            return CleanUp(remove=tuple(worker.name for worker in staying))
        case PoolStatus.ACTIVE | PoolStatus.PAUSED:
            ended = {Phase.SUCCEEDED} if policy.retain_failed else {Phase.SUCCEEDED, Phase.FAILED}
            return CleanUp(
                remove=tuple(worker.name for worker in staying if worker.phase in ended),
                failed=tuple(worker.name for worker in staying if worker.phase is Phase.FAILED),
                stuck=tuple(worker for worker in staying if worker.phase is Phase.PENDING and worker.trouble),
            )
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
    create = min(capacity, wanted) if policy.status is PoolStatus.ACTIVE else 0
    return Growth(create=create, wanted=wanted, capacity=capacity)


def _of(workers: Sequence[Worker], phase: Phase) -> int:
    return sum(worker.phase is phase for worker in workers)
