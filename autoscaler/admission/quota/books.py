"""What is used of each quota and who waits for it, kept current by each change of the tables.

A change costs what changed, not what exists. What the books say must be what reading all tables afresh would say:
`recomputed` does that, slowly, for tests to compare with. Nothing is decided here.
"""

import heapq
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from autoscaler.admission.quota import amounts, queues, usage, wants
from autoscaler.admission.quota.admitted import Admitted, is_leaving
from autoscaler.admission.quota.amounts import FlavorResource
from autoscaler.admission.quota.ledger import Ledger
from autoscaler.admission.quota.queues import CohortKey, Flavor, Queue
from autoscaler.admission.quota.refusals import Reason, Refusal
from autoscaler.admission.quota.strays import Strays
from autoscaler.admission.quota.usage import Use
from autoscaler.admission.quota.waiting import Waiting, WaitingClass
from autoscaler.admission.quota.wants import ClassKey, Place
from autoscaler.admission.workload import Workload
from autoscaler.api.resources import ClusterQueue, LocalQueue, ResourceFlavor
from autoscaler.kube import objects, store


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """All that quota is decided on."""

    workloads: store.Table[Workload]
    cluster_queues: store.Table[objects.Custom[ClusterQueue]]
    local_queues: store.Table[objects.Custom[LocalQueue]]
    flavors: store.Table[objects.Custom[ResourceFlavor]]
    namespaces: store.Table[objects.Simple]
    pods: store.Table[objects.Pod]


class Seat(NamedTuple):
    """Where one waits, and what it holds against all others meanwhile."""

    key: ClassKey
    place: Place
    claim: Use | None


class Books:
    """Usage, claims and waiting work of all queues."""

    def __init__(self, tables: Tables) -> None:
        self.queues: dict[str, Queue] = {}
        self.flavors: dict[str, Flavor] = {}
        self.usage: dict[str, dict[FlavorResource, int]] = {}
        """What is used of each ClusterQueue's quota; queues of which nothing is used are absent."""
        self.ledger = Ledger()
        """Usage and claims together."""
        self.waiting = Waiting()
        self.admitted = Admitted()
        self._tables = tables
        self._workloads: dict[str, Workload] = {}
        self._slices: dict[str, dict[str, None]] = {}
        self._strays = Strays(self._use)
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
        self._read_tables()

    # What decisions ask

    def get(self, uid: str) -> Workload | None:
        """Return a Workload or slice."""
        return self._workloads.get(uid)

    def workload(self, uid: str) -> Workload:
        """Return a Workload or slice that is known to be there."""
        return self._workloads[uid]

    def parent_of(self, workload: Workload) -> Workload | None:
        """Return the Workload that this is a slice of; None: it is no slice, or its parent is gone."""
        uid = workload.parent_uid
        found = self._workloads.get(uid) if uid is not None else None
        return found if found is not None and not found.is_slice else None

    def slices_of(self, uid: str) -> Iterator[Workload]:
        """Return the slices of a Workload."""
        return (self._workloads[each] for each in self._slices.get(uid, ()))

    def use_of(self, uid: str) -> Use | None:
        """Return what a Workload or slice uses; None: nothing."""
        return self._used.get(uid)

    def family_uses(self, uid: str) -> list[Use]:
        """Return what a Workload and its slices use."""
        found = (self._used.get(each) for each in (uid, *self._slices.get(uid, ())))
        return [use for use in found if use is not None]

    def priority_of(self, workload: Workload) -> int:
        """Return the priority of a Workload; a slice has that of its parent."""
        parent = self.parent_of(workload)
        return parent.priority if parent is not None else workload.priority

    def claim_of(self, uid: str) -> Use | None:
        """Return what one who waits holds against all others; None: nothing."""
        seat = self._seats.get(uid)
        return seat.claim if seat is not None else None

    def claimants(self) -> list[Workload]:
        """Return all that have a claim, also if they do not wait any more."""
        return [self._workloads[uid] for uid in sorted(self._claimants)]

    def is_waiting(self, uid: str) -> bool:
        return uid in self._seats

    def epoch(self, queue: str | None) -> int:
        """Return a number that changes with whatever could let somebody in who did not fit into this queue."""
        found = self.queues.get(queue or "")
        if found is None:
            return self._config
        return max(self._config, (self._moved if found.preempts else self._freed).get(found.cohort, 0))

    def members(self, cohort: CohortKey) -> list[Queue]:
        """Return the queues of a cohort."""
        return [each for each in self.queues.values() if each.cohort == cohort]

    def door_refusal(self, found: WaitingClass) -> Refusal | None:
        """Say why nothing of a class can be admitted whatever is free; None: it can."""
        key = found.key.local_queue
        door = self._tables.local_queues.get(key)
        if door is None:
            return Refusal(reason=Reason.LOCAL_QUEUE_MISSING, queue=key.name)
        if door.meta.deleted_at is not None:
            return Refusal(reason=Reason.LOCAL_QUEUE_LEAVING, queue=key.name)
        queue = self.queues.get(found.queue or "")
        if queue is None:
            return Refusal(reason=Reason.QUEUE_MISSING, queue=found.queue or "")
        namespace = self._tables.namespaces.get(objects.Key("", key.namespace))
        if not queue.takes(namespace.meta.labels if namespace is not None else {}):
            return Refusal(reason=Reason.NAMESPACE_REFUSED, queue=queue.name)
        return queue.refusal

    def sibling_flavors(self, part: Workload, pod_set: str) -> Mapping[str, str]:
        """Return the flavors that another slice was granted for a pod set that the parent has no flavors for yet."""
        parent = self.parent_of(part)
        for sibling in self.slices_of(part.parent_uid or ""):
            if sibling.admission is not None and usage.counts(sibling, parent):
                granted = sibling.admission.of(pod_set)
                if granted is not None and granted.flavors:
                    return granted.flavors
        return {}

    def refusal_of(self, uid: str) -> Refusal | None:
        """Say why one was refused when it, or the first of its class, was last looked at; None: it was not yet."""
        seat = self._seats.get(uid)
        found = self.waiting.get(seat.key) if seat is not None else None
        return found.last_refusal() if found is not None else None

    # Time

    def wake(self, now: float) -> None:
        """Let those wait whose time to be tried again has come."""
        self._now = max(self._now, now)
        while self._alarm and self._alarm[0][0] <= self._now:
            at, uid = heapq.heappop(self._alarm)
            if self._later.get(uid) == at:
                self._refresh(uid)

    @property
    def wake_at(self) -> float | None:
        """When the next one may be tried again; None: nobody waits for a time."""
        while self._alarm and self._later.get(self._alarm[0][1]) != self._alarm[0][0]:
            heapq.heappop(self._alarm)
        return self._alarm[0][0] if self._alarm else None

    # What the tables say

    def _read_tables(self) -> None:
        tables = self._tables
        for flavor in tables.flavors:
            self._flavor_changed(None, flavor)
        for queue in tables.cluster_queues:
            self._queue_changed(None, queue)
        for workload in tables.workloads:
            self._workload_changed(None, workload)
        for pod in tables.pods:
            self._strays.pod_changed(None, pod)
        tables.flavors.listen(self._flavor_changed)
        tables.cluster_queues.listen(self._queue_changed)
        tables.local_queues.listen(self._door_changed)
        tables.namespaces.listen(self._namespace_changed)
        tables.workloads.listen(self._workload_changed)
        tables.pods.listen(self._strays.pod_changed)

    def _flavor_changed(
        self, old: objects.Custom[ResourceFlavor] | None, new: objects.Custom[ResourceFlavor] | None
    ) -> None:
        before = self.flavors.pop(old.meta.key.name, None) if old is not None else None
        after = queues.flavor(new) if new is not None else None
        if after is not None:
            self.flavors[after.name] = after
        self._configured(changed=before != after)

    def _queue_changed(
        self, old: objects.Custom[ClusterQueue] | None, new: objects.Custom[ClusterQueue] | None
    ) -> None:
        before = self.queues.pop(old.meta.key.name, None) if old is not None else None
        after = queues.queue(new) if new is not None else None
        if before is not None and before != after:
            self.ledger.remove_queue(before)
        if after is not None:
            self.queues[after.name] = after
            if before != after:
                self.ledger.add_queue(after)
        self._configured(changed=before != after)

    def _door_changed(self, old: objects.Custom[LocalQueue] | None, new: objects.Custom[LocalQueue] | None) -> None:
        before, after = _door(old), _door(new)
        stored = new or old
        if stored is not None and before != after:
            self.waiting.move(stored.meta.key, after[0] if after is not None else None)
        self._configured(changed=before != after)

    def _namespace_changed(self, old: objects.Simple | None, new: objects.Simple | None) -> None:
        self._configured(changed=old is None or new is None or old.meta.labels != new.meta.labels)

    def _configured(self, *, changed: bool) -> None:
        """Look at everybody again where configuration changed: it does so seldom."""
        if changed:
            self._config = next(self._events)

    def _workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        if old is not None and (new is None or _identity(new) != _identity(old)):
            self._forget(old)
            old = None
        if new is not None:
            self._take(old, new)

    def _take(self, old: Workload | None, new: Workload) -> None:
        uid = new.meta.uid
        self._workloads[uid] = new
        if new.claim is not None:
            self._claimants.add(uid)
        else:
            self._claimants.discard(uid)
        self._strays.workload_changed(old, new)
        if new.parent_uid is not None:
            self._slices.setdefault(new.parent_uid, {})[uid] = None
        self._refresh(uid)
        for relative in self._relatives(old, new):
            self._refresh(relative)

    def _forget(self, old: Workload) -> None:
        uid = old.meta.uid
        self._strays.workload_changed(old, None)
        self._claimants.discard(uid)
        del self._workloads[uid]
        if old.parent_uid is not None:
            siblings = self._slices[old.parent_uid]
            del siblings[uid]
            if not siblings:
                del self._slices[old.parent_uid]
        self._refresh(uid)
        for relative in self._relatives(old, None):
            self._refresh(relative)

    def _relatives(self, old: Workload | None, new: Workload | None) -> list[str]:
        """Return those whose standing depends on a Workload that changed: its parent, or those of its slices."""
        changed = new or old
        if changed is None:
            return []
        if changed.parent_uid is not None:
            return [changed.parent_uid] if old is None or new is None else []
        slices = self._slices.get(changed.meta.uid, {})
        if not slices:
            return []
        if old is None or new is None or _seen_by_slices(old) != _seen_by_slices(new):
            return list(slices)
        return [uid for uid in old.folded ^ new.folded if uid in slices]

    # One Workload or slice

    def _refresh(self, uid: str) -> None:
        """Set down anew what one uses, claims and waits for."""
        workload = self._workloads.get(uid)
        for queue in self.admitted.take(uid, workload):
            self._note(queue, freed=False)
        self._set_use(uid, usage.of(workload, self.parent_of(workload)) if workload is not None else None)
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
            return workload.meta.uid not in self._slices
        parent = self.parent_of(workload)
        return parent is not None and parent.admission is not None and not is_leaving(parent)

    def _seat_of(self, workload: Workload) -> Seat:
        parent = self.parent_of(workload)
        claim = usage.granted(workload, workload.claim) if workload.claim is not None else None
        return Seat(wants.key_of(workload, parent), wants.place_of(workload, parent), claim)

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
            self.waiting.add(new.key, new.place, self._leads_to(new.key.local_queue))
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

    def _leads_to(self, local_queue: objects.Key) -> str | None:
        door = self._tables.local_queues.get(local_queue)
        return door.resource.spec.cluster_queue if door is not None else None


def _door(stored: objects.Custom[LocalQueue] | None) -> tuple[str, bool] | None:
    """Return what is read of a LocalQueue: where it leads, and whether it is being deleted."""
    return (stored.resource.spec.cluster_queue, stored.meta.deleted_at is not None) if stored is not None else None


def _identity(workload: Workload) -> tuple[str, str | None]:
    return workload.meta.uid, workload.parent_uid


def _seen_by_slices(parent: Workload) -> object:
    """Return what slices depend on of their parent, folded ones aside."""
    granted = parent.admission
    flavors = [(each.name, each.flavors) for each in granted.assignments] if granted is not None else None
    queue = granted.cluster_queue if granted is not None else None
    return (queue, flavors, parent.priority, parent.active, parent.is_leaving, parent.is_evicted, parent.is_finished)
