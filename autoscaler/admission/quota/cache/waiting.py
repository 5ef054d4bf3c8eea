"""Work that waits for quota, in order, and in classes of equal shape.

All members of a class want the same of the same queue, so where its best one does not fit, none does: a class is looked
at as one, and what a cycle costs does not depend on how many wait. A class that was refused is not looked at again
until something that could matter has changed; this is a cache and never changes a decision. Whether anybody fits is
decided elsewhere.
"""

import bisect
import heapq
import itertools
from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from autoscaler.admission.quota.refusals import Refusal
from autoscaler.admission.workloads.workload import PodSet, Workload
from autoscaler.kube import objects

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

    def __init__(self, key: ClassKey, queue: str | None) -> None:
        self.key = key
        self.queue = queue
        """The ClusterQueue; None: the LocalQueue does not exist."""
        self.members: list[Place] = []
        """In order."""
        self.refused: tuple[Place, int, Refusal] | None = None
        """Who was refused at last, in which state of affairs, and why."""

    def __len__(self) -> int:
        return len(self.members)

    @property
    def head(self) -> Place | None:
        return self.members[0] if self.members else None

    def remembered(self, epoch: int) -> Refusal | None:
        """Return why the first member does not fit, if that was found in this very state of affairs."""
        return self.refused[2] if self.refused is not None and self.refused[:2] == (self.head, epoch) else None

    def last_refusal(self) -> Refusal | None:
        """Return why the first member was refused when it was last looked at."""
        return self.refused[2] if self.refused is not None and self.refused[0] == self.head else None


class QueueLine:
    """All that waits for one ClusterQueue."""

    def __init__(self) -> None:
        self.heads: list[Place] = []
        """The first of each class, in order."""
        self._classes: dict[str, WaitingClass] = {}
        """By the UID of their first."""
        self._fresh: dict[ClassKey, WaitingClass] = {}
        self._refused: dict[ClassKey, WaitingClass] = {}
        self._claimants: dict[ClassKey, WaitingClass] = {}
        self._epoch = 0
        """The state of affairs in which those were refused."""

    def class_of(self, head: Place) -> WaitingClass:
        """Return the class whose first member this is."""
        return self._classes[head.uid]

    def claimants(self) -> Collection[WaitingClass]:
        """Return the classes of those that have a claim."""
        return self._claimants.values()

    def fresh(self, epoch: int) -> Collection[WaitingClass]:
        """Return the classes that were not refused in this state of affairs."""
        if epoch != self._epoch:
            self._fresh |= self._refused
            self._refused.clear()
            self._epoch = epoch
        return self._fresh.values()

    def refuse(self, found: WaitingClass, epoch: int, refusal: Refusal) -> None:
        """Remember that the first of a class was refused in this state of affairs."""
        found.refused = (found.members[0], epoch, refusal)
        if epoch == self._epoch:
            self._fresh.pop(found.key, None)
            self._refused[found.key] = found

    def first(self, most: int | None = None) -> list[Place]:
        """Return those who wait, in order."""
        foremost = [self._classes[head.uid].members for head in self.heads[:most]]
        return list(itertools.islice(heapq.merge(*foremost), most))

    def add(self, found: WaitingClass, place: Place) -> None:
        """Let one more of a class wait."""
        before = found.head
        bisect.insort(found.members, place)
        self._take_head(found, before)

    def remove(self, found: WaitingClass, place: Place) -> None:
        """Let one of a class wait no longer."""
        before = found.head
        del found.members[bisect.bisect_left(found.members, place)]
        self._take_head(found, before)

    def attach(self, found: WaitingClass) -> None:
        """Let a whole class wait here."""
        self._take_head(found, None)

    def detach(self, found: WaitingClass) -> None:
        """Let a whole class wait here no longer."""
        self._drop_head(found, found.head)

    def _take_head(self, found: WaitingClass, before: Place | None) -> None:
        head = found.head
        if head == before:
            return
        self._drop_head(found, before)
        if head is not None:
            bisect.insort(self.heads, head)
            self._classes[head.uid] = self._fresh[found.key] = found
            if found.key.claimant:
                self._claimants[found.key] = found

    def _drop_head(self, found: WaitingClass, head: Place | None) -> None:
        if head is not None:
            del self.heads[bisect.bisect_left(self.heads, head)]
            del self._classes[head.uid]
            for classes in (self._fresh, self._refused, self._claimants):
                classes.pop(found.key, None)


class Waiting:
    """All that waits, by LocalQueue and by ClusterQueue."""

    def __init__(self) -> None:
        self._classes: dict[ClassKey, WaitingClass] = {}
        self._doors: dict[objects.Key, dict[ClassKey, WaitingClass]] = {}
        self._lines: dict[str | None, QueueLine] = {}

    def get(self, key: ClassKey) -> WaitingClass | None:
        """Return a class; None if nobody of it waits."""
        return self._classes.get(key)

    def known(self, key: ClassKey) -> WaitingClass:
        """Return a class of which somebody waits."""
        return self._classes[key]

    def add(self, key: ClassKey, place: Place, queue: str | None) -> None:
        """Let one wait; `queue` is where its LocalQueue leads now."""
        found = self._classes.get(key)
        if found is None:
            found = self._classes[key] = WaitingClass(key, key.cluster_queue or queue)
            self._doors.setdefault(key.local_queue, {})[key] = found
        self._lines.setdefault(found.queue, QueueLine()).add(found, place)

    def remove(self, key: ClassKey, place: Place) -> None:
        """Let one wait no longer."""
        found = self._classes[key]
        self._lines[found.queue].remove(found, place)
        self._forget_empty(found.queue)
        if not found.members:
            del self._classes[key]
            self._forget_class(key)

    def move(self, local_queue: objects.Key, queue: str | None) -> None:
        """Take over where a LocalQueue leads now; slices stay with their parent's queue."""
        for found in list(self._doors.get(local_queue, {}).values()):
            if not found.key.cluster_queue and found.queue != queue:
                self._lines[found.queue].detach(found)
                self._forget_empty(found.queue)
                found.queue = queue
                self._lines.setdefault(queue, QueueLine()).attach(found)

    def queues(self) -> Iterator[str | None]:
        """Return the ClusterQueues that something waits for; None: those of LocalQueues that do not exist."""
        return iter(self._lines)

    def line(self, queue: str | None) -> QueueLine:
        """Return what waits for a ClusterQueue."""
        found = self._lines.get(queue)
        return found if found is not None else QueueLine()

    def first(self, queue: str | None, most: int | None = None) -> list[Place]:
        """Return those who wait for a ClusterQueue, in order."""
        return self.line(queue).first(most)

    def _forget_class(self, key: ClassKey) -> None:
        classes = self._doors[key.local_queue]
        del classes[key]
        if not classes:
            del self._doors[key.local_queue]

    def _forget_empty(self, queue: str | None) -> None:
        if not self._lines[queue].heads:
            del self._lines[queue]


def place_of(workload: Workload, parent: Workload | None) -> Place:
    """Return one's place in the order; a slice has the priority of its parent."""
    priority = workload.priority if parent is None else parent.priority
    return Place(-priority, parent is not None, workload.queued_at, workload.meta.uid)


def wants(workload: Workload, parent: Workload | None) -> tuple[Want, ...]:
    """Return what one is nominated with.

    A Workload comes back with no more than it was first admitted with; a slice is locked to the flavors of what its
    parent has now.
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
    locked = parent.admission.flavors_of(pod_set.name) if parent.admission is not None else {}
    return Want(pod_set=pod_set, count=pod_set.count, flavors=locked)
