"""The port: how the capacity controller sees node groups and instances, changes them, and hears that they change.

It decides nothing. A list is whole or it is an error: nobody may plan on half of one. A write is sent once and has an
outcome, for it may have landed although nobody answered. Insufficient capacity is no error at all: it is an activity
of a group, with a reason. No message may hold a credential. Times are seconds since the epoch.
"""

import dataclasses
from collections.abc import AsyncGenerator, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NewType, Protocol

from autoscaler.api.resources.pools import Architecture
from autoscaler.api.resources.types import Taint
from autoscaler.api.settings.node_groups import NodeGroupKey

GroupName = NewType("GroupName", str)
"""An Auto Scaling group's name, which is unique in an account and region."""
InstanceId = NewType("InstanceId", str)


class Cloud(Protocol):
    """One account in one region, seen by one cluster: nothing of another cluster is ever told or touched."""

    async def groups(self, names: Collection[GroupName] | None = None) -> "Listing":
        """Return the cluster's node groups as they are now, or those of them that are named; raise CloudError."""
        ...

    async def set_desired(self, group: "NodeGroup", desired: int) -> "Outcome":
        """Ask once for so many instances. It sets, never adds; the group must be one that was listed."""
        ...

    async def terminate(self, group: "NodeGroup", instance: InstanceId, *, decrement: bool) -> "Outcome":
        """End one instance of a listed group, protected or not; without decrement it is replaced."""
        ...

    async def activities(self, group: GroupName, *, since: float) -> tuple["Activity", ...]:
        """Return what the group did or failed to do since then, newest first; raise CloudError."""
        ...

    async def lives(self, instances: Collection[InstanceId]) -> Mapping[InstanceId, "InstanceTimes"]:
        """Return when instances began and ended; those that the cloud has forgotten are left out; raise CloudError."""
        ...

    async def templates(self, templates: Collection["TemplateRef"]) -> Mapping["TemplateRef", "Template"]:
        """Return what launch templates say; those that are gone are left out; raise CloudError."""
        ...

    async def images(self, templates: Collection["TemplateRef"]) -> Mapping["TemplateRef", str]:
        """Return which image launch templates mean now that name a parameter instead; raise CloudError."""
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...


class Interruptions(Protocol):
    """News of instances and groups, sooner than a refresh would tell."""

    def batches(self) -> AsyncGenerator[tuple["Event", ...], None]:
        """Yield news as it comes, for ever; a batch is forgotten by the queue once the next one is asked for.

        Raises CloudError if there is no answer; ask again later. News may be told twice, and may be of others.
        """
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...


# Node groups

BY_PARAMETER: Final = "resolve:ssm:"
"""How the image of a launch template begins that names a parameter."""


class Lifecycle(StrEnum):
    """Where an instance is in its group's life."""

    PENDING = "Pending"
    """It starts. Protection does not hold yet."""
    IN_SERVICE = "InService"
    LEAVING = "Leaving"
    """It is being ended or detached; it counts no more."""
    ASIDE = "Aside"
    """Somebody put it on standby or into a warm pool, or it is in a state we do not know."""


COUNTING: Final = frozenset({Lifecycle.PENDING, Lifecycle.IN_SERVICE})
"""Instances that start or are in service: the others count no more, or do not count."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class TemplateRef:
    """A version of a launch template. Numbered versions never change; `$Latest` and `$Default` do."""

    id: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """What a version of a launch template says, as far as it makes a node another one."""

    image_id: str
    """An image, or `resolve:ssm:` and the name of a parameter that holds one."""
    user_data_sha256: str
    """Of the user data as it is kept; it is not told itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """A member of a node group."""

    id: InstanceId
    zone: str
    lifecycle: Lifecycle
    template: TemplateRef | None = None
    """None where it was started without one, or the template is gone."""
    provider_id: str = field(init=False, compare=False, repr=False)
    """The name by which its Node refers to it."""

    def __post_init__(self) -> None:
        """Make once what is read again and again."""
        object.__setattr__(self, "provider_id", f"aws:///{self.zone}/{self.id}")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTemplate:
    """What a node of a group will be, as the group's tags say."""

    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    resources: Mapping[str, int] = field(default_factory=dict)
    """Resources besides those of the instance type, or instead of them: cpu in millis, all else in units."""
    architecture: Architecture | None = None
    """None where no tag says it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """One Auto Scaling group: one pool, one zone, one instance type."""

    name: GroupName
    key: NodeGroupKey
    minimum: int
    maximum: int
    desired: int
    instances: tuple[Instance, ...] = ()
    """By id. Those that are leaving are among them while the cloud still lists them."""
    template: TemplateRef | None = None
    """The one that new instances start from."""
    node: NodeTemplate = NodeTemplate()
    suspended: frozenset[str] = frozenset()
    """Processes that somebody has suspended, such as Launch."""
    members: tuple[Instance, ...] = field(init=False, compare=False, repr=False)
    """The instances that count: starting or in service."""

    def __post_init__(self) -> None:
        """Make once what is read again and again."""
        object.__setattr__(self, "members", tuple(one for one in self.instances if one.lifecycle in COUNTING))

    @property
    def missing(self) -> int:
        """How many instances are asked for and not there."""
        return max(0, self.desired - len(self.members))

    def with_desired(self, desired: int) -> "NodeGroup":
        """Return it as it is after a write that landed."""
        return dataclasses.replace(self, desired=desired)

    def without(self, instance: InstanceId, *, decrement: bool) -> "NodeGroup":
        """Return it as it is once the end of an instance was accepted."""
        left = tuple(
            dataclasses.replace(one, lifecycle=Lifecycle.LEAVING) if one.id == instance else one
            for one in self.instances
        )
        return dataclasses.replace(self, instances=left, desired=self.desired - (1 if decrement else 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Unusable:
    """A group of this cluster that cannot be a node group, and why."""

    name: GroupName
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Node groups, by name in order, and what was left out of them."""

    groups: tuple[NodeGroup, ...] = ()
    unusable: tuple[Unusable, ...] = ()


# What happened


class LaunchFailure(StrEnum):
    """Why an instance could not be started."""

    INSUFFICIENT_CAPACITY = "InsufficientCapacity"
    """The zone has no room for it just now, be it instances or addresses."""
    UNSUPPORTED = "Unsupported"
    """The zone does not offer the type."""
    LIMIT_EXCEEDED = "LimitExceeded"
    """The account may not have more."""
    INVALID_LAUNCH = "InvalidLaunch"
    """The launch template asks for something that is not there or not allowed."""
    OTHER = "Other"


class ActivityKind(StrEnum):
    LAUNCH = "Launch"
    TERMINATE = "Terminate"
    OTHER = "Other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """What a group did or failed to do."""

    id: str
    kind: ActivityKind
    started_at: float
    instance: InstanceId | None = None
    """None where there is none, as in most failed launches."""
    failure: LaunchFailure | None = None
    """Why a launch failed; None for all else."""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceTimes:
    """When an instance began and ended."""

    launched_at: float
    is_over: bool
    """It is being ended, or has ended."""
    ended_at: float | None = None
    """None while it lives, and where the cloud does not tell."""
    image_id: str = ""
    """What it was made from; empty where the cloud does not tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotInterruption:
    """The instance will be taken away, about two minutes later."""

    instance: InstanceId


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceRecommended:
    """The instance is more likely than others to be taken away."""

    instance: InstanceId


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceScheduled:
    """The provider will stop, restart or retire instances."""

    instances: tuple[InstanceId, ...]
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChanged:
    """A group has started or ended an instance, or could not start one."""

    group: GroupName


@dataclass(frozen=True, slots=True, kw_only=True)
class InstancesChanged:
    """Instances are in another state."""

    instances: tuple[InstanceId, ...]


Event = SpotInterruption | RebalanceRecommended | MaintenanceScheduled | GroupChanged | InstancesChanged


# What may go wrong


class Reason(StrEnum):
    """Why the cloud did not do what was asked."""

    THROTTLED = "Throttled"
    """Too many calls; it did nothing."""
    UNREACHABLE = "Unreachable"
    """No answer, or none that can be read, or one that says it broke down."""
    DENIED = "Denied"
    """The credentials are missing, wrong or too weak; it did nothing."""
    NOT_FOUND = "NotFound"
    """The group or instance is not there."""
    REFUSED = "Refused"
    """It would break a rule, such as the group's bounds; it did nothing."""


class CloudError(Exception):
    """The cloud did not do what was asked: what was attempted, on what, and what to do next."""

    def __init__(self, reason: Reason, message: str, *, may_have_landed: bool = False) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.may_have_landed = may_have_landed
        """It was sent, and nobody can tell whether it was done."""


class Verdict(StrEnum):
    """What became of a write."""

    LANDED = "Landed"
    NOT_DONE = "NotDone"
    """Certainly nothing happened."""
    UNANSWERED = "Unanswered"
    """Nobody can tell; it may still land."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a write, and the group as far as it is known after it."""

    verdict: Verdict
    group: NodeGroup | None
    """As it is now: after a write that landed, or as it was read again. None where it could not be read."""
    error: CloudError | None = None
    """Why it was not done or not answered; None if it landed."""
