"""What would be done for a pool now, in commands. Pure: a reconciler hands in what it knows, and nothing is written."""

from collections.abc import Iterable, Iterator

from autoscaler.api import keys
from autoscaler.control.plans import Command
from autoscaler.workers import decide
from autoscaler.workers.model import Cause, CleanUp, Growth, Plan, Pool
from autoscaler.workers.worker_index import PoolWorkers


def of_pool(
    pool: Pool, workers: PoolWorkers, *, is_ours: bool, now: float, template: str | None, growth: Growth
) -> Iterator[Command]:
    """Say what a reconciler does next for its pool, as far as its workers and the last reading of its queue say."""
    if not is_ours:
        yield from _let_go(pool, workers.held, "another operator is to handle its pool")
        yield from _released(pool, workers, "another operator is to handle it")
    elif pool.meta.deleted_at is not None:
        staying = sorted(name for name, pod in workers.pods.items() if pod.meta.deleted_at is None)
        remove = CleanUp(remove=tuple((name, Cause.SHUTDOWN) for name in staying))
        yield from Plan(pool=pool.meta.key, clean_up=remove).commands()
        yield from _let_go(pool, workers.hanging, "it is being deleted")
        yield from _released(pool, workers, "it is being deleted, and has no workers any more")
    else:
        if keys.FINALIZER not in pool.meta.finalizers:
            yield Command(verb="patch", what=_name(pool), why="it is held until its workers are gone: finalizer")
        chosen = decide.clean_up(workers, pool.resource.spec, now=now, template=template)
        yield from Plan(pool=pool.meta.key, clean_up=chosen, growth=growth).commands()
        yield from _let_go(pool, workers.hanging, "it is being deleted")


def _let_go(pool: Pool, names: Iterable[str], why: str) -> Iterator[Command]:
    for name in sorted(names):
        yield Command(verb="patch", what=f"pod {pool.meta.key.namespace}/{name}", why=f"{why}: finalizer")


def _released(pool: Pool, workers: PoolWorkers, why: str) -> Iterator[Command]:
    if not workers.held and keys.FINALIZER in pool.meta.finalizers:
        yield Command(verb="patch", what=_name(pool), why=f"{why}: finalizer")


def _name(pool: Pool) -> str:
    return f"workerpool {pool.meta.key.namespace}/{pool.meta.key.name}"
