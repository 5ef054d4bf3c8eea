"""Two ClusterQueues that lend each other quota, as auditors read them: what may grow, be evicted, or wait at the end.

Nothing here calls what it judges: every sum is made anew from the server's objects.
"""

from collections import Counter
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from autoscaler.admission.writes import Step
from tests.autoscaler.admission import builders
from tests.model.contents import Cell, JobFacts, WorkloadFacts
from tests.model.runtime import FLAVORS
from tests.model.seen import Seen
from tests.model.world import Move


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A ClusterQueue of the cohort; its LocalQueue is called `door-NAME`."""

    name: str
    nominal: Mapping[str, int]
    borrowing_limit: int
    within: str
    reclaim: str
    strict: bool
    stop: str = "None"
    generation: int = 1

    def made(self) -> Any:
        """Return it as the runtime reads it."""
        return builders.cluster_queue(
            self.name,
            flavors={flavor: {"cpu": (amount, self.borrowing_limit)} for flavor, amount in self.nominal.items()},
            cohort="all",
            strict=self.strict,
            within=self.within,
            reclaim=self.reclaim,
            stop=self.stop,
            generation=self.generation,
            rv=self.generation,
        )


Queues = Mapping[str, Queue]


def configuration(queues: Queues) -> list[Any]:
    """Return everything that the runtime reads of them."""
    doors = [builders.local_queue(f"door-{name}", queue=name) for name in queues]
    return [*map(builders.flavor, FLAVORS), *(each.made() for each in queues.values()), *doors]


def of_step(move: Move, before: Seen, after: Seen, queues: Queues, *, unseen: Container[str] = ()) -> Iterator[str]:
    """Say what is wrong with a step that was decided on under these queues, with these objects not seen as they are."""
    sent = move.sent
    yield from _grown(before.used(), after.used(), Counter(), queues)
    if sent is not None and sent.step is Step.ADMIT:
        yield from _admitted(before, after, sent.uid, queues)
    if sent is not None and sent.step is Step.EVICT and sent.by_quota and not move.late:
        yield from _evicted(before, before.parents[sent.uid], queues, unseen)


def _grown(before: Counter[Cell], after: Counter[Cell], held: Counter[Cell], queues: Queues) -> Iterator[str]:
    """Usage may be above the quota where people lowered it; then it must not grow."""
    for cell, used in after.items():
        if used > before[cell] and _room(after + held, cell, queues) < 0:
            yield f"usage of {cell} rose from {before[cell]} to {used}, beyond the quota; claimed: {dict(held)}"


def _room(used: Counter[Cell], cell: Cell, queues: Queues) -> int:
    """Return how much more a queue may use of a flavor: of the cohort's, and up to what it may borrow."""
    queue = queues[cell.queue]
    left = sum(each.nominal[cell.flavor] - used[Cell(each.name, cell.flavor)] for each in queues.values())
    return min(left, queue.nominal[cell.flavor] + queue.borrowing_limit - used[cell])


def _admitted(before: Seen, after: Seen, uid: str, queues: Queues) -> Iterator[str]:
    now = after.parents.get(uid) or after.slices[uid]
    if now.cell is None:
        return
    if queues[now.cell.queue].stop != "None":
        yield f"{uid} was admitted to {now.cell.queue}, which is stopped"
    held: Counter[Cell] = Counter()
    for each in after.claimants(besides=uid):
        if each.claimed is not None:
            held[each.claimed] += min(each.spec, each.claim or 0)
    yield from _grown(before.used(), after.used(), held, queues)
    parent = after.parents.get(now.owner or "") if now.is_slice else None
    if parent is not None and len(+after.uses_of(parent)) > 1:
        yield f"slice {uid} was granted of {now.cell}, its family has {dict(after.uses_of(parent))}"


def _evicted(before: Seen, victim: WorkloadFacts, queues: Queues, unseen: Container[str]) -> Iterator[str]:
    if victim.cell is None or queues[victim.cell.queue].stop == "HoldAndDrain":
        return
    every = (*before.parents.values(), *before.slices.values())
    # The claim of these may have ended, or become too large, a moment ago.
    changed = [each for each in every if each.claim and (each.uid in unseen or each.owner in unseen)]
    claimants = [each for each in (*changed, *before.claimants()) if _may_displace(before, each, victim, queues)]
    if not claimants:
        yield f"{victim.uid} was evicted, and nobody has a claim who may displace it"
    elif all(each not in changed and _in_vain(before, each, queues, unseen) for each in claimants):
        yield f"{victim.uid} was evicted in vain: its quota would not suffice"


def _may_displace(seen: Seen, one: WorkloadFacts, victim: WorkloadFacts, queues: Queues) -> bool:
    mine = one.claimed
    if mine is None or one.job == victim.job:
        return False
    wanted = [its for its in seen.uses_of(victim) if its.flavor == mine.flavor]
    return any(_may_take(seen, one, mine, victim, its, queues) for its in wanted)


def _may_take(  # who takes what from whom
    seen: Seen, one: WorkloadFacts, mine: Cell, victim: WorkloadFacts, its: Cell, queues: Queues
) -> bool:
    queue = queues[mine.queue]
    if mine.queue == its.queue:
        return queue.within == "LowerPriority" and victim.priority < one.priority
    borrows = seen.used()[its] > queues[its.queue].nominal[its.flavor]
    return borrows and (queue.reclaim == "Any" or (queue.reclaim == "LowerPriority" and victim.priority < one.priority))


def _in_vain(seen: Seen, one: WorkloadFacts, queues: Queues, unseen: Container[str]) -> bool:
    """Tell whether what one claims would be too much even without all whom it may displace and all who leave."""
    used = seen.used()
    for each in seen.parents.values():
        leaves = each.evicted or each.leaving or each.finished or not each.active
        goes = leaves or _may_displace(seen, one, each, queues)
        if goes and not seen.is_outlived(each, unseen):
            used.subtract(seen.uses_of(each))
    return one.claimed is not None and _room(used, one.claimed, queues) < (one.claim or 0)


def unserved(seen: Seen, queues: Queues, *, may_rest: bool) -> Iterator[str]:
    """Say who waits at the end and could be served, or is served and should not be."""
    for mine in seen.parents.values():
        job, queue = seen.jobs.get(mine.job), queues[mine.door.removeprefix("door-")]
        if job is None or job.finished or (mine.resting and may_rest):
            continue
        if mine.claim is not None:
            yield f"{mine.uid} is left with a claim"
        if mine.granted is not None and (not mine.active or queue.stop == "HoldAndDrain"):
            yield f"{mine.uid} has quota and should have none"
        if mine.active and queue.stop == "None":
            yield from _of_waiting(seen, mine, job, queues)


def _of_waiting(seen: Seen, mine: WorkloadFacts, job: JobFacts, queues: Queues) -> Iterator[str]:
    queue = queues[mine.door.removeprefix("door-")]
    if mine.granted is None:
        wanted = min(mine.spec, mine.first or mine.spec)
        is_behind = queue.strict and any(_is_before(each, mine) for each in seen.parents.values())
        fitting = [flavor for flavor in FLAVORS if _could_have(seen, mine, Cell(queue.name, flavor), queues) >= wanted]
        if fitting and not is_behind:
            yield f"{mine.uid} waits for {wanted} and would fit in {fitting} of {queue.name}"
    elif mine.granted < job.size and not queue.strict and not mine.resting:
        cells = [mine.cell] if mine.cell is not None and mine.granted else [Cell(queue.name, each) for each in FLAVORS]
        fitting = [cell.flavor for cell in cells if _could_have(seen, mine, cell, queues) > 0]
        if fitting:
            yield f"{mine.uid} grows and there is room in {fitting}"


def _is_before(other: WorkloadFacts, mine: WorkloadFacts) -> bool:
    waits = other.granted is None and other.active and not other.finished and other.door == mine.door
    return waits and (-other.priority, other.uid) < (-mine.priority, mine.uid)


def _could_have(seen: Seen, mine: WorkloadFacts, cell: Cell, queues: Queues) -> int:
    """Return what one could have of a quota: what is free, and what it may take from others."""
    used, queue = seen.used(), queues[cell.queue]
    free = _room(used, cell, queues)
    if queue.within == "LowerPriority":
        lower = [each for each in seen.parents.values() if each.priority < mine.priority]
        freed = [each for each in lower if each.job != mine.job and not seen.is_outlived(each)]
        without = Counter(used)
        without[cell] -= sum(seen.uses_of(each)[cell] for each in freed)
        free = max(free, _room(without, cell, queues))
    left = sum(each.nominal[cell.flavor] - used[Cell(each.name, cell.flavor)] for each in queues.values())
    reclaimable = left + sum(_lent(seen, mine, cell, each, queues) for each in queues.values())
    return max(free, min(queue.nominal[cell.flavor] - used[cell], reclaimable))


def _lent(seen: Seen, mine: WorkloadFacts, cell: Cell, other: Queue, queues: Queues) -> int:
    """Return what one may take back of what another queue borrows."""
    reclaim, its = queues[cell.queue].reclaim, Cell(other.name, cell.flavor)
    if its == cell or reclaim == "Never":
        return 0
    victims = [
        each
        for each in seen.parents.values()
        if not seen.is_outlived(each) and (reclaim == "Any" or each.priority < mine.priority)
    ]
    borrowed = seen.used()[its] - other.nominal[cell.flavor]
    return max(0, min(borrowed, sum(seen.uses_of(each)[its] for each in victims)))
