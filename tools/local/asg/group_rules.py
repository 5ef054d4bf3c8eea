"""AWS's documented rules of Auto Scaling groups that moto does not keep. Pure: state in, decisions out.

Written from the documentation of Amazon EC2 Auto Scaling: SetDesiredCapacity and UpdateAutoScalingGroup (bounds),
TerminateInstanceInAutoScalingGroup (decrement), instance lifecycle (Pending, InService), instance scale-in protection
(holds from InService on), DescribeScalingActivities (one activity for each launch or end, and for each failure).
"""

import dataclasses
import datetime as dt
import uuid
from collections.abc import Sequence
from xml.etree import ElementTree as ET

from tools.local.asg import asg_wire
from tools.local.asg.asg_wire import Refusal

ALL_PROTECTED = "Could not scale to desired capacity because all remaining instances are protected from scale-in."


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """An instance of a group, as moto has it."""

    identifier: str
    is_protected: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group, as moto has it."""

    name: str
    minimum: int
    maximum: int
    desired: int
    zone: str
    template_id: str
    template_version: str
    members: tuple[Member, ...]
    suspended: frozenset[str]

    @classmethod
    def of(cls, found: ET.Element) -> "Group":
        text = asg_wire.text
        return cls(
            name=text(found, "AutoScalingGroupName"),
            minimum=int(text(found, "MinSize")),
            maximum=int(text(found, "MaxSize")),
            desired=int(text(found, "DesiredCapacity", "0")),
            zone=text(found, "AvailabilityZones/member"),
            template_id=text(found, "LaunchTemplate/LaunchTemplateId"),
            template_version=text(found, "LaunchTemplate/Version", "$Default"),
            members=tuple(
                Member(
                    identifier=text(one, "InstanceId"), is_protected=text(one, "ProtectedFromScaleIn").lower() == "true"
                )
                for one in found.findall("Instances/member")
            ),
            suspended=frozenset(text(one, "ProcessName") for one in found.findall("SuspendedProcesses/member")),
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """What a group did or failed to do."""

    description: str
    cause: str
    started_at: float
    ends_at: float
    """Under way before, over from then on."""
    message: str = ""
    is_failed: bool = False
    identifier: str = dataclasses.field(default_factory=lambda: str(uuid.uuid4()))

    def status(self, now: float) -> str:
        if now < self.ends_at:
            return "InProgress"
        return "Failed" if self.is_failed else "Successful"


@dataclasses.dataclass(slots=True)
class Launched:
    """When an instance was launched, and from which version of the template."""

    at: float
    template_version: str


@dataclasses.dataclass(slots=True)
class Watched:
    """What is known of a group here, and not by moto keep."""

    desired: int
    launched: dict[str, Launched] = dataclasses.field(default_factory=dict)
    leaving: dict[str, float] = dataclasses.field(default_factory=dict)
    """Ended instances, and until when they are still listed."""
    activities: list[Activity] = dataclasses.field(default_factory=list)
    """Oldest first."""
    retry_at: float | None = None
    """When a failed launch is tried again."""

    def is_pending(self, instance: str, now: float, pending_seconds: float) -> bool:
        launched = self.launched.get(instance)
        return launched is not None and now < launched.at + pending_seconds


def check_desired(group: Group, desired: int) -> Refusal | None:
    """Refuse a desired capacity outside of the bounds."""
    if desired > group.maximum:
        return _invalid(
            f"New SetDesiredCapacity value {desired} is above max value {group.maximum} for the AutoScalingGroup."
        )
    if desired < group.minimum:
        return _invalid(
            f"New SetDesiredCapacity value {desired} is below min value {group.minimum} for the AutoScalingGroup."
        )
    return None


def check_bounds(minimum: int, maximum: int, desired: int | None) -> Refusal | None:
    """Refuse bounds that contradict each other or the desired capacity that is given with them."""
    if minimum > maximum:
        return _invalid(f"Max bound, {maximum}, must be greater than or equal to min bound, {minimum}")
    if desired is not None and not minimum <= desired <= maximum:
        return _invalid(
            f"Desired capacity:{desired} must be between the specified min size:{minimum} and max size:{maximum}"
        )
    return None


def check_end(group: Group, desired: int, *, decrement: bool) -> Refusal | None:
    """Refuse to end an instance without a successor where the group would fall below its minimum."""
    if decrement and desired - 1 < group.minimum:
        return _invalid(
            f"Currently, desiredSize equals minSize ({group.minimum}). Terminating instance without replacement will "
            "violate group's min size constraint. Either set shouldDecrementDesiredCapacity flag to false or lower "
            "group's min size."
        )
    return None


def no_group(name: str) -> Refusal:
    return _invalid(f"AutoScalingGroup name not found - AutoScalingGroup {name} not found")


def no_instance(instance: str) -> Refusal:
    return _invalid(f"Instance Id not found - No managed instance found for instance ID: {instance}")


def in_use() -> Refusal:
    return Refusal(
        code="ResourceInUse",
        message="You cannot delete an AutoScalingGroup while there are instances or pending Spot instance request(s) "
        "still in the group.",
    )


def _invalid(message: str) -> Refusal:
    return Refusal(code="ValidationError", message=message)


def victims(group: Group, watched: Watched, *, now: float, pending_seconds: float) -> tuple[str, ...]:
    """Choose what ends where desired is below what is there: pending ones first, never a protected one in service."""
    surplus = max(0, len(group.members) - watched.desired)
    pending = [one for one in group.members if watched.is_pending(one.identifier, now, pending_seconds)]
    serving = [one for one in group.members if one not in pending and not one.is_protected]
    return tuple(one.identifier for one in [*pending, *serving][:surplus])


def shortage(instance_type: str, zone: str) -> str:
    """Say what EC2 says of a zone without instances."""
    return (
        f"We currently do not have sufficient {instance_type} capacity in the Availability Zone you requested ({zone})."
        " Our system will be working on provisioning additional capacity. Launching EC2 instance failed."
    )


def unsupported(instance_type: str, zone: str) -> str:
    """Say what EC2 says of a zone that does not offer the type."""
    return (
        f"Your requested instance type ({instance_type}) is not supported in your requested Availability Zone ({zone})."
        " Please retry your request by not specifying an Availability Zone. Launching EC2 instance failed."
    )


def failed_launch(message: str, *, now: float) -> Activity:
    return Activity(
        description=f"Launching a new EC2 instance.  Status Reason: {message}",
        cause="an instance was started in response to a difference between desired and actual capacity",
        started_at=now,
        ends_at=now,
        message=message,
        is_failed=True,
    )


def launch(instance: str, *, now: float, seconds: float) -> Activity:
    return Activity(
        description=f"Launching a new EC2 instance: {instance}",
        cause="an instance was started in response to a difference between desired and actual capacity",
        started_at=now,
        ends_at=now + seconds,
    )


def end(instance: str, *, now: float, seconds: float) -> Activity:
    return Activity(
        description=f"Terminating EC2 instance: {instance}",
        cause="an instance was taken out of service in response to a user request",
        started_at=now,
        ends_at=now + seconds,
    )


def held_back(*, now: float) -> Activity:
    return Activity(
        description="Terminating EC2 instance",
        cause="the desired capacity was lowered",
        started_at=now,
        ends_at=now,
        message=ALL_PROTECTED,
        is_failed=True,
    )


def judged(found: ET.Element, watched: Watched, *, now: float, pending_seconds: float) -> None:
    """Correct moto's description of a group: desired, states, zones, versions, and those that are just leaving."""
    asg_wire.put(found, "DesiredCapacity", str(watched.desired))
    zone = asg_wire.text(found, "AvailabilityZones/member")
    for one in found.findall("Instances/member"):
        identifier = asg_wire.text(one, "InstanceId")
        if watched.is_pending(identifier, now, pending_seconds):
            asg_wire.put(one, "LifecycleState", "Pending")
        asg_wire.put(one, "AvailabilityZone", zone)
        launched = watched.launched.get(identifier)
        template = one.find("LaunchTemplate")
        if launched is not None and template is not None:
            asg_wire.put(template, "Version", launched.template_version)
    instances = found.find("Instances")
    if instances is None:
        instances = ET.SubElement(found, "Instances")
    for identifier, until in watched.leaving.items():
        if now < until:
            instances.append(_leaving(identifier, zone))


def _leaving(identifier: str, zone: str) -> ET.Element:
    member = ET.Element("member")
    for name, value in (
        ("InstanceId", identifier),
        ("AvailabilityZone", zone),
        ("LifecycleState", "Terminating"),
        ("HealthStatus", "Unhealthy"),
        ("ProtectedFromScaleIn", "false"),
    ):
        asg_wire.put(member, name, value)
    return member


def described(activities: Sequence[tuple[str, Activity]], *, now: float) -> ET.Element:
    """Write activities with their groups' names, newest first."""
    result = ET.Element("DescribeScalingActivitiesResult")
    newest = sorted(activities, key=lambda one: one[1].started_at, reverse=True)
    result.append(asg_wire.listed("Activities", (_activity(group, one, now) for group, one in newest)))
    return result


def _activity(group: str, activity: Activity, now: float) -> ET.Element:
    element = ET.Element("member")
    status = activity.status(now)
    fields = {
        "ActivityId": activity.identifier,
        "AutoScalingGroupName": group,
        "Description": activity.description,
        "Cause": activity.cause,
        "StartTime": _time(activity.started_at),
        "StatusCode": status,
        "Progress": "100" if now >= activity.ends_at else "30",
        **({"StatusMessage": activity.message} if activity.message else {}),
        **({"EndTime": _time(activity.ends_at)} if now >= activity.ends_at else {}),
    }
    for name, value in fields.items():
        asg_wire.put(element, name, value)
    return element


def _time(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds, dt.UTC).isoformat(timespec="milliseconds")
