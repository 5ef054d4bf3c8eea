"""Instance: one instance of a pool, its lives and what was spent on whom (seed 003). Written by the runtime alone."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from autoscaler.api import names
from autoscaler.api.resources.base import (
    AGE,
    Column,
    Conditions,
    Definition,
    Model,
    Resource,
    Rule,
    checked,
    immutable,
    list_map,
)
from autoscaler.api.resources.pools import InstanceTypeName, Month, PoolName, ZoneName
from autoscaler.api.resources.types import LabelValue, Seconds, Uid

ProviderId = Annotated[str, Field(max_length=512)]
ScopeSeconds = Annotated[dict[LabelValue, Seconds], Field(max_length=256)]
ScopeMicros = Annotated[dict[LabelValue, Annotated[int, Field(ge=0, le=999_999)]], Field(max_length=256)]


class Phase(StrEnum):
    LAUNCHING = "Launching"
    READY = "Ready"
    DRAINING = "Draining"
    TERMINATED = "Terminated"


class InstanceSpec(Model):
    """Which instance this is."""

    model_config = checked(immutable("pool"), immutable("number"))

    pool: PoolName
    """The InstancePool it belongs to."""
    number: Annotated[int, Field(ge=1, le=names.INSTANCE_NUMBER_MAX)]
    """Its number in the pool: the lowest that was free."""


class RunningPod(Model):
    """A pod whose time on this instance is not accounted for yet."""

    pod_uid: Annotated[Uid, Field(alias="podUID")]
    """The pod's UID."""
    scope: LabelValue | None = None
    """The scope that is charged; absent: none."""
    started_at: datetime
    """When the pod began to use the instance."""
    share_millionths: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    """How much of the instance it holds, by the resource of which it holds most; absent: all of it."""


class MonthUsage(Model):
    """What was used of this instance in one month."""

    seconds: Seconds = 0
    """Seconds the instance existed."""
    scopes: ScopeSeconds = {}
    """Seconds of work by scope."""
    cost_micros: Annotated[int, Field(ge=0, le=9_007_199_254_740_991)] | None = None
    """What those seconds cost, in millionths of the currency of the prices; absent: no price was known."""


class InstanceStatus(Model):
    """The present life of this instance, and the sums of all its lives."""

    phase: Phase | None = None
    """Launching, Ready, Draining, or Terminated (the name is free for a new life)."""
    provider_id: Annotated[ProviderId | None, Field(alias="providerID")] = None
    """The instance as the provider names it: aws:///<zone>/<instance id>."""
    node_name: Annotated[str, Field(max_length=253)] | None = None
    """The node it became."""
    zone: ZoneName | None = None
    """Its availability zone."""
    instance_type: InstanceTypeName | None = None
    """Its instance type."""
    instance_created_at: datetime | None = None
    """When this life began, as the provider tells."""
    registered_at: datetime | None = None
    """When the name was first used; constant over all lives."""
    running: Annotated[tuple[RunningPod, ...], Field(max_length=1024, json_schema_extra=list_map("podUID"))] = ()
    """Pods whose time is not accounted for yet."""
    durations_by_scope: ScopeSeconds = {}
    """Seconds of work by scope in this life."""
    remainders: ScopeMicros = {}
    """Millionths of a second of work by scope that are not yet a whole second."""
    months: Annotated[dict[Month, MonthUsage], Field(max_length=14)] = {}
    """What was used by month (UTC); 13 months are kept."""
    idle_since: datetime | None = None
    """Since when it has had no work."""
    conditions: Conditions = ()
    """Details, with reasons."""


class Instance(Resource):
    """One instance of a pool. Its name is used again when the instance is gone."""

    definition: ClassVar[Definition] = Definition(
        plural="instances",
        short_names=("inst",),
        columns=(
            Column(name="Pool", path=".spec.pool"),
            Column(name="Phase", path=".status.phase"),
            Column(name="Node", path=".status.nodeName"),
            Column(name="Type", path=".status.instanceType"),
            Column(name="Zone", path=".status.zone"),
            Column(name="ProviderID", path=".status.providerID", wide=True),
            Column(name="IdleSince", path=".status.idleSince", type="date", wide=True),
            AGE,
        ),
        rules=(
            Rule(
                expression="self.metadata.name.startsWith(self.spec.pool + '-')"
                " && self.metadata.name.matches('-([0-9]{3}|[1-9][0-9]{3,4})$')"
                " && int(self.metadata.name.substring(size(self.spec.pool) + 1)) == self.spec.number",
                message="metadata.name must be <pool>-<number>, the number with at least three digits: gpu-007",
            ),
        ),
    )

    spec: InstanceSpec
    status: InstanceStatus = InstanceStatus()
