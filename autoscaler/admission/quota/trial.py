"""What one cycle does, tried on a copy of the ledger: what is granted or claimed is taken at once, nothing is freed.

The books stay as they are, and nothing is sent.
"""

from collections.abc import Mapping

from autoscaler.admission.quota import amounts, grants, preemption
from autoscaler.admission.quota.amounts import Amounts, FlavorResource
from autoscaler.admission.quota.cache.books import Books
from autoscaler.admission.quota.cache.ledger import Ledger
from autoscaler.admission.quota.cache.queues import CohortKey, Queue
from autoscaler.admission.quota.nomination import Nomination
from autoscaler.admission.quota.preemption import Displacement, Situation
from autoscaler.admission.workloads.workload import Workload
from autoscaler.admission.writes import Write
from autoscaler.kube import objects


class Trial:
    """The writes of one cycle, and what they take."""

    def __init__(self, books: Books, *, now: float, most: int) -> None:
        self.books = books
        self.now = now
        self.ledger = books.ledger.copy()
        self.writes: dict[objects.Key, Write] = {}
        """One for each object: who is admitted after all does not have its claim dropped first."""
        self.is_cut = False
        """Whether there was more to write than is allowed."""
        self.touched: set[CohortKey] = set()
        """Cohorts of which something is taken: what is refused there may fit if a write fails."""
        self.siblings: dict[tuple[str, str], Mapping[str, str]] = {}
        """Flavors that were chosen for slices, by the parent's UID and the pod set: the next get the same."""
        self._most = most
        self._leaving: set[str] = set()
        """Workloads that this plan evicts, or will once its claims are written."""
        self._claimed: dict[str, dict[FlavorResource, int]] = {}
        for _, claim in books.claims():
            amounts.add(self._claimed.setdefault(claim.queue, {}), claim.amounts)

    @property
    def is_full(self) -> bool:
        return len(self.writes) >= self._most

    def situation(self, ledger: Ledger, claimed: Mapping[str, Amounts]) -> Situation:
        """Return what victims are looked for in, where so much is claimed."""
        return Situation(
            books=self.books, ledger=ledger, siblings=self.siblings, evicting=self._leaving, claimed=claimed
        )

    def find(self, workload: Workload, queue: Queue) -> Displacement | None:
        """Find out how one without a claim could be helped by displacing others; None: it could not."""
        return preemption.find(self.situation(self.ledger, self._claimed), workload, queue)

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

    def claim(self, found: Displacement) -> None:
        """Hold what one will be granted against all others; its victims are as good as gone for whoever comes next."""
        wanted = found.nomination
        self.ledger.add(wanted.queue.name, wanted.amounts)
        amounts.add(self._claimed.setdefault(wanted.queue.name, {}), wanted.amounts)
        self._leaving.update(victim.meta.uid for victim in found.victims)
        self._write(grants.claim(wanted, found.victims), wanted.queue)

    def drop_claim(self, workload: Workload) -> None:
        """Give up a claim; others are admitted into it when the books say so."""
        self._write(grants.drop_claim(workload))

    def displace(self, victim: Workload, found: Nomination) -> None:
        """Evict one for another that has a claim."""
        self._leaving.add(victim.meta.uid)
        self._write(grants.displace(victim, found, self.now), found.queue)

    def drain(self, workload: Workload, queue: Queue) -> None:
        """Evict one of a queue that is drained."""
        self._leaving.add(workload.meta.uid)
        self._write(grants.drain(workload, queue.name, self.now), queue)

    def _write(self, write: Write, queue: Queue | None = None) -> None:
        if queue is not None:
            self.touched.add(queue.cohort)
        if self.is_full:
            self.is_cut = True
        else:
            self.writes[write.key] = write
