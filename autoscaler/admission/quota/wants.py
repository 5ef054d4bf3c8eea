"""What one who waits is nominated with, its place in the order, and the class of equal ones it belongs to. Pure."""

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from autoscaler.admission.workload import PodSet, Workload
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
