"""Whether one who waits could be admitted, and with which flavors. Pure: it asks the books and a ledger.

Nothing is taken: the ledger is afterwards what it was. Nobody is displaced, and whose turn it is is not asked.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import msgspec

from autoscaler.admission.quota import flavors
from autoscaler.admission.quota.amounts import Amounts
from autoscaler.admission.quota.cache import waiting
from autoscaler.admission.quota.cache.books import Books
from autoscaler.admission.quota.cache.ledger import Ledger
from autoscaler.admission.quota.cache.queues import Queue
from autoscaler.admission.quota.cache.waiting import WaitingClass, Want
from autoscaler.admission.quota.flavors import Assigned
from autoscaler.admission.quota.refusals import Refusal
from autoscaler.admission.workloads.workload import Admission, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Nomination:
    """What one who waits could be granted now."""

    workload: Workload
    queue: Queue
    assigned: Assigned
    borrows: bool
    """Whether the queue would use more than its own."""

    @property
    def amounts(self) -> Amounts:
        return self.assigned.amounts

    @property
    def admission(self) -> Admission:
        """The grant, or the claim, as it is written."""
        return Admission(
            cluster_queue=self.queue.name, generation=self.queue.generation, assignments=self.assigned.assignments
        )


Siblings = Mapping[tuple[str, str], Mapping[str, str]]
"""Flavors that this plan chose for slices, by the parent's UID and the pod set."""


def nominate(
    books: Books, ledger: Ledger, found: WaitingClass, uid: str, *, siblings: Siblings = MappingProxyType({})
) -> Nomination | Refusal:
    """Find room for one who waits, in what the ledger has left besides its own claim, or say what is missing."""
    refusal = books.config.refusal(found)
    if refusal is not None:
        return refusal
    workload, queue = books.workload(uid), books.queues[found.queue or ""]
    tried = workload.requeue.flavors_tried if workload.requeue is not None else ()
    claim = books.claim_of(uid)
    if claim is not None:
        ledger.add(claim.queue, claim.amounts, -1)
    chosen = choose(books, ledger, workload, queue, want=wants(books, workload, siblings), tried=tried)
    if claim is not None:
        ledger.add(claim.queue, claim.amounts)
    return chosen


def choose(  # what it is chosen for, and from what
    books: Books, ledger: Ledger, workload: Workload, queue: Queue, *, want: Iterable[Want], tried: Iterable[str]
) -> Nomination | Refusal:
    """Choose flavors in which a ledger has room."""
    assigned = flavors.assign(want, queue=queue, flavors=books.config.flavors, ledger=ledger, tried=tried)
    if isinstance(assigned, Refusal):
        return assigned
    borrows = ledger.borrows(queue, assigned.amounts)
    return Nomination(workload=workload, queue=queue, assigned=assigned, borrows=borrows)


def wants(books: Books, workload: Workload, siblings: Siblings) -> Iterator[Want]:
    """Return what one is nominated with; slices of a pod set without flavors keep to what one of them got."""
    for want in waiting.wants(workload, books.families.parent_of(workload)):
        if not want.flavors:
            name = want.pod_set.name
            chosen = siblings.get((workload.parent_uid or "", name)) or books.families.sibling_flavors(workload, name)
            yield msgspec.structs.replace(want, flavors=chosen)
        else:
            yield want
