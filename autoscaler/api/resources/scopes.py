"""Scope: which pools a team's namespaces use, in what order and within which limits (seed 003)."""

from typing import Annotated, ClassVar, Final

from pydantic import Field

from autoscaler.api import names
from autoscaler.api.resources.base import AGE, Column, Conditions, Definition, Model, Resource, list_map, name_rule
from autoscaler.api.resources.pools import Month, PoolName
from autoscaler.api.resources.types import Count, Seconds

POOLS_MAX = 64
IN_USE: Final = "InUse"
"""The condition that says who uses a scope."""
_IN_USE: Final = f'.status.conditions[?(@.type=="{IN_USE}")]'


class ScopeLimits(Model):
    """How this scope may use one pool."""

    target_max_seconds_per_month: Seconds | None = None
    """Seconds of work per calendar month (UTC) after which nothing new is started for this scope in this pool.
    Idle time is charged to no scope. Absent: no limit."""
    target_latency_seconds: Seconds | None = None
    """How long the last waiting pod should wait at most; a lower target starts more instances.
    Absent: room for all at once."""


class ScopePool(Model):
    """A pool that this scope may use."""

    name: PoolName
    """The InstancePool's name."""
    priority: Annotated[int, Field(ge=-1_000_000_000, le=1_000_000_000)] = 0
    """Pools with a higher priority are used first. Nodes without a pool come before all of them."""
    limits: ScopeLimits = ScopeLimits()
    """How this scope may use the pool."""


class ScopeSpec(Model):
    """The pools of this scope."""

    pools: Annotated[tuple[ScopePool, ...], Field(max_length=POOLS_MAX, json_schema_extra=list_map("name"))] = ()
    """The pools of this scope, each once. Instance-wide pools that are not listed come last."""


class ScopePoolStatus(Model):
    """What this scope has used of one pool."""

    name: PoolName
    """The InstancePool's name."""
    seconds_this_month: Seconds = 0
    """Seconds of work this month."""
    mean_duration_seconds: Seconds | None = None
    """The mean duration of pods that ended, which the latency target reckons with."""
    samples: Count = 0
    """How many pods that mean is made of."""


class ScopeStatus(Model):
    """What this scope waits for and has used."""

    pending: Count | None = None
    """Pods that wait for a node."""
    month: Month | None = None
    """The month the sums are of, such as 2026-11 (UTC)."""
    pools: Annotated[tuple[ScopePoolStatus, ...], Field(max_length=POOLS_MAX, json_schema_extra=list_map("name"))] = ()
    """What this scope has used of each pool."""
    conditions: Conditions = ()
    """Details, with reasons."""


class Scope(Resource):
    """A group of namespaces (those labelled sluice.dev/scope=<name>), and the pools they use."""

    definition: ClassVar[Definition] = Definition(
        plural="scopes",
        columns=(
            Column(name="Pending", path=".status.pending", type="integer"),
            Column(name="InUse", path=f"{_IN_USE}.reason"),
            Column(name="Users", path=f"{_IN_USE}.message", wide=True),
            AGE,
        ),
        rules=(name_rule(names.LABEL_VALUE_MAX, "namespaces join a scope by a label with its name"),),
    )

    spec: ScopeSpec
    status: ScopeStatus = ScopeStatus()
