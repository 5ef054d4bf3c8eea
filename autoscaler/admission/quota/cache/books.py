"""What is used of each quota and who waits for it, kept current by each change of the tables.

A change costs what changed, not what exists. What the books say must be what reading all tables afresh would say;
tests compare the two. Nothing is decided here.
"""

import heapq
import itertools
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from autoscaler.admission.quota import amounts
from autoscaler.admission.quota.amounts import FlavorResource
from autoscaler.admission.quota.cache import usage, waiting
from autoscaler.admission.quota.cache.admitted import Admitted, is_leaving
from autoscaler.admission.quota.cache.configuration import Configuration, Tables
from autoscaler.admission.quota.cache.families import Families
from autoscaler.admission.quota.cache.ledger import Ledger
from autoscaler.admission.quota.cache.queues import CohortKey, Flavor, Queue
from autoscaler.admission.quota.cache.strays import Strays
from autoscaler.admission.quota.cache.usage import Use
from autoscaler.admission.quota.cache.waiting import ClassKey, Place, Waiting, WaitingClass
from autoscaler.admission.quota.refusals import Refusal
from autoscaler.admission.workloads.workload import Workload
from autoscaler.kube import objects

__all__ = ["Books", "Seat", "Tables"]


class Seat(NamedTuple):
    """Where one waits, and what it holds against all others meanwhile."""

    key: ClassKey
    place: Place
    claim: Use | None


class Books:
    """Usage, claims and waiting work of all queues."""

    def __init__(self, tables: Tables) -> None:
        self.config = Configuration(tables, self)
        self.families = Families()
        self.usage: dict[str, dict[FlavorResource, int]] = {}
        """What is used of each ClusterQueue's quota; queues of which nothing is used are absent."""
        self.ledger = Ledger()
        """Usage and claims together."""
        self.waiting = Waiting()
        self.admitted = Admitted()
        self._strays = Strays(self._use, lambda queue: self._note(queue, freed=False))
        self._used: dict[str, Use] = {}
        self._seats: dict[str, Seat] = {}
        self._claimants: set[str] = set()
        self._later: dict[str, float] = {}
        self._alarm: list[tuple[float, str]] = []
        self._now = float("-inf")
        self._events = itertools.count(1)
        self._config = 0
        """The event at which configuration last changed."""
        self._freed: dict[CohortKey, int] = {}
        """The event at which a cohort's usage last went down, or a claim was dropped."""
        self._moved: dict[CohortKey, int] = {}
        """The event at which anything of a cohort last changed: there may be others to displace."""
        self.config.start()
        for workload in tables.workloads:
            self._workload_changed(None, workload)
        for pod in tables.pods:
            self._strays.pod_changed(None, pod)
        tables.workloads.listen(self._workload_changed)
        tables.pods.listen(self._strays.pod_changed)

    # What decisions ask

    @property
    def queues(self) -> dict[str, Queue]:
        """The ClusterQueues by name."""
        return self.config.queues

    @property
    def flavors(self) -> Mapping[str, Flavor]:
        """The ResourceFlavors by name."""
        return self.config.flavors

    def get(self, uid: str) -> Workload | None:
        """Return a Workload or slice; None: it is not there."""
        return self.families.get(uid)

    def parent_of(self, workload: Workload) -> Workload | None:
        """Return the Workload that this is a slice of; None: it is no slice, or its parent is gone."""
        return self.families.parent_of(workload)

    def queue_of(self, workload: Workload) -> str | None:
        """Return the ClusterQueue that one, or its parent, has quota of, or waits for; None: there is no LocalQueue."""
        granted = (self.parent_of(workload) or workload).admission
        if granted is not None:
            return granted.cluster_queue
        return self.config.leads_to(objects.Key(workload.meta.key.namespace, workload.queue))

    def workload(self, uid: str) -> Workload:
        """Return a Workload or slice that is known to be there."""
        return self.families.known(uid)

    def family_uses(self, uid: str) -> list[Use]:
        """Return what a Workload and its slices use."""
        found = (self._used.get(each) for each in self.families.members(uid))
        return [use for use in found if use is not None]

    def may_free(self, uid: str) -> bool:
        """Tell whether a Workload gives its quota back when it is evicted or deleted: all its pods end with it."""
        return not self._strays.has_orphans(self.workload(uid).job_uid)

    def claim_of(self, uid: str) -> Use | None:
        """Return what one who waits holds against all others; None: nothing."""
        seat = self._seats.get(uid)
        return seat.claim if seat is not None else None

    def claims(self) -> list[tuple[Workload, Use]]:
        """Return those who wait and have a claim, the best first, and what they claim."""
        seats = sorted((self._seats[uid] for uid in self._claimants if uid in self._seats), key=lambda seat: seat.place)
        return [(self.workload(seat.place.uid), seat.claim) for seat in seats if seat.claim is not None]

    def class_of(self, uid: str) -> WaitingClass:
        """Return the class of one who waits."""
        return self.waiting.known(self._seats[uid].key)

    def claimants(self) -> list[Workload]:
        """Return all that have a claim, also if they do not wait any more."""
        return [self.families.known(uid) for uid in sorted(self._claimants)]

    def is_waiting(self, uid: str) -> bool:
        return uid in self._seats

    def epoch(self, queue: str | None) -> int:
        """Return a number that changes with whatever could let somebody in who did not fit into this queue."""
        found = self.queues.get(queue or "")
        if found is None:
            return self._config
        return max(self._config, (self._moved if found.preempts else self._freed).get(found.cohort, 0))

    def refusal_of(self, uid: str) -> Refusal | None:
        """Say why one who waits, or the first of its class, was refused when it was last looked at; None: not yet."""
        return self.class_of(uid).last_refusal()

    # Time

    def wake(self, now: float) -> None:
        """Let those wait whose time to be tried again has come."""
        self._now = now
        while self._alarm and self._alarm[0][0] <= now:
            _, uid = heapq.heappop(self._alarm)
            self._refresh([uid])

    @property
    def wake_at(self) -> float | None:
        """When the next one may be tried again; None: nobody waits for a time."""
        while self._alarm and self._later.get(self._alarm[0][1]) != self._alarm[0][0]:
            heapq.heappop(self._alarm)
        return self._alarm[0][0] if self._alarm else None

    # What the tables say

    def queue_changed(self, before: Queue | None, after: Queue | None) -> None:
        """Take over a ClusterQueue as it was and is."""
        if before is not None:
            self.ledger.remove_queue(before)
        if after is not None:
            self.ledger.add_queue(after)

    def door_changed(self, local_queue: objects.Key) -> None:
        """Take over that a LocalQueue leads elsewhere, or that it comes or goes."""
        self.waiting.move(local_queue, self.config.leads_to(local_queue))

    def configuration_changed(self) -> None:
        """Look at everybody again."""
        self._config = next(self._events)

    def _workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        if old is not None and (new is None or _identity(new) != _identity(old)):
            self._note_workload(old, None)
            self._refresh(self.families.forget(old))
            old = None
        if new is not None:
            self._note_workload(old, new)
            self._refresh(self.families.take(old, new))

    def _note_workload(self, old: Workload | None, new: Workload | None) -> None:
        self._strays.workload_changed(old, new)
        if old is not None:
            self._claimants.discard(old.meta.uid)
        if new is not None and new.claim is not None:
            self._claimants.add(new.meta.uid)

    # One Workload or slice

    def _refresh(self, uids: Iterable[str]) -> None:
        """Set down anew what these use, claim and wait for."""
        for uid in uids:
            self._set_down(uid, self.families.get(uid))

    def _set_down(self, uid: str, workload: Workload | None) -> None:
        for queue in self.admitted.take(uid, workload):
            self._note(queue, freed=False)
        self._set_use(uid, usage.of(workload, self.families.parent_of(workload)) if workload is not None else None)
        self._later.pop(uid, None)
        seat = None
        if workload is not None and self._may_wait(workload):
            at = workload.requeue.at if workload.requeue is not None else self._now
            if at <= self._now:
                seat = self._seat_of(workload)
            else:
                self._later[uid] = at
                heapq.heappush(self._alarm, (at, uid))
        self._set_seat(uid, seat)

    def _may_wait(self, workload: Workload) -> bool:
        """Tell whether one waits for quota, or will when its time has come."""
        if workload.admission is not None or is_leaving(workload):
            return False
        if not workload.is_slice:
            return not self.families.has_slices(workload.meta.uid)
        parent = self.families.parent_of(workload)
        return parent is not None and parent.admission is not None and not is_leaving(parent)

    def _seat_of(self, workload: Workload) -> Seat:
        parent = self.families.parent_of(workload)
        claim = usage.granted(workload, workload.claim) if workload.claim is not None else None
        return Seat(waiting.key_of(workload, parent), waiting.place_of(workload, parent), claim)

    def _set_seat(self, uid: str, new: Seat | None) -> None:
        old = self._seats.get(uid)
        if old == new:
            return
        if old is not None:
            del self._seats[uid]
            self.waiting.remove(old.key, old.place)
            self._hold(old.claim, -1)
        if new is not None:
            self._seats[uid] = new
            self.waiting.add(new.key, new.place, self.config.leads_to(new.key.local_queue))
            self._hold(new.claim, 1)

    def _set_use(self, uid: str, new: Use | None) -> None:
        old = self._used.get(uid)
        if old == new:
            return
        if new is not None:
            self._used[uid] = new
            self._use(new, 1)
        if old is not None:
            if new is None:
                del self._used[uid]
            self._use(old, -1)

    # Sums

    def _use(self, use: Use, times: int) -> None:
        total = self.usage.setdefault(use.queue, {})
        amounts.add(total, use.amounts, times)
        if not total:
            del self.usage[use.queue]
        self.ledger.add(use.queue, use.amounts, times)
        self._note(use.queue, freed=times < 0)

    def _hold(self, claim: Use | None, times: int) -> None:
        if claim is not None:
            self.ledger.add(claim.queue, claim.amounts, times)
            self._note(claim.queue, freed=times < 0)

    def _note(self, name: str, *, freed: bool) -> None:
        queue = self.queues.get(name)
        if queue is not None:
            self._moved[queue.cohort] = event = next(self._events)
            if freed:
                self._freed[queue.cohort] = event


def _identity(workload: Workload) -> tuple[str, str | None]:
    return workload.meta.uid, workload.parent_uid
