"""Whom one who waits may displace, so that it fits. Pure: victims are found on a copy of the ledger.

Nobody is displaced unless the whole set suffices, and nobody who is not needed for it. Those who are leaving already
count as free, for their quota comes back without anybody being displaced; pods without a Workload are never displaced.
Neither is one whose pods run on without their job: its quota would not come back.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from autoscaler.admission.quota import nomination
from autoscaler.admission.quota.amounts import Amounts, FlavorResource
from autoscaler.admission.quota.cache.admitted import Standing
from autoscaler.admission.quota.cache.books import Books
from autoscaler.admission.quota.cache.ledger import Ledger
from autoscaler.admission.quota.cache.queues import Queue
from autoscaler.admission.quota.cache.waiting import Want
from autoscaler.admission.quota.nomination import Nomination, Siblings
from autoscaler.admission.quota.refusals import Refusal
from autoscaler.admission.workloads.workload import Workload
from autoscaler.api.resources.queues import Preempt, Reclaim

_Choice = tuple[tuple[Want, ...], tuple[str, ...]]
"""What is wanted, and the flavors that come last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Displacement:
    """What one can be granted once its victims, and all who are leaving, are gone."""

    nomination: Nomination
    victims: tuple[Workload, ...]
    """Who must be displaced for it; nobody where those who are leaving suffice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What victims are looked for in."""

    books: Books
    ledger: Ledger
    """What is taken now, claims included."""
    siblings: Siblings
    evicting: Collection[str]
    """Workloads that this plan evicts: they are leaving too."""
    claimed: Mapping[str, Amounts]
    """What is claimed of each queue: nobody is displaced as a borrower for what is only claimed."""


def find(situation: Situation, workload: Workload, queue: Queue) -> Displacement | None:
    """Find victims for one who waits; None: displacing others does not help."""
    ledger = _without_leaving(situation, workload, queue)
    own = list(_own(situation, workload, queue))
    others = list(_others(situation, workload, queue))
    for want, tried in _choices(situation, workload, queue):
        for candidates, reclaims in ((sorted([*own, *others]), True), (own, False)):
            search = _Search(situation=situation, queue=queue, workload=workload, reclaims=reclaims)
            found = search.run(ledger, candidates, want, tried) if others or not reclaims else None
            if found is not None:
                return found
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Search:
    """The search for one who waits, with or without victims of other queues."""

    situation: Situation
    queue: Queue
    workload: Workload
    reclaims: bool
    """Victims of other queues are allowed: then the queue must stay within its own."""

    def run(
        self, ledger: Ledger, candidates: list[Standing], want: tuple[Want, ...], tried: tuple[str, ...]
    ) -> Displacement | None:
        """Choose flavors as if all candidates were gone; then find the few that must go."""
        emptied = ledger.copy()
        for candidate in candidates:
            self._take_out(emptied, candidate.uid)
        chosen = nomination.choose(self.situation.books, emptied, self.workload, self.queue, want=want, tried=tried)
        if isinstance(chosen, Refusal):
            return None
        trial = ledger.copy()
        needed = self._spared(trial, self._needed(trial, candidates, chosen.amounts), chosen.amounts)
        if not self._fits(trial, chosen.amounts):
            return None
        borrows = trial.borrows(self.queue, chosen.amounts)
        found = Nomination(workload=self.workload, queue=self.queue, assigned=chosen.assigned, borrows=borrows)
        return Displacement(nomination=found, victims=tuple(map(self.situation.books.workload, needed)))

    def _needed(self, trial: Ledger, candidates: Iterable[Standing], wanted: Amounts) -> list[str]:
        """Take candidates out one by one until there is room; who does not borrow now stays."""
        taken_out = []
        for candidate in candidates:
            lacking = self._lacking(trial, wanted)
            if not lacking:
                break
            if self._helps(trial, candidate.uid, lacking):
                self._take_out(trial, candidate.uid)
                taken_out.append(candidate.uid)
        return taken_out

    def _spared(self, trial: Ledger, taken_out: list[str], wanted: Amounts) -> list[str]:
        """Put those back without whom there is still room, the last one first: it matters most."""
        needed = list(taken_out)
        for uid in reversed(taken_out):
            self._take_out(trial, uid, -1)
            if self._fits(trial, wanted):
                needed.remove(uid)
            else:
                self._take_out(trial, uid)
        return needed

    def _fits(self, trial: Ledger, wanted: Amounts) -> bool:
        return not self._lacking(trial, wanted)

    def _lacking(self, trial: Ledger, wanted: Amounts) -> set[FlavorResource]:
        """Return what there is too little of; who takes from other queues must stay within the nominal quota."""
        short = {key for key, amount in wanted.items() if trial.free(self.queue, key) < amount}
        if self.reclaims:
            short |= {key for key, amount in wanted.items() if trial.borrows(self.queue, {key: amount})}
        return short

    def _helps(self, trial: Ledger, uid: str, lacking: set[FlavorResource]) -> bool:
        """Tell whether one is of the same queue, or of one that borrows what is lacking."""
        queue = self.situation.books.family_uses(uid)[0].queue
        claimed = self.situation.claimed.get(queue, {})
        return queue == self.queue.name or trial.is_borrowing(queue, lacking, less=claimed)

    def _take_out(self, trial: Ledger, uid: str, times: int = 1) -> None:
        for use in self.situation.books.family_uses(uid):
            trial.add(use.queue, use.amounts, -times)


def _without_leaving(situation: Situation, workload: Workload, queue: Queue) -> Ledger:
    """Copy the ledger as it will be when all who leave and can are gone; one's own claim is taken out too."""
    books, ledger = situation.books, situation.ledger.copy()
    claim = books.claim_of(workload.meta.uid)
    if claim is not None:
        ledger.add(claim.queue, claim.amounts, -1)
    leaving = {uid for member in books.config.members(queue.cohort) for uid in books.admitted.leaving(member.name)}
    for uid in filter(books.may_free, leaving.union(situation.evicting)):
        for use in books.family_uses(uid):
            ledger.add(use.queue, use.amounts, -1)
    return ledger


def _own(situation: Situation, workload: Workload, queue: Queue) -> Iterator[Standing]:
    match queue.within:
        case Preempt.NEVER:
            return
        case Preempt.LOWER_PRIORITY:
            yield from _lower(situation, workload, queue.name)


def _others(situation: Situation, workload: Workload, queue: Queue) -> Iterator[Standing]:
    match queue.reclaim:
        case Reclaim.NEVER:
            return
        case Reclaim.LOWER_PRIORITY:
            of_queue = _lower
        case Reclaim.ANY:
            of_queue = _strangers
    for member in situation.books.config.members(queue.cohort):
        if member.name != queue.name:
            yield from of_queue(situation, workload, member.name)


def _lower(situation: Situation, workload: Workload, queue: str) -> Iterator[Standing]:
    priority = situation.books.families.priority_of(workload)
    return (each for each in _strangers(situation, workload, queue) if each.priority < priority)


def _strangers(situation: Situation, workload: Workload, queue: str) -> Iterator[Standing]:
    """Return those who may be displaced: not one's own family, nor those that are leaving or free nothing."""
    books = situation.books
    for each in books.admitted.displaceable(queue):
        is_own = books.workload(each.uid).job_uid == workload.job_uid
        if each.uid not in situation.evicting and not is_own and books.may_free(each.uid):
            yield each


def _choices(situation: Situation, workload: Workload, queue: Queue) -> Iterator[_Choice]:
    """Return the orders of flavors to try: as they are, then without the first of each group, and so on.

    Who has a claim keeps to its flavors.
    """
    want = tuple(nomination.wants(situation.books, workload, situation.siblings))
    claim = workload.claim
    if claim is not None:
        granted = {each.name: each.flavors for each in claim.assignments}
        yield tuple(msgspec.structs.replace(each, flavors=granted.get(each.pod_set.name, {})) for each in want), ()
        return
    tried = workload.requeue.flavors_tried if workload.requeue is not None else ()
    for skipped in range(max((len(group.flavors) for group in queue.groups), default=0)):
        yield want, (*tried, *(name for group in queue.groups for name in group.flavors[:skipped]))
