"""Workloads as decisions read them, decoded once when they arrive. Pure.

There may be a hundred thousand of them, so they are decoded like pods, and not checked again: the API server has held
them to their schema, and only the runtime writes them.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec

from autoscaler.api import keys, version
from autoscaler.api.resources import Workload as Definition
from autoscaler.kube import kinds, objects, shapes, wire

WORKLOADS: Final = kinds.custom(Definition)
Requests = Mapping[str, int]
"""What one pod requests: cpu in millis, all else in units."""


class ConditionType(StrEnum):
    """What a Workload says about itself."""

    QUOTA_RESERVED = "QuotaReserved"
    ADMITTED = "Admitted"
    PODS_READY = "PodsReady"
    RESIZE_REQUESTED = "ResizeRequested"
    EVICTED = "Evicted"
    FINISHED = "Finished"


class Constraints(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Where the pods of a pod set may go."""

    node_selector: Mapping[str, str] = {}
    affinity: wire.Affinity | None = None
    tolerations: tuple[wire.Toleration, ...] = ()


class PodSet(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Pods of a job that are alike."""

    name: str
    count: int
    """`spec`: as many as the job wants, or more while a shrink is under way."""
    requests: Requests
    constraints: Constraints = Constraints()

    def with_count(self, count: int) -> "PodSet":
        """Return the same for another number of pods."""
        return msgspec.structs.replace(self, count=count)


class Assignment(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What was granted to one pod set."""

    name: str
    count: int
    """`granted`."""
    flavors: Mapping[str, str] = {}
    """The flavor that each resource comes from."""

    def with_count(self, count: int) -> "Assignment":
        """Return the same for another number of pods."""
        return Assignment(name=self.name, count=count, flavors=self.flavors)


class Admission(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What was granted, or is claimed."""

    cluster_queue: str
    assignments: tuple[Assignment, ...]
    generation: int = 0
    """The generation of the ClusterQueue that it was decided on."""

    def of(self, pod_set: str) -> Assignment | None:
        """Return what one pod set was granted."""
        return next((each for each in self.assignments if each.name == pod_set), None)

    def count(self, pod_set: str) -> int:
        """Return how many pods of a pod set were granted."""
        found = self.of(pod_set)
        return found.count if found is not None else 0

    def flavors_of(self, pod_set: str) -> Mapping[str, str]:
        """Return the flavors that more pods of a pod set must have; none: nothing of it is granted now."""
        found = self.of(pod_set)
        return found.flavors if found is not None and found.count else {}


class Requeue(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Attempts whose pods did not start in time."""

    count: int
    at: float
    flavors_tried: tuple[str, ...] = ()


class Condition(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One condition, in Kubernetes' form."""

    holds: bool
    reason: str
    message: str
    since: float


class Workload(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A job's claim on quota, or one slice of its growth."""

    meta: objects.Meta
    queue: str
    """The LocalQueue's name."""
    priority: int = 0
    active: bool = True
    pod_sets: tuple[PodSet, ...]
    admission: Admission | None = None
    claim: Admission | None = None
    first_admitted: Mapping[str, int] = {}
    folded: frozenset[str] = frozenset()
    opened: Mapping[str, tuple[str, ...]] = {}
    """The UIDs recorded as about to be opened, by pod set."""
    withdrawn: Mapping[str, tuple[str, ...]] = {}
    requeue: Requeue | None = None
    position: int | None = None
    estimated_wait_seconds: int | None = None
    conditions: Mapping[str, Condition] = {}

    @property
    def job_uid(self) -> str:
        """The UID of the job that it, or its parent, stands for."""
        return self.meta.labels.get(keys.JOB_UID, "")

    @property
    def queued_at(self) -> float:
        """When it began to wait: a job that was made while nobody looked is not behind one that was made later."""
        written = self.meta.annotations.get(keys.QUEUED_AT, "")
        return float(written) if written.isdigit() else self.meta.created_at

    @property
    def parent_uid(self) -> str | None:
        """The UID of the Workload that this is a slice of; None: it is no slice."""
        owner = self.meta.controller
        is_slice = (
            owner is not None and owner.kind == Definition.__name__ and owner.api_version == version.GROUP_VERSION
        )
        return owner.uid if owner is not None and is_slice else None

    @property
    def is_slice(self) -> bool:
        return self.parent_uid is not None

    def holds(self, condition: ConditionType) -> bool:
        """Tell whether a condition is there and true."""
        found = self.conditions.get(condition)
        return found is not None and found.holds

    @property
    def is_evicted(self) -> bool:
        """Whether it was told to give its quota back, and still has it."""
        return self.holds(ConditionType.EVICTED)

    @property
    def is_finished(self) -> bool:
        return self.holds(ConditionType.FINISHED)

    @property
    def is_leaving(self) -> bool:
        return self.meta.deleted_at is not None

    def pod_set(self, name: str) -> PodSet | None:
        """Return one of its pod sets."""
        return next((each for each in self.pod_sets if each.name == name), None)


# As the API server sends them


class _Struct(msgspec.Struct, rename="camel", gc=False, frozen=True):
    pass


class _PodSet(_Struct, frozen=True):
    name: str
    count: int = 0
    requests: wire.Amounts = {}
    node_selector: dict[str, str] = {}
    affinity: wire.Affinity | None = None
    tolerations: tuple[wire.Toleration, ...] = ()


class _Spec(_Struct, frozen=True):
    queue_name: str = ""
    priority: int = 0
    active: bool = True
    pod_sets: tuple[_PodSet, ...] = ()


class _Assignment(_Struct, frozen=True):
    name: str
    count: int = 0
    flavors: dict[str, str] = {}


class _Admission(_Struct, frozen=True):
    cluster_queue: str
    cluster_queue_generation: int = 0
    pod_set_assignments: tuple[_Assignment, ...] = ()


class _Count(_Struct, frozen=True):
    name: str
    count: int = 0


class _Pods(_Struct, frozen=True):
    name: str
    uids: tuple[str, ...] = ()


class _Requeue(_Struct, frozen=True):
    count: int
    at: datetime
    flavors_tried: tuple[str, ...] = ()


class _Condition(_Struct, frozen=True):
    type: str
    status: str
    last_transition_time: datetime
    reason: str = ""
    message: str = ""


class _Status(_Struct, frozen=True):
    admission: _Admission | None = None
    claim: _Admission | None = None
    first_admitted: tuple[_Count, ...] = ()
    folded_slices: tuple[str, ...] = ()
    opened: tuple[_Pods, ...] = ()
    withdrawn: tuple[_Pods, ...] = ()
    requeue: _Requeue | None = None
    position: int | None = None
    estimated_wait_seconds: int | None = None
    conditions: tuple[_Condition, ...] = ()


class _Workload(_Struct, frozen=True):
    metadata: wire.ObjectMeta
    spec: _Spec = _Spec()
    status: _Status = _Status()


_DECODER: Final = msgspec.json.Decoder(_Workload)


def decode(raw: bytes | msgspec.Raw) -> Workload:
    """Decode a Workload."""
    read = _DECODER.decode(raw)
    spec, status = read.spec, read.status
    return Workload(
        meta=objects.meta(read.metadata),
        queue=spec.queue_name,
        priority=spec.priority,
        active=spec.active,
        pod_sets=tuple(_pod_set(each) for each in spec.pod_sets),
        admission=_admission(status.admission),
        claim=_admission(status.claim),
        first_admitted={each.name: each.count for each in status.first_admitted},
        folded=frozenset(status.folded_slices),
        opened={each.name: each.uids for each in status.opened if each.uids},
        withdrawn={each.name: each.uids for each in status.withdrawn if each.uids},
        requeue=_requeue(status.requeue),
        position=status.position,
        estimated_wait_seconds=status.estimated_wait_seconds,
        conditions={each.type: _condition(each) for each in status.conditions},
    )


def _pod_set(read: _PodSet) -> PodSet:
    return PodSet(
        name=read.name,
        count=read.count,
        requests=shapes.amounts(read.requests),
        constraints=Constraints(node_selector=read.node_selector, affinity=read.affinity, tolerations=read.tolerations),
    )


def _admission(read: _Admission | None) -> Admission | None:
    if read is None:
        return None
    return Admission(
        cluster_queue=read.cluster_queue,
        generation=read.cluster_queue_generation,
        assignments=tuple(
            Assignment(name=each.name, count=each.count, flavors=each.flavors) for each in read.pod_set_assignments
        ),
    )


def _requeue(read: _Requeue | None) -> Requeue | None:
    if read is None:
        return None
    return Requeue(count=read.count, at=read.at.timestamp(), flavors_tried=read.flavors_tried)


def _condition(read: _Condition) -> Condition:
    return Condition(
        holds=read.status == "True",
        reason=read.reason,
        message=read.message,
        since=read.last_transition_time.timestamp(),
    )
