"""Workload: a job's claim on quota, or one slice of its growth (seed 004). Written by the runtime alone."""

from datetime import datetime
from typing import Annotated, ClassVar

from pydantic import Field

from autoscaler.api.resources.base import (
    AGE,
    LIST_SET,
    Column,
    Conditions,
    Definition,
    Model,
    Resource,
    condition_column,
    list_map,
)
from autoscaler.api.resources.types import (
    AnyObject,
    Count,
    DnsLabel,
    DnsName,
    Labels,
    Quantities,
    ResourceName,
    Seconds,
    Tolerations,
    Uid,
)

POD_SETS_MAX = 16
OPENED_MAX = 500
"""How many gates of one pod set are recorded as about to be opened at a time."""
FOLDED_MAX = 1000
"""How many slices that are not gone yet are recorded as counted."""
FLAVORS_TRIED_MAX = 64


class PodSet(Model):
    """Pods of a job that are alike: a Job's pods, a RayCluster's head, or one of its worker groups."""

    name: DnsLabel
    """The name of the set: main, head, or the worker group's."""
    count: Count
    """How many pods the job wants now."""
    requests: Quantities = {}
    """What each of these pods requests."""
    node_selector: Labels = {}
    """Node labels these pods ask for."""
    affinity: AnyObject | None = None
    """The pods' affinity, as in a pod's spec."""
    tolerations: Tolerations = ()
    """The pods' tolerations."""


class WorkloadSpec(Model):
    """What a job asks for."""

    queue_name: DnsName
    """The LocalQueue it waits in."""
    priority: Annotated[int, Field(ge=-2_147_483_648, le=2_147_483_647)] = 0
    """The value of the pods' PriorityClass; higher ones come first."""
    active: bool = True
    """False evicts the job and keeps it out of its queue. The one field that people may change."""
    pod_sets: Annotated[
        tuple[PodSet, ...], Field(min_length=1, max_length=POD_SETS_MAX, json_schema_extra=list_map("name"))
    ]
    """The job's pods, by kind."""


class PodSetAssignment(Model):
    """What was granted to one pod set."""

    name: DnsLabel
    """The pod set's name."""
    flavors: Annotated[dict[ResourceName, DnsName], Field(max_length=16)] = {}
    """The ResourceFlavor that each resource comes from."""
    count: Count
    """How many pods may run."""


class Admission(Model):
    """What was granted."""

    cluster_queue: DnsName
    """The ClusterQueue whose quota it is."""
    cluster_queue_generation: Annotated[int, Field(ge=0)] | None = None
    """The generation of the ClusterQueue that it was decided on."""
    pod_set_assignments: Annotated[
        tuple[PodSetAssignment, ...], Field(max_length=POD_SETS_MAX, json_schema_extra=list_map("name"))
    ]
    """What was granted to each pod set."""


class PodSetCount(Model):
    """A number of pods of one pod set."""

    name: DnsLabel
    """The pod set's name."""
    count: Count
    """How many pods."""


class PodSetPods(Model):
    """Some pods of one pod set."""

    name: DnsLabel
    """The pod set's name."""
    uids: Annotated[tuple[Uid, ...], Field(max_length=OPENED_MAX, json_schema_extra=LIST_SET)] = ()
    """The UIDs of the pods."""


class Requeue(Model):
    """Attempts of a job whose pods did not start in time."""

    count: Annotated[int, Field(ge=1)]
    """How often it gave its quota back."""
    at: datetime
    """When it may be admitted again."""
    flavors_tried: Annotated[tuple[DnsName, ...], Field(max_length=FLAVORS_TRIED_MAX, json_schema_extra=LIST_SET)] = ()
    """Flavors on which its pods did not start; the others are tried first."""


class WorkloadStatus(Model):
    """What was granted, and how far along it is."""

    admission: Admission | None = None
    """What was granted; absent while it waits."""
    claim: Admission | None = None
    """What it will be granted once the jobs that it displaces are gone; nobody else is admitted into it."""
    first_admitted: Annotated[
        tuple[PodSetCount, ...], Field(max_length=POD_SETS_MAX, json_schema_extra=list_map("name"))
    ] = ()
    """What it was admitted with at first. After an eviction it comes back with no more; the rest follows as slices."""
    folded_slices: Annotated[tuple[Uid, ...], Field(max_length=FOLDED_MAX, json_schema_extra=LIST_SET)] = ()
    """UIDs of slices already counted here, kept until the slices are gone."""
    opened: Annotated[tuple[PodSetPods, ...], Field(max_length=POD_SETS_MAX, json_schema_extra=list_map("name"))] = ()
    """Pods whose gate is about to be opened, kept until it is seen open."""
    withdrawn: Annotated[
        tuple[PodSetPods, ...], Field(max_length=POD_SETS_MAX, json_schema_extra=list_map("name"))
    ] = ()
    """Pods that did not start in time and are about to be deleted, kept until they are gone."""
    requeue: Requeue | None = None
    """Attempts whose pods did not start in time; absent if there was none."""
    position: Annotated[int, Field(ge=1)] | None = None
    """Its place in the queue."""
    estimated_wait_seconds: Seconds | None = None
    """About how long it will still wait."""
    conditions: Conditions = ()
    """QuotaReserved, Admitted, PodsReady, ResizeRequested, Evicted, Finished."""


class Workload(Resource):
    """A job's claim on quota. Made by the operator for each queued job; a grown job has slices, owned by the first."""

    definition: ClassVar[Definition] = Definition(
        plural="workloads",
        short_names=("wl",),
        namespaced=True,
        columns=(
            Column(name="Queue", path=".spec.queueName"),
            Column(name="ReservedIn", path=".status.admission.clusterQueue"),
            condition_column("Admitted"),
            condition_column("Finished"),
            Column(name="Position", path=".status.position", type="integer"),
            Column(name="Wait", path=".status.estimatedWaitSeconds", type="integer", wide=True),
            AGE,
        ),
    )

    spec: WorkloadSpec
    status: WorkloadStatus = WorkloadStatus()
