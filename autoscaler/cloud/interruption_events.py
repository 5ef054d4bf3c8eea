"""What EventBridge's documents tell of instances and groups, in our words. Pure.

What is about something else is None; what cannot be read is a ValueError. Neither may hold up what comes after it.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from email import utils as email_dates
from typing import Final

import msgspec

from autoscaler.cloud import ec2_documents, port


class _Document(msgspec.Struct, frozen=True, rename={"detail_type": "detail-type"}):
    detail_type: str
    time: datetime
    detail: msgspec.Raw


class _Instance(msgspec.Struct, frozen=True, rename={"instance": "instance-id"}):
    instance: str
    state: str = ""


class _Group(
    msgspec.Struct,
    frozen=True,
    rename={"group": "AutoScalingGroupName", "instance": "EC2InstanceId", "message": "StatusMessage"},
):
    group: str
    instance: str = ""
    message: str = ""


class _Entity(msgspec.Struct, frozen=True, rename={"value": "entityValue"}):
    value: str


class _Health(msgspec.Struct, frozen=True, rename={"starts": "startTime", "entities": "affectedEntities"}):
    starts: str
    entities: tuple[_Entity, ...] = ()


_DOCUMENT: Final = msgspec.json.Decoder(_Document)
_INSTANCE: Final = msgspec.json.Decoder(_Instance)
_GROUP: Final = msgspec.json.Decoder(_Group)
_HEALTH: Final = msgspec.json.Decoder(_Health)


def parse(body: str) -> port.Event | None:
    """Read one message; None if it is about something else; raise ValueError if it cannot be read."""
    try:
        document = _DOCUMENT.decode(body)
        return _event(document, document.time.timestamp())
    except (msgspec.MsgspecError, UnicodeError, RecursionError, OverflowError) as error:
        raise ValueError(f"not an event of EventBridge: {error}") from error


def _event(document: _Document, at: float) -> port.Event | None:
    read = _READERS.get(document.detail_type)
    return None if read is None else read(document.detail, at)


def _spot(detail: msgspec.Raw, at: float) -> port.Event:
    return port.SpotInterruption(instance=port.InstanceId(_INSTANCE.decode(detail).instance), at=at)


def _rebalance(detail: msgspec.Raw, at: float) -> port.Event:
    return port.RebalanceRecommendation(instance=port.InstanceId(_INSTANCE.decode(detail).instance), at=at)


def _state(detail: msgspec.Raw, at: float) -> port.Event:
    found = _INSTANCE.decode(detail)
    return port.StateChange(instance=port.InstanceId(found.instance), at=at, state=found.state)


def _launch_failed(detail: msgspec.Raw, at: float) -> port.Event:
    found = _GROUP.decode(detail)
    failure = ec2_documents.launch_failure(found.message)
    return port.LaunchFailed(group=port.GroupName(found.group), at=at, failure=failure, message=found.message)


def _members(detail: msgspec.Raw, at: float) -> port.Event:
    found = _GROUP.decode(detail)
    return port.MembersChanged(group=port.GroupName(found.group), at=at, instance=port.InstanceId(found.instance))


def _maintenance(detail: msgspec.Raw, at: float) -> port.Event:
    """Read when it begins, which AWS Health writes as mail does: Sat, 04 Jun 2016 05:01:10 GMT."""
    found = _HEALTH.decode(detail)
    return port.MaintenancePlanned(
        instances=tuple(port.InstanceId(one.value) for one in found.entities),
        at=at,
        starts_at=email_dates.parsedate_to_datetime(found.starts).timestamp(),
    )


_READERS: Final[Mapping[str, Callable[[msgspec.Raw, float], port.Event]]] = {
    "EC2 Spot Instance Interruption Warning": _spot,
    "EC2 Instance Rebalance Recommendation": _rebalance,
    "EC2 Instance State-change Notification": _state,
    "EC2 Instance Launch Unsuccessful": _launch_failed,
    "EC2 Instance Launch Successful": _members,
    "EC2 Instance Terminate Successful": _members,
    "AWS Health Event": _maintenance,
}
"""By what EventBridge calls them; the stack's rules gather these and a few that say nothing new."""
