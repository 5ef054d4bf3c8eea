"""What is written to ClusterQueues, LocalQueues and flavors: their finalizer, and their status where it changed.

Each of them has the finalizer from the start, not only from its first use: to put it on when use begins would take a
write before the first admission, and a deletion could come in between. It is taken off when nobody uses it any more;
until then the condition InUse says who does. Each object is written to at most once a second.
"""

from collections.abc import Iterable
from typing import Any, Final

from autoscaler import clock
from autoscaler.admission import writes
from autoscaler.admission.quota.cache.books import Books, Tables
from autoscaler.admission.reporting import queue_status, queue_users
from autoscaler.admission.reporting.queue_status import Numbers
from autoscaler.admission.state import tally
from autoscaler.admission.state.tally import Kind, Place, Tally
from autoscaler.admission.writes import On, Step, Write
from autoscaler.api import keys, status
from autoscaler.api.manifests import Manifest
from autoscaler.api.resources import ClusterQueue, LocalQueue
from autoscaler.control import pacing
from autoscaler.kube import objects

WRITE_SECONDS: Final = 1.0
"""How often one object is written to."""
_ON: Final = {Kind.CLUSTER_QUEUE: On.CLUSTER_QUEUE, Kind.LOCAL_QUEUE: On.LOCAL_QUEUE, Kind.FLAVOR: On.FLAVOR}


class QueueReports:
    """Knows which queues and flavors say something that is no longer so."""

    def __init__(self, time: clock.Clock, books: Books, tables: Tables, counted: Tally) -> None:
        self._clock = time
        self._books = books
        self._tables = tables
        self._tally = counted
        self._pacer: pacing.Pacer[Place] = pacing.Pacer(time, WRITE_SECONDS)
        self._doors = tables.local_queues.index(_leads_to)
        for each in (*tables.cluster_queues, *tables.local_queues, *tables.flavors):
            self._object_changed(None, each)
        for table in (tables.cluster_queues, tables.local_queues, tables.flavors):
            table.listen(self._object_changed)
        tables.namespaces.listen(self._namespace_changed)
        tables.pods.listen(self._pod_changed)
        counted.on_change.append(self._workloads_changed)

    def due(self) -> list[Write]:
        """Return what is to be written now."""
        return [write for place in list(self._pacer.take()) for write in self._of(place)]

    def note_not_done(self, write: Write, at: float) -> None:
        """Note that a write was refused, and when it may be tried again, on the monotonic clock."""
        kind = next(kind for kind, on in _ON.items() if on is write.on)
        self._pacer.note(Place(kind, write.key), at=at)

    @property
    def next_at(self) -> float | None:
        """When something is due, on the monotonic clock; None: nothing is."""
        return self._pacer.next_at

    # One object

    def _of(self, place: Place) -> Iterable[Write]:
        stored = self._stored(place)
        if stored is None:
            return ()
        users = self._users(place) if stored.meta.deleted_at is not None else ""
        finalizers = stored.meta.finalizers
        if stored.meta.deleted_at is None and keys.FINALIZER not in finalizers:
            return (_finalizers(place, stored, [*finalizers, keys.FINALIZER], Step.HOLD, "it may be used from now on"),)
        if stored.meta.deleted_at is not None and keys.FINALIZER in finalizers and not users:
            kept = [each for each in finalizers if each != keys.FINALIZER]
            return (_finalizers(place, stored, kept, Step.RELEASE, "nobody uses it"),)
        changes = self._status(stored, users)
        if not changes:
            return ()
        return (writes.patch_status(_ON[place.kind], Step.TELL, stored, changes, "its status changed"),)

    def _stored(self, place: Place) -> Any:  # noqa: ANN401  # an object of any of these kinds
        tables: dict[Kind, Any] = {
            Kind.CLUSTER_QUEUE: self._tables.cluster_queues,
            Kind.LOCAL_QUEUE: self._tables.local_queues,
            Kind.FLAVOR: self._tables.flavors,
        }
        return tables[place.kind].get(place.key)

    def _users(self, place: Place) -> str:
        match place.kind:
            case Kind.CLUSTER_QUEUE:
                return queue_users.of_cluster_queue(self._books, self._tally, place.key.name)
            case Kind.LOCAL_QUEUE:
                return queue_users.of_local_queue(self._tally, place.key)
            case Kind.FLAVOR:
                return queue_users.of_flavor(self._books, self._tally, place.key.name)

    def _status(self, stored: Any, users: str) -> Manifest:  # noqa: ANN401  # an object of any of these kinds
        now, flavors = self._clock.now(), self._books.flavors
        match stored.resource:
            case ClusterQueue():
                queue = self._books.queues[stored.meta.key.name]
                active = queue_status.of_cluster_queue(queue, flavors)
                return queue_status.cluster_queue(stored, queue, self.numbers(queue.name), active, users, now)
            case LocalQueue():
                queue_name = stored.resource.spec.cluster_queue
                labels = self._labels(stored.meta.key.namespace)
                active = queue_status.of_local_queue(stored, self._books.queues.get(queue_name), flavors, labels)
                return queue_status.local_queue(stored, self._at_door(stored.meta.key), active, users, now)
            case _:
                before = stored.resource.status
                return status.changes(before, {"conditions": queue_status.said(before.conditions, {}, users, now)})

    # Numbers

    def numbers(self, queue: str) -> Numbers:
        """Count the Workloads of a ClusterQueue, and what is used of it."""
        admitted = self._tally.get(tally.cluster_queue(queue))
        return Numbers(
            pending=sum(self._at_door(key).pending for key in self._doors.get(queue)),
            admitted=admitted.admitted if admitted is not None else 0,
            usage=self._books.usage.get(queue, {}),
        )

    def waits_since(self, queue: str) -> float | None:
        """Return since when the one waits for a ClusterQueue that has waited longest; None: nobody waits."""
        doors = (self._tally.get(tally.local_queue(key)) for key in self._doors.get(queue))
        return min((each.pending[0][0] for each in doors if each is not None and each.pending), default=None)

    def _at_door(self, key: objects.Key) -> Numbers:
        standing = self._tally.get(tally.local_queue(key))
        if standing is None:
            return Numbers()
        return Numbers(pending=len(standing.pending), admitted=standing.admitted)

    def _labels(self, namespace: str) -> Any:  # noqa: ANN401  # a mapping of labels
        found = self._tables.namespaces.get(objects.Key("", namespace))
        return found.meta.labels if found is not None else {}

    # What changed

    def _object_changed(self, old: Any, new: Any) -> None:  # noqa: ANN401  # an object of any of these kinds
        if old is not None and new is not None and _seen_by_others(old) == _seen_by_others(new):
            self._pacer.note(_place(new))
            return
        for each in (old, new):
            if each is not None:
                self._note_with_others(each)

    def _note_with_others(self, stored: Any) -> None:  # noqa: ANN401  # an object of any of these kinds
        """Note an object, and those that say something about it."""
        name = stored.meta.key.name
        self._pacer.note(_place(stored))
        match stored.resource:
            case ClusterQueue():
                for key in self._doors.get(name):
                    self._pacer.note(tally.local_queue(key))
                self._note_leaving_flavors()
            case LocalQueue():
                self._pacer.note(tally.cluster_queue(stored.resource.spec.cluster_queue))
            case _:
                for queue in self._books.queues.values():
                    if any(key.flavor == name for key in queue.quotas):
                        self._pacer.note(tally.cluster_queue(queue.name))
                        for key in self._doors.get(queue.name):
                            self._pacer.note(tally.local_queue(key))

    def _namespace_changed(self, old: objects.Simple | None, new: objects.Simple | None) -> None:
        if old is None or new is None or old.meta.labels == new.meta.labels:
            return
        for door in self._tables.local_queues:
            if door.meta.key.namespace == new.meta.key.name:
                self._pacer.note(tally.local_queue(door.meta.key))

    def _workloads_changed(self, place: Place) -> None:
        if place.kind is not Kind.FLAVOR or self._is_leaving(place):
            self._pacer.note(place)
        door = self._tables.local_queues.get(place.key) if place.kind is Kind.LOCAL_QUEUE else None
        if door is not None:
            self._pacer.note(tally.cluster_queue(door.resource.spec.cluster_queue))

    def _pod_changed(self, old: objects.Pod | None, new: objects.Pod | None) -> None:
        """Note the queue of a pod that came or ended: it counts where its job has no Workload."""
        if old is not None and new is not None and old.is_terminal == new.is_terminal and old.gates == new.gates:
            return
        queue = ((new or old).meta.annotations if new or old else {}).get(keys.CLUSTER_QUEUE)  # type: ignore[union-attr]
        if queue is not None:
            self._pacer.note(tally.cluster_queue(queue))
            self._note_leaving_flavors()

    def _note_leaving_flavors(self) -> None:
        for each in self._tables.flavors:
            if each.meta.deleted_at is not None:
                self._pacer.note(tally.flavor(each.meta.key.name))

    def _is_leaving(self, place: Place) -> bool:
        stored = self._stored(place)
        return stored is not None and stored.meta.deleted_at is not None


def _finalizers(place: Place, stored: Any, wanted: list[str], step: Step, why: str) -> Write:  # noqa: ANN401  # as above
    return writes.patch(_ON[place.kind], step, stored, {"metadata": {"finalizers": wanted or None}}, why)


def _place(stored: Any) -> Place:  # noqa: ANN401  # as above
    match stored.resource:
        case ClusterQueue():
            return tally.cluster_queue(stored.meta.key.name)
        case LocalQueue():
            return tally.local_queue(stored.meta.key)
        case _:
            return tally.flavor(stored.meta.key.name)


def _seen_by_others(stored: Any) -> object:  # noqa: ANN401  # as above
    """Return what others say something about: all but the status and the finalizers, which are ours."""
    return stored.meta.uid, stored.meta.generation, stored.meta.deleted_at


def _leads_to(stored: objects.Custom[LocalQueue]) -> tuple[str]:
    return (stored.resource.spec.cluster_queue,)
