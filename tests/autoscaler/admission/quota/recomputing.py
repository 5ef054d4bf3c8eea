"""What the books should say, read afresh from all tables: slow, and sharing no sums with the books."""

from dataclasses import dataclass

from autoscaler.admission.quota.amounts import FlavorResource
from autoscaler.admission.quota.cache import usage, waiting
from autoscaler.admission.quota.cache.admitted import is_leaving
from autoscaler.admission.quota.cache.books import Books
from autoscaler.admission.quota.cache.configuration import Tables
from autoscaler.admission.quota.cache.usage import Use
from autoscaler.admission.quota.cache.waiting import Place
from autoscaler.admission.workloads.workload import Workload
from autoscaler.kube import objects

Sums = dict[str, dict[FlavorResource, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recomputed:
    """All that is used, held and waited for, by ClusterQueue."""

    usage: Sums
    taken: Sums
    """Usage and claims."""
    pending: dict[str | None, list[Place]]
    wake_at: float | None


def recompute(tables: Tables, now: float) -> Recomputed:
    """Read all tables."""
    every = {each.meta.uid: each for each in tables.workloads}
    used = [*_used(tables, every)]
    seated = [each for each in every.values() if _may_wait(each, every) and _at(each) <= now]
    held = [usage.granted(each, each.claim) for each in seated if each.claim is not None]
    later = [_at(each) for each in every.values() if _may_wait(each, every) and _at(each) > now]
    return Recomputed(
        usage=_sums(used),
        taken=_sums([*used, *held]),
        pending=_lines(tables, seated, every),
        wake_at=min(later, default=None),
    )


def read(books: Books) -> Recomputed:
    """Read the same from the books."""
    return Recomputed(
        usage=books.usage,
        taken={queue: dict(books.ledger.taken(queue)) for queue in books.ledger.queues_taken_from()},
        pending={queue: books.waiting.first(queue) for queue in books.waiting.queues()},
        wake_at=books.wake_at,
    )


def _used(tables: Tables, every: dict[str, Workload]) -> list[Use]:
    uses = [usage.of(each, _parent(each, every)) for each in every.values()]
    jobs = {each.job_uid for each in every.values() if not each.is_slice and each.admission is not None}
    pods = [usage.of_pod(pod) for pod in tables.pods]
    strays = [found[1] for found in pods if found is not None and found[0] not in jobs]
    return [*(use for use in uses if use is not None), *strays]


def _parent(each: Workload, every: dict[str, Workload]) -> Workload | None:
    return every.get(each.parent_uid or "")


def _may_wait(each: Workload, every: dict[str, Workload]) -> bool:
    if each.admission is not None or is_leaving(each):
        return False
    if not each.is_slice:
        return not any(other.parent_uid == each.meta.uid for other in every.values())
    parent = _parent(each, every)
    return parent is not None and parent.admission is not None and not is_leaving(parent)


def _at(each: Workload) -> float:
    return each.requeue.at if each.requeue is not None else float("-inf")


def _lines(tables: Tables, seated: list[Workload], every: dict[str, Workload]) -> dict[str | None, list[Place]]:
    lines: dict[str | None, list[Place]] = {}
    for each in seated:
        parent = _parent(each, every)
        door = tables.local_queues.get(objects.Key(each.meta.key.namespace, each.queue))
        queue = door.resource.spec.cluster_queue if door is not None else None
        if parent is not None and parent.admission is not None:
            queue = parent.admission.cluster_queue
        lines.setdefault(queue, []).append(waiting.place_of(each, parent))
    return {queue: sorted(places) for queue, places in lines.items()}


def _sums(uses: list[Use]) -> Sums:
    sums: Sums = {}
    for use in uses:
        for key, amount in use.amounts.items():
            of_queue = sums.setdefault(use.queue, {})
            of_queue[key] = of_queue.get(key, 0) + amount
    return sums
