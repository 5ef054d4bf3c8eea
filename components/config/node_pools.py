"""Node pools: which instances, where, how many. Each becomes one Auto Scaling group per zone and type, and one pool."""

from collections.abc import Iterator
from typing import Annotated, Final, Literal

from pydantic import Discriminator, Field, Tag

from autoscaler.api.resources.pools import (
    CapacityType,
    InstanceTypeName,
    PoolLimits,
    PoolName,
    PoolTag,
    StartupTaints,
    ZoneName,
)
from autoscaler.api.resources.types import Count, DnsName, Labels, LabelValue, Seconds, Taint, TaintEffect
from components.config.base import ImageId, Problem, Section, SecurityGroupId
from components.config.type_requirements import InstanceTypeRequirements

SERVICES: Final = "k8s-services"
"""The node type on which the runtime and the cluster's own services run."""
SERVICES_TAINT: Final = Taint(key="CriticalAddonsOnly", value="true", effect=TaintEffect.NO_SCHEDULE)
"""Keeps users' pods off these nodes; EKS' add-ons, the runtime and what comes with it tolerate it."""

ROOT_GIB_MIN: Final = 20
"""The size of EKS' images and of those of pipelines; an instance with less does not start."""
IOPS_PER_GIB: Final = 500
IOPS_PER_MIB: Final = 4
"""What gp3 demands."""

Zones = Annotated[
    Annotated[Literal["all"], Tag("<all>")]
    | Annotated[Annotated[tuple[ZoneName, ...], Field(min_length=1, max_length=16)], Tag("<list>")],
    Discriminator(lambda value: "<all>" if isinstance(value, str) else "<list>"),
]
"""`all`: every zone of the region that offers the type; or a list of zones."""


TYPES_MAX: Final = 64
"""So many instance types at most has a pool."""
InstanceTypes = Annotated[
    Annotated[InstanceTypeRequirements, Tag("<requirements>")]
    | Annotated[Annotated[tuple[InstanceTypeName, ...], Field(min_length=1, max_length=TYPES_MAX)], Tag("<list>")],
    Discriminator(lambda value: "<requirements>" if isinstance(value, dict | InstanceTypeRequirements) else "<list>"),
]
"""A list of instance types, or what they must have."""


class RootVolume(Section):
    """A node's disk: encrypted, gp3."""

    size_gib: Annotated[int, Field(ge=ROOT_GIB_MIN, le=16_384)] = 50
    """Its size. EKS' images and those of pipelines need 20 GiB."""
    iops: Annotated[int, Field(ge=3000, le=80_000)] = 3000
    """Operations a second."""
    throughput_mib: Annotated[int, Field(ge=125, le=2000)] = 125
    """MiB a second."""

    def problems(self) -> Iterator[Problem]:
        if self.iops > IOPS_PER_GIB * self.size_gib:
            most = IOPS_PER_GIB * self.size_gib
            message = f"must be at most {most}: gp3 has {IOPS_PER_GIB} for each GiB, and sizeGib is {self.size_gib}"
            yield Problem(path=("iops",), value=self.iops, message=message)
        if self.throughput_mib * IOPS_PER_MIB > self.iops:
            message = f"must be at most {self.iops // IOPS_PER_MIB}, a quarter of iops, which is {self.iops}"
            yield Problem(path=("throughputMib",), value=self.throughput_mib, message=message)


class PoolImage(Section):
    """The machine image of a pool, where it is not the cluster's nodeImage."""

    image_id: ImageId | None = None
    """An image of your own, made like EKS' own for Amazon Linux 2023 (nodeadm)."""
    pipeline: DnsName | None = None
    """The newest image of this pipeline of sluice:machineImages (Debian)."""

    def problems(self) -> Iterator[Problem]:
        if (self.image_id is None) == (self.pipeline is None):
            yield Problem(path=(), message="give either imageId or pipeline", has_value=False)


class NodePool(Section):
    """Instances that are alike: one Auto Scaling group for each zone and instance type, and an InstancePool."""

    node_type: Annotated[LabelValue, Field(min_length=1)]
    """The nodes' label node.type, which pods choose by. k8s-services is where the cluster's own services run."""
    instance_types: InstanceTypes
    """Instance types, as a list or by what they must have; each has an Auto Scaling group in every zone. GPU and arm64
    types get fitting images."""
    zones: Zones = "all"
    """all: every zone of the region that offers the type. Or a list of zones."""
    min_per_group: Count = 0
    """The smallest size of each Auto Scaling group."""
    max_per_group: Annotated[Count, Field(ge=1)] = 10
    """The largest size of each Auto Scaling group. The pool as a whole is limited by limits.maxActiveInstances."""
    capacity_type: CapacityType = CapacityType.ON_DEMAND
    """on-demand, or spot, which is cheaper and may be taken away."""
    limits: PoolLimits = PoolLimits()
    """How much of the pool may be used. With targetMaxCostPerMonth, each of instanceTypes needs a price in
    stacks/prices/<region>.yaml, in whose currency the limit is."""
    enabled: bool = True
    """Whether new instances may be asked for. What runs goes on either way."""
    tags: Annotated[tuple[PoolTag, ...], Field(max_length=32)] = ()
    """What these instances can do, as name or name=value. Nodes carry the label tag.sluice.dev/<name>."""
    labels: Labels = {}
    """More labels for the nodes."""
    taints: Annotated[tuple[Taint, ...], Field(max_length=16)] = ()
    """More taints for the nodes. Default: CriticalAddonsOnly=true:NoSchedule on k8s-services of a new cluster, which
    keeps these nodes for the cluster's services; [] lets others in."""
    startup_taints: StartupTaints = ()
    """Taints that nodes register with and that something on them takes off once it has started, such as
    efs.csi.aws.com/agent-not-ready. Pods need not tolerate them, and no second instance is started meanwhile."""
    instance_wide: bool = True
    """true: every scope may use this pool. false: only the one scope that lists it."""
    ephemeral: bool = False
    """Destroy an instance after it has run a single pod."""
    registration_timeout_seconds: Annotated[int, Field(ge=30, le=86_400)] = 900
    """An instance that is not a Ready node this long after its launch is terminated."""
    drain_seconds: Seconds = 3600
    """How long to wait for running work when the pool is removed from the stack."""
    provider_account: DnsName = "aws"
    """The ProviderAccount whose instances these are."""
    root_volume: RootVolume = RootVolume()
    """The nodes' disk."""
    image: PoolImage | None = None
    """The machine image, where it is not the cluster's nodeImage."""
    security_group_ids: Annotated[tuple[SecurityGroupId, ...], Field(max_length=4)] = ()
    """More security groups for the nodes."""

    @property
    def types(self) -> tuple[str, ...]:
        """The instance types by name; none of requirements that are not resolved yet (`nodes/type_choice`)."""
        return self.instance_types if isinstance(self.instance_types, tuple) else ()

    def taints_in(self, *, new_cluster: bool) -> tuple[Taint, ...]:
        """Return the config's taints, or what nodes for services have where it gives none."""
        is_default = "taints" not in self.model_fields_set
        return (SERVICES_TAINT,) if new_cluster and is_default and self.node_type == SERVICES else self.taints

    def problems(self) -> Iterator[Problem]:
        if self.min_per_group > self.max_per_group:
            yield Problem(
                path=("minPerGroup",),
                value=self.min_per_group,
                message=f"must not be more than maxPerGroup, which is {self.max_per_group}",
            )
        if self.limits.target_max_cost_per_month == 0:
            path = ("limits", "targetMaxCostPerMonth")
            yield Problem(
                path=path,
                value=0,
                message="must be at least 1: AWS takes no budget of 0; to stop the pool, set enabled: false",
            )
        if isinstance(self.instance_types, tuple):
            yield from repeated("instanceTypes", self.instance_types)
        if not isinstance(self.zones, str):
            yield from repeated("zones", self.zones)


def repeated(field: str, values: tuple[str, ...]) -> Iterator[Problem]:
    """Report each value that a list has already."""
    for index, value in enumerate(values):
        if value in values[:index]:
            yield Problem(path=(field, index), value=value, message="is given twice")


NodePools = Annotated[dict[PoolName, NodePool], Field(max_length=64)]
