"""What is to be done for a pool: which workers go, and how many are made. Pure."""

from collections.abc import Iterable
from typing import assert_never

from autoscaler.api.resources.worker_pools import PoolStatus, WorkerPoolSpec, WorkerSpec
from autoscaler.kube import objects
from autoscaler.workers.model import Cause, CleanUp, Counts, Growth, Phase, Stuck
from autoscaler.workers.worker_index import PoolWorkers, template_of, trouble_of


def counts(workers: PoolWorkers, capacity: int, *, unanswered: int = 0) -> Counts:
    """Count workers as the status shows them. Every pod counts, failed and leaving ones too.

    `unanswered` are workers whose creation was not answered: they may come.
    """
    total = len(workers) + unanswered
    return Counts(
        running=workers.phases[Phase.RUNNING],
        pending=workers.phases[Phase.PENDING] + unanswered,
        failed=workers.phases[Phase.FAILED],
        total=total,
        capacity=max(0, capacity - total),
    )


def clean_up(workers: PoolWorkers, spec: WorkerPoolSpec, *, now: float, template: str | None = None) -> CleanUp:
    """Choose the workers to remove. `template` is the hash of what workers are made from now; None: nobody knows."""
    match spec.status:
        case PoolStatus.SHUTDOWN:
            staying = sorted(name for name, pod in workers.pods.items() if pod.meta.deleted_at is None)
            return CleanUp(remove=tuple((name, Cause.SHUTDOWN) for name in staying))
        case PoolStatus.PAUSED:
            remove = dict(_ended(workers, spec.worker_spec))
        case PoolStatus.ACTIVE:
            remove = dict((*_unstarted(workers, spec.worker_spec, now, template), *_ended(workers, spec.worker_spec)))
        case _:
            assert_never(spec.status)
    return CleanUp(
        remove=tuple(sorted(remove.items())),
        failed=tuple(sorted(workers.failed)),
        stuck=tuple(Stuck(name=name, trouble=trouble_of(pod)) for name, pod in sorted(workers.stuck.items())),
    )


def grow(workers: PoolWorkers, spec: WorkerPoolSpec, queue_size: int, *, unanswered: int = 0) -> Growth:
    """Say how many workers to make for a queue of this length.

    Workers that wait to start are assumed to have taken no job yet; those that leave will never take one.
    Invariant: workers + create never exceeds the pool's capacity.
    """
    wanted = max(0, queue_size - len(workers.unstarted) - unanswered)
    capacity = max(0, spec.pool_capacity - len(workers) - unanswered)
    create = min(capacity, wanted) if spec.status is PoolStatus.ACTIVE else 0
    return Growth(create=create, wanted=wanted, capacity=capacity)


def _ended(workers: PoolWorkers, spec: WorkerSpec) -> Iterable[tuple[str, Cause]]:
    yield from ((name, Cause.ENDED) for name in workers.ended)
    if not spec.retain_failed_workers:
        yield from ((name, Cause.FAILED) for name in workers.failed)
    elif spec.failed_workers_limit is not None:
        oldest = sorted(workers.failed.values(), key=_end)
        surplus = oldest[: max(0, len(oldest) - spec.failed_workers_limit)]
        yield from ((pod.meta.key.name, Cause.TOO_MANY_FAILED) for pod in surplus)


def _end(pod: objects.Pod) -> tuple[float, str]:
    return (pod.finished_at or pod.meta.created_at, pod.meta.key.name)


def _unstarted(workers: PoolWorkers, spec: WorkerSpec, now: float, template: str | None) -> Iterable[tuple[str, Cause]]:
    """Choose workers that never started and should not be waited for. Who waits for a node would lose its turn."""
    for name, pod in workers.bound.items():
        if pod.bound_at is not None and now - pod.bound_at >= 60 * spec.start_timeout_minutes:
            yield name, Cause.NOT_STARTED
    if template is not None and workers.templates[template] < len(workers.unstarted):
        yield from ((name, Cause.OTHER_TEMPLATE) for name, pod in workers.unstarted.items() if _differs(pod, template))


def _differs(pod: objects.Pod, template: str) -> bool:
    """Tell whether a worker was made from something else; of one that does not say, nobody knows."""
    return template_of(pod) not in ("", template)
