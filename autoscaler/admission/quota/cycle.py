"""One cycle of admission: heads, snapshot, nominate, order, admit, requeue. Pure.

Decided is only against what the books hold, never against what this plan, or another that is not carried out yet, is
about to free. The caller calls again when all writes of a plan were answered and the books hold the answers.
"""

import dataclasses
import heapq
from collections.abc import Iterable
from dataclasses import dataclass

from autoscaler.admission.quota import claims, nomination
from autoscaler.admission.quota.cache.books import Books
from autoscaler.admission.quota.cache.queues import CohortKey, Queue
from autoscaler.admission.quota.cache.waiting import Place
from autoscaler.admission.quota.heads import BestEffort, Head, Line, Strict
from autoscaler.admission.quota.nomination import Nomination
from autoscaler.admission.quota.preemption import Displacement
from autoscaler.admission.quota.refusals import Reason, Refusal
from autoscaler.admission.quota.trial import Trial
from autoscaler.admission.workloads.workload import Workload
from autoscaler.admission.writes import Write


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """One who was looked at and not admitted."""

    workload: Workload
    refusal: Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class CyclePlan:
    """What is written, and who waits on."""

    writes: tuple[Write, ...] = ()
    refused: tuple[Refused, ...] = ()
    """Those who were looked at in this cycle and not admitted; others wait for the reasons told before."""
    is_cut: bool = False
    """Whether there may be more to do than was allowed: call again."""
    wake_at: float | None = None
    """When somebody may be tried again; None: nobody waits for a time."""


def decide(books: Books, *, now: float, most: int) -> CyclePlan:
    """Say who is admitted, claims or is evicted now, in at most so many writes."""
    books.wake(now)
    trial = Trial(books, now=now, most=most)
    drain(trial)
    claims.drop_stale(trial)
    claims.settle(trial)
    cycle = _Cycle(trial)
    cycle.gather()
    cycle.admit()
    return CyclePlan(
        writes=tuple(trial.writes.values()),
        refused=tuple(cycle.refused),
        is_cut=trial.is_cut or cycle.has_more,
        wake_at=books.wake_at,
    )


def drain(trial: Trial) -> None:
    """Evict all who have quota of a queue that is drained."""
    for name in sorted(trial.books.queues):
        queue = trial.books.queues[name]
        for each in trial.books.admitted.displaceable(name) if queue.drains else ():
            trial.drain(trial.books.workload(each.uid), queue)


@dataclass(slots=True)
class _Candidate:
    """One who is looked at, in the heap under what is known of it."""

    head: Head
    line: Line
    borrows: bool = False
    """Whether it was found to borrow; until it is looked at, the best is assumed."""
    turn: int = 0
    """How often it was put into the heap: only the last time counts. Negative: it is done with."""


class _Cycle:
    """The heads of all queues, best first: within nominal before borrowing, then by place."""

    def __init__(self, trial: Trial) -> None:
        self.refused: list[Refused] = []
        self._trial = trial
        self._books = trial.books
        self._heap: list[tuple[bool, Place, int, _Candidate]] = []
        self._borrowing: dict[CohortKey, list[_Candidate]] = {}

    @property
    def has_more(self) -> bool:
        return any(turn == candidate.turn for _, _, turn, candidate in self._heap)

    def gather(self) -> None:
        """Take the heads of all queues, those aside whose refusal still holds. Who has a claim waits in no line."""
        for name in self._books.waiting.queues():
            queue, line = self._books.queues.get(name or ""), self._books.waiting.line(name)
            if queue is not None and queue.is_strict:
                self._start(Strict(line))
                self._start(BestEffort(line.claimants()))
            else:
                self._start(BestEffort(line.fresh(self._books.epoch(name))))

    def admit(self) -> None:
        """Admit the best that fits, again and again, and let those displace others who may."""
        while self._heap and not self._trial.is_full:
            _, _, turn, candidate = heapq.heappop(self._heap)
            if turn == candidate.turn:
                self._consider(candidate)

    def _consider(self, candidate: _Candidate) -> None:
        head = candidate.head
        trial, uid = self._trial, head.place.uid
        found = nomination.nominate(self._books, trial.ledger, head.found, uid, siblings=trial.siblings)
        if isinstance(found, Refusal):
            self._displace(candidate, found)
        elif found.borrows and not candidate.borrows:
            self._defer(candidate, found.queue)
        else:
            self._grant(candidate, found)

    def _displace(self, candidate: _Candidate, refusal: Refusal) -> None:
        """Let one that lacks room claim what it can have by displacing others, or wait on."""
        workload = self._books.workload(candidate.head.place.uid)
        queue = self._books.queues.get(candidate.head.found.queue or "")
        found = self._displacement(workload, queue, refusal)
        if found is not None and queue is not None and found.nomination.borrows and not candidate.borrows:
            self._defer(candidate, queue)
            return
        if found is not None:
            self._trial.claim(found)
        if found is not None or (workload.claim is not None and refusal.reason is Reason.NO_ROOM):
            refusal = dataclasses.replace(refusal, reason=Reason.DISPLACING)
        self._refuse(candidate, Refused(workload=workload, refusal=refusal), queue)

    def _displacement(self, workload: Workload, queue: Queue | None, refusal: Refusal) -> Displacement | None:
        if queue is None or not queue.preempts or workload.claim is not None or refusal.reason is not Reason.NO_ROOM:
            return None
        found = self._trial.find(workload, queue)
        return found if found is not None and found.victims else None

    def _refuse(self, candidate: _Candidate, refused: Refused, queue: Queue | None) -> None:
        """Let one wait on. It is looked at again when something changed, or if writes of this plan may fail."""
        head = candidate.head
        candidate.turn = -1
        self.refused.append(refused)
        if queue is None or queue.cohort not in self._trial.touched:
            name = head.found.queue
            self._books.waiting.line(name).refuse(head.found, self._books.epoch(name), refused.refusal)
        self._look_at(candidate.line, candidate.line.refused(head, refused.refusal))

    def _defer(self, candidate: _Candidate, queue: Queue) -> None:
        """Put off one that borrows until nobody is left who does not."""
        candidate.borrows = True
        self._borrowing.setdefault(queue.cohort, []).append(candidate)
        self._push(candidate)

    def _grant(self, candidate: _Candidate, found: Nomination) -> None:
        self._trial.grant(found)
        candidate.turn = -1
        self._look_at(candidate.line, candidate.line.granted(candidate.head))
        self._look_again(found.queue.cohort)

    def _look_again(self, cohort: CohortKey) -> None:
        """Look again at those that borrow: where their first flavor is full now, they may stay within the next."""
        for candidate in self._borrowing.pop(cohort, ()):
            if candidate.turn > 0:
                candidate.borrows = False
                self._push(candidate)

    def _start(self, line: Line) -> None:
        self._look_at(line, line.start())

    def _look_at(self, line: Line, heads: Iterable[Head]) -> None:
        following = list(heads)
        while following:
            head = following.pop()
            known = head.found.remembered(self._books.epoch(head.found.queue))
            if known is None:
                self._push(_Candidate(head, line))
            else:
                following.extend(line.refused(head, known))

    def _push(self, candidate: _Candidate) -> None:
        candidate.turn += 1
        heapq.heappush(self._heap, (candidate.borrows, candidate.head.place, candidate.turn, candidate))
