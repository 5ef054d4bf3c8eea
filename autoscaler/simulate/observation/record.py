"""What was seen of a day: values only, from which the report is made."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from autoscaler.api.resources.pools import CapacityType
from autoscaler.api.settings.node_groups import NodeGroupKey
from autoscaler.simulate.observation.guest_record import Guests
from autoscaler.simulate.observation.job_record import QueuedJobs
from autoscaler.simulate.observation.waits import PodWait, Waits


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceLife:
    """An instance from its launch to the order to end it; None: it is still there."""

    id: str
    key: NodeGroupKey
    capacity_type: CapacityType
    launched_at: float
    ended_at: float | None

    def is_there(self, at: float) -> bool:
        return self.launched_at <= at and (self.ended_at is None or at < self.ended_at)

    def seconds(self, now: float) -> float:
        return (now if self.ended_at is None else self.ended_at) - self.launched_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """A line of the runtime's log."""

    at: float
    event: str
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """An event that the runtime recorded about an object."""

    at: float
    reason: str
    message: str
    kind: str
    """The kind of the object."""
    namespace: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """How long a scope's pods should wait at most in a pool."""

    scope: str
    pool: str
    seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A day."""

    starts_at: float
    ends_at: float
    instances: tuple[InstanceLife, ...]
    waits: tuple[Waits, ...]
    groups: Mapping[str, NodeGroupKey]
    """All node groups, by name."""
    logs: tuple[Logged, ...] = ()
    told: tuple[Told, ...] = ()
    pods_by_pool: Mapping[str, int] = field(default_factory=dict)
    """How many pods ran on the instances of each pool."""
    pods: tuple[PodWait, ...] = ()
    targets: tuple[Target, ...] = ()
    """By scope, in the order in which its pods try the pools."""
    queued: QueuedJobs = field(default_factory=QueuedJobs)
    guests: Guests = field(default_factory=Guests)
