"""What EventBridge's documents tell of instances and groups, in our words. Pure.

What is about something else is None; what cannot be read is a ValueError. Neither may hold up what comes after it.
"""

from collections.abc import Callable, Mapping
from email import utils
from typing import Final

import msgspec

from autoscaler.cloud import port


class _Document(msgspec.Struct, frozen=True, rename={"detail_type": "detail-type"}):
    detail_type: str
    detail: msgspec.Raw


class _Instance(msgspec.Struct, frozen=True, rename={"instance": "instance-id"}):
    instance: str


class _Group(msgspec.Struct, frozen=True, rename={"group": "AutoScalingGroupName"}):
    group: str


class _Entity(msgspec.Struct, frozen=True, rename={"value": "entityValue"}):
    value: str


class _Health(
    msgspec.Struct,
    frozen=True,
    rename={"entities": "affectedEntities", "starts": "startTime", "status": "statusCode"},
):
    entities: tuple[_Entity, ...] = ()
    starts: str = ""
    """As `Thu, 01 Jan 2026 05:00:00 GMT`."""
    status: str = ""


_DOCUMENT: Final = msgspec.json.Decoder(_Document)
_INSTANCE: Final = msgspec.json.Decoder(_Instance)
_GROUP: Final = msgspec.json.Decoder(_Group)
_HEALTH: Final = msgspec.json.Decoder(_Health)


def parse(body: str) -> port.Event | None:
    """Read one message; None if it is about something else; raise ValueError if it cannot be read."""
    try:
        document = _DOCUMENT.decode(body)
        read = _READERS.get(document.detail_type)
        return None if read is None else read(document.detail)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ValueError(f"not an event of EventBridge: {error}") from error


def _interruption(detail: msgspec.Raw) -> port.Event:
    return port.SpotInterruption(instance=port.InstanceId(_INSTANCE.decode(detail).instance))


def _rebalance(detail: msgspec.Raw) -> port.Event:
    return port.RebalanceRecommended(instance=port.InstanceId(_INSTANCE.decode(detail).instance))


def _instance(detail: msgspec.Raw) -> port.Event:
    return port.InstancesChanged(instances=(port.InstanceId(_INSTANCE.decode(detail).instance),))


def _group(detail: msgspec.Raw) -> port.Event:
    return port.GroupChanged(group=port.GroupName(_GROUP.decode(detail).group))


def _maintenance(detail: msgspec.Raw) -> port.Event | None:
    """Read a scheduled change; one that is over, or is about something else than instances, says nothing."""
    health = _HEALTH.decode(detail)
    instances = tuple(port.InstanceId(one.value) for one in health.entities if one.value.startswith("i-"))
    if not instances or health.status == "closed":
        return None
    return port.MaintenanceScheduled(instances=instances, at=utils.parsedate_to_datetime(health.starts).timestamp())


_READERS: Final[Mapping[str, Callable[[msgspec.Raw], port.Event | None]]] = {
    "EC2 Spot Instance Interruption Warning": _interruption,
    "EC2 Instance Rebalance Recommendation": _rebalance,
    "EC2 Instance State-change Notification": _instance,
    "EC2 Instance Launch Unsuccessful": _group,
    "EC2 Instance Launch Successful": _group,
    "EC2 Instance Terminate Successful": _group,
    "AWS Health Event": _maintenance,
}
"""By what EventBridge calls them; the stack's rules gather these and a few that say nothing new."""
