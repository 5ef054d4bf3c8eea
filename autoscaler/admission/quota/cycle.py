"""One cycle of admission: heads, snapshot, nominate, order, admit, requeue. Pure.

Decided is only against what the books hold, never against what this plan, or another that is not carried out yet, is
about to free. The caller calls again when all writes of a plan were answered and the books hold the answers.
"""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field

from autoscaler.admission.quota import grants, nomination
from autoscaler.admission.quota.books import Books
from autoscaler.admission.quota.heads import BestEffort, Head, Line, Strict
from autoscaler.admission.quota.ledger import Ledger
from autoscaler.admission.quota.nomination import Nomination
from autoscaler.admission.quota.queues import CohortKey
from autoscaler.admission.quota.refusals import Refusal
from autoscaler.admission.quota.waiting import Place
from autoscaler.admission.workload import Workload
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
    """Whether there is more to do than was allowed: call again."""
    wake_at: float | None = None
    """When somebody may be tried again; None: nobody waits for a time."""


def decide(books: Books, *, now: float, most: int) -> CyclePlan:
    """Say who is admitted now, in at most so many writes."""
    books.wake(now)
    cycle = _Cycle(books, now=now, most=most)
    cycle.gather()
    cycle.admit()
    return cycle.plan()


@dataclass(slots=True)
class _Candidate:
    """One who is looked at, in the heap under what is known of it."""

    head: Head
    line: Line
    borrows: bool = False
    """Whether it was found to borrow; until it is looked at, the best is assumed."""
    turn: int = 0
    """How often it was put into the heap: only the last time counts."""


@dataclass(slots=True)
class _Cycle:
    """The state of one cycle: a copy of the ledger, on which what is granted is taken at once."""

    books: Books
    now: float
    most: int
    ledger: Ledger = field(init=False)
    writes: list[Write] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    _heap: list[tuple[bool, Place, int, _Candidate]] = field(default_factory=list)
    _borrowing: dict[CohortKey, list[_Candidate]] = field(default_factory=dict)
    _touched: set[CohortKey] = field(default_factory=set)
    """Cohorts in which this plan took something: what is refused there now may fit if the plan fails."""

    def __post_init__(self) -> None:
        self.ledger = self.books.ledger.copy()

    def gather(self) -> None:
        """Take the heads of all queues, those aside whose refusal still holds."""
        for name in self.books.waiting.queues():
            queue = self.books.queues.get(name or "")
            classes = self.books.waiting.classes(name)
            line = Strict(classes) if queue is not None and queue.is_strict else BestEffort(classes)
            self._look_at(line, line.start())

    def admit(self) -> None:
        """Admit the best that fits, again and again: within nominal before borrowing, then by place."""
        while self._heap and len(self.writes) < self.most:
            borrows, place, turn, candidate = heapq.heappop(self._heap)
            if turn != candidate.turn:
                continue
            found = nomination.nominate(self.books, self.ledger, candidate.head.found, place.uid)
            if isinstance(found, Refusal):
                self._refuse(candidate, found)
            elif found.borrows and not borrows:
                self._defer(candidate, found)
            else:
                self._grant(candidate, found)

    def plan(self) -> CyclePlan:
        return CyclePlan(
            writes=tuple(self.writes),
            refused=tuple(self.refused),
            is_cut=any(turn == candidate.turn for _, _, turn, candidate in self._heap),
            wake_at=self.books.wake_at,
        )

    def _look_at(self, line: Line, heads: Iterable[Head]) -> None:
        following = list(heads)
        while following:
            head = following.pop()
            known = head.found.remembered(self.books.epoch(head.found.queue)) if head.is_first else None
            if known is None:
                self._push(_Candidate(head, line))
            else:
                following.extend(line.refused(head, known))

    def _push(self, candidate: _Candidate) -> None:
        candidate.turn += 1
        heapq.heappush(self._heap, (candidate.borrows, candidate.head.place, candidate.turn, candidate))

    def _refuse(self, candidate: _Candidate, refusal: Refusal) -> None:
        head = candidate.head
        self.refused.append(Refused(workload=self.books.workload(head.place.uid), refusal=refusal))
        queue = self.books.queues.get(head.found.queue or "")
        if head.is_first and (queue is None or queue.cohort not in self._touched):
            head.found.remember(self.books.epoch(head.found.queue), refusal)
        self._look_at(candidate.line, candidate.line.refused(head, refusal))

    def _defer(self, candidate: _Candidate, found: Nomination) -> None:
        """Put off one that borrows until nobody is left who does not."""
        candidate.borrows = True
        self._borrowing.setdefault(found.queue.cohort, []).append(candidate)
        self._push(candidate)

    def _grant(self, candidate: _Candidate, found: Nomination) -> None:
        uid, cohort = found.workload.meta.uid, found.queue.cohort
        claim = self.books.claim_of(uid)
        if claim is not None:
            self.ledger.add(claim.queue, claim.amounts, -1)
        self.ledger.add(found.queue.name, found.amounts)
        self.writes.append(grants.admit(found, self.now))
        self._touched.add(cohort)
        candidate.turn = -1
        self._look_at(candidate.line, candidate.line.granted(candidate.head))
        self._look_again(cohort)

    def _look_again(self, cohort: CohortKey) -> None:
        """Look again at those that borrow: where their first flavor is full now, they may stay within the next."""
        for candidate in self._borrowing.pop(cohort, ()):
            if candidate.turn > 0:
                candidate.borrows = False
                self._push(candidate)
