"""Work that waits for quota, in order, and in classes of equal shape.

All members of a class want the same of the same queue, so where its best one does not fit, none does: a class is looked
at as one, and what a cycle costs does not depend on how many wait. A refusal is remembered until something that could
matter has changed; this is a cache and never changes a decision.
"""

import bisect
import heapq
import itertools
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeVar

import msgspec

from autoscaler.admission.quota.refusals import Refusal
from autoscaler.admission.workload import PodSet, Workload
from autoscaler.kube import objects

G = TypeVar("G", bound=Hashable)
_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")


class Place(NamedTuple):
    """A place in the order of a queue: priority, Workloads before slices, age, UID."""

    lowered_priority: int
    """The priority with its sign changed, so that smaller means sooner."""
    is_slice: bool
    created_at: float
    uid: str


class ClassKey(NamedTuple):
    """What members of a class have in common."""

    local_queue: objects.Key
    cluster_queue: str
    """The queue of a slice's parent; empty: that of the LocalQueue."""
    parent: str
    """The UID of a slice's parent; empty: Workloads."""
    claimant: str
    """The UID of one that has a claim: it is a class of its own; empty: members have none."""
    shape: bytes


class Want(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """So many pods that are alike, and the flavors that were already chosen for them."""

    pod_set: PodSet
    count: int
    flavors: Mapping[str, str] = {}


class WaitingClass:
    """Work of equal shape that waits in one queue."""

    def __init__(self, key: ClassKey) -> None:
        self.key = key
        self.queue: str | None = None
        """The ClusterQueue; None: the LocalQueue does not exist."""
        self.members: list[Place] = []
        """In order."""
        self._refused: tuple[Place, int, Refusal] | None = None

    def __len__(self) -> int:
        return len(self.members)

    def add(self, place: Place) -> None:
        bisect.insort(self.members, place)

    def remove(self, place: Place) -> None:
        del self.members[bisect.bisect_left(self.members, place)]

    def remember(self, epoch: int, refusal: Refusal) -> None:
        """Note that the first member was refused in this state of affairs."""
        self._refused = (self.members[0], epoch, refusal)

    def remembered(self, epoch: int) -> Refusal | None:
        """Return why the first member does not fit, if that was found in this very state of affairs."""
        if self._refused is None or self._refused[:2] != (self.members[0], epoch):
            return None
        return self._refused[2]

    def last_refusal(self) -> Refusal | None:
        """Return why the first member was refused when it was last looked at."""
        return self._refused[2] if self._refused is not None and self._refused[0] == self.members[0] else None


class Waiting:
    """All that waits, by LocalQueue and by ClusterQueue."""

    def __init__(self) -> None:
        self._classes: dict[ClassKey, WaitingClass] = {}
        self._doors: dict[objects.Key, dict[ClassKey, WaitingClass]] = {}
        self._queues: dict[str | None, dict[ClassKey, WaitingClass]] = {}

    def get(self, key: ClassKey) -> WaitingClass | None:
        """Return a class; None if nobody of it waits."""
        return self._classes.get(key)

    def add(self, key: ClassKey, place: Place, queue: str | None) -> None:
        """Let one wait; `queue` is where its LocalQueue leads now."""
        found = self._classes.get(key)
        if found is None:
            found = self._classes[key] = WaitingClass(key)
            self._doors.setdefault(key.local_queue, {})[key] = found
            self._attach(found, queue)
        found.add(place)

    def remove(self, key: ClassKey, place: Place) -> None:
        """Let one wait no longer."""
        found = self._classes[key]
        found.remove(place)
        if not found.members:
            del self._classes[key]
            _drop(self._doors, key.local_queue, key)
            _drop(self._queues, found.queue, key)

    def move(self, local_queue: objects.Key, queue: str | None) -> None:
        """Take over where a LocalQueue leads now; slices stay with their parent's queue."""
        for found in list(self._doors.get(local_queue, {}).values()):
            if not found.key.cluster_queue and found.queue != queue:
                _drop(self._queues, found.queue, found.key)
                self._attach(found, queue)

    def queues(self) -> Iterator[str | None]:
        """Return the ClusterQueues that something waits for; None: those of LocalQueues that do not exist."""
        return iter(self._queues)

    def classes(self, queue: str | None) -> Iterable[WaitingClass]:
        """Return what waits for a ClusterQueue."""
        return self._queues.get(queue, {}).values()

    def at_door(self, local_queue: objects.Key) -> int:
        """Count those who wait in a LocalQueue."""
        return sum(map(len, self._doors.get(local_queue, {}).values()))

    def count(self, queue: str | None) -> int:
        """Count those who wait for a ClusterQueue."""
        return sum(map(len, self.classes(queue)))

    def first(self, queue: str | None, most: int | None = None) -> list[Place]:
        """Return those who wait for a ClusterQueue, in order."""
        merged = heapq.merge(*(each.members for each in self.classes(queue)))
        return list(itertools.islice(merged, most))

    def _attach(self, found: WaitingClass, queue: str | None) -> None:
        found.queue = found.key.cluster_queue or queue
        self._queues.setdefault(found.queue, {})[found.key] = found


def place_of(workload: Workload, parent: Workload | None) -> Place:
    """Return one's place in the order; a slice has the priority of its parent."""
    priority = workload.priority if parent is None else parent.priority
    return Place(-priority, parent is not None, workload.queued_at, workload.meta.uid)


def wants(workload: Workload, parent: Workload | None) -> tuple[Want, ...]:
    """Return what one is nominated with.

    A Workload comes back with no more than it was first admitted with; a slice is locked to its parent's flavors.
    """
    if parent is not None:
        return tuple(_of_slice(each, parent) for each in workload.pod_sets)
    first = workload.first_admitted
    return tuple(
        Want(pod_set=each, count=min(each.count, first.get(each.name, 0)) if first else each.count)
        for each in workload.pod_sets
    )


def key_of(workload: Workload, parent: Workload | None) -> ClassKey:
    """Return the class that one waits in."""
    tried = workload.requeue.flavors_tried if workload.requeue is not None else ()
    return ClassKey(
        local_queue=objects.Key(workload.meta.key.namespace, workload.queue),
        cluster_queue=parent.admission.cluster_queue if parent is not None and parent.admission is not None else "",
        parent=parent.meta.uid if parent is not None else "",
        claimant=workload.meta.uid if workload.claim is not None else "",
        shape=_ENCODER.encode((wants(workload, parent), tried)),
    )


def _of_slice(pod_set: PodSet, parent: Workload) -> Want:
    granted = parent.admission.of(pod_set.name) if parent.admission is not None else None
    return Want(pod_set=pod_set, count=pod_set.count, flavors=granted.flavors if granted is not None else {})


def _drop(groups: dict[G, dict[ClassKey, WaitingClass]], group: G, key: ClassKey) -> None:
    del groups[group][key]
    if not groups[group]:
        del groups[group]
