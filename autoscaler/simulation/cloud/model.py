"""What the simulated cloud is made of: groups, instances, what stands in the way of a launch, and how long things take.

Values and their own arithmetic only; `cloud` has the rules.
"""

import asyncio
from dataclasses import dataclass, field

from autoscaler.api.resources.pools import CapacityType
from autoscaler.api.settings.node_groups import NodeGroupKey, NodeGroupSpec
from autoscaler.cloud import node_templates, port

INITIAL_TEMPLATE = port.Template(image_id="ami-1", user_data_sha256="0" * 64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long things take."""

    reaction_seconds: float = 1.0
    """From a new desired capacity to what the group does about it."""
    pending_seconds: float = 30.0
    """From a launch to being in service."""
    terminate_seconds: float = 10.0
    """From the order to end an instance to its being gone."""
    retry_seconds: float = 30.0
    """From a failed launch to the next attempt; it doubles each time."""
    retry_max_seconds: float = 480.0
    spot_notice_seconds: float = 120.0
    """From the notice to the end of a spot instance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """Why launches fail, where and when; what is not said does not matter."""

    failure: port.LaunchFailure
    zone: str | None = None
    instance_type: str | None = None
    starts_at: float = 0.0
    ends_at: float = float("inf")

    def hinders(self, key: NodeGroupKey, now: float) -> bool:
        return (
            self.zone in {None, key.zone}
            and self.instance_type in {None, key.instance_type}
            and self.starts_at <= now < self.ends_at
        )

    def message(self, key: NodeGroupKey) -> str:
        """Say it as EC2 does."""
        match self.failure:
            case port.LaunchFailure.INSUFFICIENT_CAPACITY:
                text = (
                    f"We currently do not have sufficient {key.instance_type} capacity in the Availability Zone you "
                    f"requested ({key.zone})."
                )
            case port.LaunchFailure.UNSUPPORTED:
                text = (
                    f"Your requested instance type ({key.instance_type}) is not supported in your requested "
                    f"Availability Zone ({key.zone})."
                )
            case port.LaunchFailure.LIMIT_EXCEEDED:
                text = "You have requested more vCPU capacity than your current vCPU limit allows."
            case port.LaunchFailure.INVALID_LAUNCH:
                text = "The image id '[ami-1]' does not exist."
            case port.LaunchFailure.OTHER:
                text = "Internal error."
        return f"{text} Launching EC2 instance failed."


@dataclass(slots=True, kw_only=True, eq=False)
class SimulatedInstance:
    """One instance over its life."""

    id: port.InstanceId
    group: port.GroupName
    key: NodeGroupKey
    capacity_type: CapacityType
    launched_at: float
    template: port.TemplateRef
    image_id: str = ""
    lifecycle: port.Lifecycle = port.Lifecycle.PENDING
    is_protected: bool = False
    is_listed: bool = True
    """False while the launch was accepted and no list tells of it yet."""
    is_over: bool = False
    ended_at: float | None = None
    is_end_told: bool = True
    """EC2 tells the moment of an end that somebody asked for, and none of its own."""

    @property
    def provider_id(self) -> str:
        return f"aws:///{self.key.zone}/{self.id}"

    @property
    def counts(self) -> bool:
        """It starts or is in service."""
        return self.lifecycle in {port.Lifecycle.PENDING, port.Lifecycle.IN_SERVICE}

    def seconds(self, now: float) -> float:
        """Return how long it has lived."""
        return (now if self.ended_at is None else self.ended_at) - self.launched_at

    def as_instance(self) -> port.Instance:
        return port.Instance(
            id=self.id,
            zone=self.key.zone,
            lifecycle=self.lifecycle,
            template=self.template,
        )

    def as_life(self) -> port.InstanceTimes:
        ended_at = self.ended_at if self.is_end_told else None
        return port.InstanceTimes(
            launched_at=self.launched_at,
            is_over=self.ended_at is not None,
            ended_at=ended_at,
            image_id=self.image_id,
        )


@dataclass(slots=True, kw_only=True, eq=False)
class Group:
    """One Auto Scaling group."""

    spec: NodeGroupSpec
    cluster: str
    """Whose it is."""
    minimum: int
    maximum: int
    desired: int
    is_protecting: bool = True
    template: port.TemplateRef
    suspended: set[str] = field(default_factory=set)
    instances: dict[port.InstanceId, SimulatedInstance] = field(default_factory=dict)
    activities: list[port.Activity] = field(default_factory=list)
    """Oldest first."""
    launching: asyncio.TimerHandle | None = None
    failed_attempts: int = 0
    replacing: int = 0
    """How many instances more than desired it has while an instance refresh launches before it terminates."""
    late_seconds: float | None = None
    """Launches are accepted now and seen only so much later; None: they are seen at once."""

    @property
    def name(self) -> port.GroupName:
        return port.GroupName(self.spec.name)

    @property
    def members(self) -> list[SimulatedInstance]:
        return [instance for instance in self.instances.values() if instance.counts]

    def as_node_group(self) -> port.NodeGroup:
        listed = [instance for instance in self.instances.values() if instance.is_listed]
        return port.NodeGroup(
            name=self.name,
            key=self.spec.key,
            minimum=self.minimum,
            maximum=self.maximum,
            desired=self.desired,
            instances=tuple(instance.as_instance() for instance in sorted(listed, key=lambda one: one.id)),
            template=self.template,
            node=node_templates.of_spec(self.spec),
            suspended=frozenset(self.suspended),
        )
