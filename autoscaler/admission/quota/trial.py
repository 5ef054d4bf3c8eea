"""What one cycle does, tried on a copy of the ledger: what is granted or claimed is taken at once, nothing is freed."""

from collections.abc import Mapping

from autoscaler.admission.quota import amounts, grants
from autoscaler.admission.quota.amounts import FlavorResource
from autoscaler.admission.quota.books import Books
from autoscaler.admission.quota.nomination import Nomination
from autoscaler.admission.quota.preemption import Situation
from autoscaler.admission.quota.queues import CohortKey, Queue
from autoscaler.admission.workload import Workload
from autoscaler.admission.writes import Write


class Trial:
    """The writes of one cycle, and what they take."""

    def __init__(self, books: Books, *, now: float, most: int) -> None:
        self.books = books
        self.now = now
        self.ledger = books.ledger.copy()
        self.writes: list[Write] = []
        self.is_cut = False
        """Whether there was more to write than is allowed."""
        self.touched: set[CohortKey] = set()
        """Cohorts for which something is written: what is refused there may fit if a write fails."""
        self.siblings: dict[tuple[str, str], Mapping[str, str]] = {}
        """Flavors that were chosen for slices, by the parent's UID and the pod set: the next get the same."""
        self._most = most
        self._evicting: set[str] = set()
        self._claimed: dict[str, dict[FlavorResource, int]] = {}
        for workload in books.claimants():
            claim = books.claim_of(workload.meta.uid)
            if claim is not None:
                amounts.add(self._claimed.setdefault(claim.queue, {}), claim.amounts)

    @property
    def is_full(self) -> bool:
        return len(self.writes) >= self._most

    def situation(self) -> Situation:
        """Return what victims are looked for in."""
        return Situation(
            books=self.books,
            ledger=self.ledger,
            siblings=self.siblings,
            evicting=self._evicting,
            claimed=self._claimed,
        )

    def grant(self, found: Nomination) -> None:
        """Admit one; its claim becomes its grant."""
        claim = self.books.claim_of(found.workload.meta.uid)
        if claim is not None:
            self.ledger.add(claim.queue, claim.amounts, -1)
        self.ledger.add(found.queue.name, found.amounts)
        parent = found.workload.parent_uid
        if parent is not None:
            self.siblings |= {(parent, each.name): each.flavors for each in found.assigned.assignments}
        self._write(grants.admit(found, self.now), found.queue)

    def claim(self, found: Nomination) -> None:
        """Hold what one will be granted against all others."""
        self.ledger.add(found.queue.name, found.amounts)
        amounts.add(self._claimed.setdefault(found.queue.name, {}), found.amounts)
        self._write(grants.claim(found), found.queue)

    def drop_claim(self, workload: Workload, queue: Queue | None) -> None:
        """Give up a claim; others are admitted into it when the books say so."""
        self._write(grants.drop_claim(workload), queue)

    def displace(self, victim: Workload, found: Nomination) -> None:
        """Evict one for another that has a claim."""
        self._evict(victim, grants.displace(victim, found, self.now), found.queue)

    def drain(self, workload: Workload, queue: Queue) -> None:
        """Evict one of a queue that is drained."""
        self._evict(workload, grants.drain(workload, queue.name, self.now), queue)

    def _evict(self, workload: Workload, write: Write, queue: Queue) -> None:
        if self._write(write, queue):
            self._evicting.add(workload.meta.uid)

    def _write(self, write: Write, queue: Queue | None) -> bool:
        if queue is not None:
            self.touched.add(queue.cohort)
        if self.is_full:
            self.is_cut = True
            return False
        self.writes.append(write)
        return True
