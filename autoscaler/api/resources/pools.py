"""InstancePool: instances that are alike, and how many of them for how long (seeds 002 and 003)."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from autoscaler.api import names
from autoscaler.api.resources.base import (
    AGE,
    LIST_SET,
    Column,
    Conditions,
    Definition,
    Model,
    Resource,
    Rule,
    checked,
    condition_column,
    immutable,
    list_map,
    name_rule,
    rules,
)
from autoscaler.api.resources.types import Count, DnsLabel, DnsName, Labels, LabelValue, Quantities, Seconds, Taint

ZoneName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9-]+$")]
InstanceTypeName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9-]+\.[a-z0-9-]+$")]
Month = Annotated[str, Field(max_length=7, pattern=r"^[0-9]{4}-[0-9]{2}$")]
NODE_GROUPS_MAX = 1000
UNHELPFUL_MAX = 64

_TAG_WORD = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
PoolTag = Annotated[str, Field(min_length=1, max_length=127, pattern=f"^{_TAG_WORD}(={_TAG_WORD})?$")]
"""What instances can do, as `name` or `name=value`."""


StartupTaints = Annotated[
    tuple[Taint, ...],
    Field(
        max_length=16,
        json_schema_extra={
            **list_map("key", "effect"),
            **rules(
                Rule(
                    expression="self.all(t, t.effect != 'PreferNoSchedule')",
                    message="effect must be NoSchedule or NoExecute: PreferNoSchedule keeps no pod away",
                )
            ),
        },
    ),
]
"""Taints that a new node loses by itself."""


class CapacityType(StrEnum):
    ON_DEMAND = "on-demand"
    SPOT = "spot"


class Architecture(StrEnum):
    AMD64 = "amd64"
    ARM64 = "arm64"


class Specifications(Model):
    """What instances of this pool are, as far as the public may know."""

    instance_types: Annotated[
        tuple[InstanceTypeName, ...],
        Field(max_length=64, json_schema_extra=LIST_SET),
    ] = ()
    """Instance types, such as m7i.large; each has an Auto Scaling group in every zone."""
    zones: Annotated[tuple[ZoneName, ...], Field(max_length=16, json_schema_extra=LIST_SET)] = ()
    """Availability zones."""
    capacity_type: CapacityType = CapacityType.ON_DEMAND
    """on-demand, or spot, which is cheaper and may be taken away."""
    node_type: LabelValue | None = None
    """The nodes' label node.type."""
    node_selector: Labels | None = None
    """For pools of provider static: the labels of the nodes that belong to the pool. They are counted in its status."""


class PoolLimits(Model):
    """How much of this pool may be used. Running work is never stopped for a limit."""

    max_active_instances: Count | None = None
    """The most instances at once, those still starting included. Absent: no limit."""
    target_max_seconds_per_month: Seconds | None = None
    """Instance-seconds per calendar month (UTC) after which nothing new is started. Absent: no limit."""
    max_idle_seconds: Seconds = 3600
    """An instance that has been idle for longer than this is destroyed."""
    target_max_cost_per_month: Count | None = None
    """Cost per calendar month (UTC), in whole units of the currency that prices are given in, after which nothing
    new is started. Absent: no limit."""


class InstancePoolSpec(Model):
    """What instances there may be in this pool."""

    model_config = checked(immutable("providerAccount"))

    provider_account: DnsName
    """The ProviderAccount whose instances these are."""
    enabled: bool = True
    """Whether new instances may be asked for. What runs goes on either way."""
    architectures: Annotated[tuple[Architecture, ...], Field(max_length=8, json_schema_extra=LIST_SET)] = ()
    """Processor architectures of this pool's instances: amd64, arm64. Groups whose instance types have another one are
    not used. Empty: whatever the instance types have."""
    tags: Annotated[
        tuple[PoolTag, ...],
        Field(
            max_length=32,
            json_schema_extra=rules(
                Rule(
                    expression="self.all(t, self.exists_one(u, u.split('=')[0] == t.split('=')[0]))",
                    message="each tag may be given once only",
                )
            ),
        ),
    ] = ()
    """What these instances can do, as `name` or `name=value`: their nodes have the label tag.sluice.dev/<name>. Stacks
    put these labels into the launch templates of their node pools. The runtime labels no node: whoever makes a group or
    a node otherwise gives it the labels, and the condition Ready names groups that do not promise them. Where the value
    is a number, pods may ask for a minimum with node affinity and operator Gt."""
    specifications: Specifications = Specifications()
    instance_wide: bool = True
    """true: every scope may use this pool. false: only the one scope that lists it."""
    ephemeral: bool = False
    """Destroy an instance after it has run a single pod."""
    limits: PoolLimits = PoolLimits()
    """How much of this pool may be used."""
    startup_taints: StartupTaints = ()
    """Taints that keep pods away from a new node until something on it has started and takes them off, by key, effect
    and, where given, value. Until then the node counts as on its way; pods need not tolerate them."""
    registration_timeout_seconds: Annotated[int, Field(ge=30, le=86_400)] = 900
    """An instance that is not a Ready node this long after its launch is terminated, and one that is idle and still
    has a start-up taint."""
    drain_seconds: Seconds = 3600
    """How long to wait for running work when the pool is removed."""


class NodeGroup(Model):
    """One Auto Scaling group of the pool."""

    name: Annotated[str, Field(min_length=1, max_length=255)]
    """The Auto Scaling group's name."""
    zone: ZoneName | None = None
    """Its availability zone."""
    instance_type: InstanceTypeName | None = None
    """Its instance type."""
    minimum: Count = 0
    """Its smallest size."""
    maximum: Count = 0
    """Its largest size."""
    desired: Count = 0
    """The size it was last asked to have."""
    instances: Count = 0
    """The instances it has."""
    template_hash: Annotated[str, Field(max_length=64)] | None = None
    """Hash of what its nodes are made from; what was learned belongs to it."""
    learned: Quantities | None = None
    """The least that nodes of its instance type have really offered, before what DaemonSets take; forgotten with the
    hash."""
    retry_at: datetime | None = None
    """No node shows this any more: after this time, one is started for pods that only it refuses."""
    retries: Count | None = None
    """How often that was done in a row and did not help."""
    allocatable: Quantities = {}
    """What its nodes offer to pods: learned from them, or expected while there was none."""
    labels: Labels = {}
    """The labels that its nodes have."""
    taints: Annotated[tuple[Taint, ...], Field(max_length=32)] = ()
    """The taints that its nodes have when they register."""
    unavailable_until: datetime | None = None
    """The provider had no capacity: not asked again before this time."""
    failures: Count | None = None
    """Launches in a row that brought no finished node."""
    reason: Annotated[str, Field(max_length=1024)] | None = None
    """Why it is not used now."""


class UnhelpfulLaunch(Model):
    """A kind of pods for which no instance is started: an empty node did not take one although it had room."""

    shape: Annotated[str, Field(min_length=1, max_length=64)]
    """Hash of what such pods ask for."""
    node_group: Annotated[str, Field(min_length=1, max_length=255)]
    """The Auto Scaling group whose node it was."""
    template_hash: Annotated[str, Field(max_length=64)] | None = None
    """Hash of what that node was made from; another one is tried."""
    at: datetime
    """When it did not take the pod; forgotten after an hour."""


class InstancePoolStatus(Model):
    """What the pool has and has used."""

    node_groups: Annotated[
        tuple[NodeGroup, ...], Field(max_length=NODE_GROUPS_MAX, json_schema_extra=list_map("name"))
    ] = ()
    """The pool's Auto Scaling groups."""
    unhelpful_launches: Annotated[
        tuple[UnhelpfulLaunch, ...], Field(max_length=UNHELPFUL_MAX, json_schema_extra=list_map("shape"))
    ] = ()
    """Kinds of pods for which no instance is started, because one did not help."""
    active_instances: Count | None = None
    """Instances asked for, starting or running."""
    month: Month | None = None
    """The month the sums below are of, such as 2026-11 (UTC)."""
    seconds_this_month: Seconds | None = None
    """Instance-seconds used this month."""
    cost_this_month: Annotated[str, Field(max_length=32, pattern=r"^[0-9]+(\.[0-9]+)?$")] | None = None
    """Cost of this month, where prices are known."""
    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The generation of the spec that was last acted on."""
    conditions: Conditions = ()
    """Details, with reasons."""


class InstancePool(Resource):
    """Instances that are alike: where they come from, who may use them, and within which limits."""

    definition: ClassVar[Definition] = Definition(
        plural="instancepools",
        short_names=("ipool",),
        columns=(
            Column(name="Account", path=".spec.providerAccount"),
            Column(name="Enabled", path=".spec.enabled", type="boolean"),
            Column(name="Active", path=".status.activeInstances", type="integer"),
            Column(name="Max", path=".spec.limits.maxActiveInstances", type="integer"),
            Column(name="Seconds", path=".status.secondsThisMonth", type="integer"),
            Column(name="MaxSeconds", path=".spec.limits.targetMaxSecondsPerMonth", type="integer"),
            Column(name="Cost", path=".status.costThisMonth", wide=True),
            Column(name="MaxCost", path=".spec.limits.targetMaxCostPerMonth", type="integer", wide=True),
            Column(name="InstanceWide", path=".spec.instanceWide", type="boolean", wide=True),
            Column(name="Ephemeral", path=".spec.ephemeral", type="boolean", wide=True),
            condition_column("Ready"),
            AGE,
        ),
        rules=(name_rule(names.INSTANCE_POOL_MAX, "instances are named <pool>-<number> and nodes labelled with it"),),
    )

    spec: InstancePoolSpec
    status: InstancePoolStatus = InstancePoolStatus()


PoolName = Annotated[DnsLabel, Field(max_length=names.INSTANCE_POOL_MAX)]
"""The name of an InstancePool."""
