"""Auto Scaling groups in moto. What the program does not give is never sent: so desired belongs to whoever moves it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tools.engine.providers import calls, projection, wire
from tools.engine.providers.aws import cloud

TYPE: Final = "aws:autoscaling/group:Group"
DRAIN_SECONDS = 600.0
_TAG_TYPE = "auto-scaling-group"


def create(aws: cloud.Cloud, asked: calls.Create) -> calls.State:
    inputs: dict[str, Any] = wire.plain(asked.inputs)
    name = str(inputs["name"])
    arguments = _arguments(inputs, frozenset(inputs))
    tags = _sent_tags(name, inputs.get("tags") or ())
    aws.call("autoscaling", "create_auto_scaling_group", AutoScalingGroupName=name, Tags=tags, **arguments)
    if inputs.get("suspendedProcesses"):
        processes = inputs["suspendedProcesses"]
        aws.call("autoscaling", "suspend_processes", AutoScalingGroupName=name, ScalingProcesses=processes)
    return _state(aws, name, asked.inputs)


def read(aws: cloud.Cloud, asked: calls.Read) -> calls.State | None:
    live = _live(aws, asked.id)
    if live is None:
        return None
    found = _described(live, asked.old_inputs)
    # What moto does not tell stays as it was; what the program does not give is no input, whatever its value.
    known = wire.plain(asked.old_inputs) | found
    inputs = projection.as_now(asked.old_inputs, known, lambda one, other: str(one) == str(other))
    return calls.State(id=asked.id, outputs=asked.old_inputs | asked.old_outputs | found, inputs=inputs)


def update(aws: cloud.Cloud, asked: calls.Update) -> calls.State:
    """Send only what changed."""
    inputs: dict[str, Any] = wire.plain(asked.inputs)
    arguments = _arguments(inputs, asked.changed)
    if arguments:
        aws.call("autoscaling", "update_auto_scaling_group", AutoScalingGroupName=asked.id, **arguments)
    if "tags" in asked.changed:
        _update_tags(aws, asked.id, wire.plain(asked.old_inputs).get("tags") or (), inputs.get("tags") or ())
    return _state(aws, asked.id, asked.inputs)


def delete(aws: cloud.Cloud, asked: calls.Delete) -> None:
    """Delete a group by force, or wait until its instances are gone: protected ones never go by themselves."""
    live = _live(aws, asked.id)
    if live is None:
        return
    members = [member["InstanceId"] for member in live["Instances"]]
    if not wire.plain(asked.old_inputs).get("forceDelete"):
        _drain(aws, asked)
        members = []
    aws.find("autoscaling", "delete_auto_scaling_group", AutoScalingGroupName=asked.id, ForceDelete=True)
    if members:  # moto lets protected ones live on; AWS does not
        aws.find("ec2", "terminate_instances", InstanceIds=members)


def _drain(aws: cloud.Cloud, asked: calls.Delete) -> None:
    size = {"MinSize": 0, "MaxSize": 0, "DesiredCapacity": 0}
    aws.call("autoscaling", "update_auto_scaling_group", AutoScalingGroupName=asked.id, **size)
    cloud.wait(
        lambda: not (_live(aws, asked.id) or {"Instances": ()})["Instances"],
        asked.timeout_seconds or DRAIN_SECONDS,
        f"cannot delete {asked.id} without forceDelete: it still has instances",
    )


def _state(aws: cloud.Cloud, name: str, inputs: wire.Properties) -> calls.State:
    live = _live(aws, name)
    if live is None:
        raise calls.RefusedError(f"the Auto Scaling group {name} is gone; run a refresh")
    return calls.State(id=name, outputs=inputs | _described(live, inputs))


def _live(aws: cloud.Cloud, name: str) -> dict[str, Any] | None:
    answer = aws.call("autoscaling", "describe_auto_scaling_groups", AutoScalingGroupNames=[name])
    found: list[dict[str, Any]] = answer["AutoScalingGroups"]
    return found[0] if found else None


def _described(live: Mapping[str, Any], inputs: Mapping[str, wire.Value]) -> wire.Properties:
    found: wire.Properties = {
        "arn": live["AutoScalingGroupARN"],
        "name": live["AutoScalingGroupName"],
        "minSize": live["MinSize"],
        "maxSize": live["MaxSize"],
        "desiredCapacity": live["DesiredCapacity"],
        "availabilityZones": live["AvailabilityZones"],
        "vpcZoneIdentifiers": [each for each in live.get("VPCZoneIdentifier", "").split(",") if each],
        "protectFromScaleIn": live.get("NewInstancesProtectedFromScaleIn", False),
        "healthCheckType": live.get("HealthCheckType", "EC2"),
        "tags": _described_tags(live.get("Tags", ()), wire.plain(inputs).get("tags") or ()),
    }
    if "LaunchTemplate" in live:
        template = live["LaunchTemplate"]
        found["launchTemplate"] = {
            "id": template["LaunchTemplateId"],
            "name": template["LaunchTemplateName"],
            "version": template.get("Version", "$Default"),
        }
    return found


def _described_tags(live: Sequence[Mapping[str, Any]], given: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the tags in the program's order, those that others added last."""
    order = {tag["key"]: index for index, tag in enumerate(given)}
    found = [
        {"key": tag["Key"], "value": tag.get("Value", ""), "propagateAtLaunch": tag.get("PropagateAtLaunch", False)}
        for tag in live
    ]
    return sorted(found, key=lambda tag: (order.get(tag["key"], len(order)), tag["key"]))


def _arguments(inputs: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    return {
        wire_name: convert(inputs[name])
        for name, (wire_name, convert) in _TO_WIRE.items()
        if name in names and inputs.get(name) is not None
    }


def _template(given: Mapping[str, Any]) -> dict[str, str]:
    key = {"LaunchTemplateId": given["id"]} if given.get("id") else {"LaunchTemplateName": given["name"]}
    return key | {"Version": str(given.get("version") or "$Default")}


def _pascal(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Write names as AWS does: `onDemandBaseCapacity` is `OnDemandBaseCapacity`."""
    if isinstance(value, Mapping):
        return {f"{name[0].upper()}{name[1:]}": _pascal(each) for name, each in value.items() if each is not None}
    return [_pascal(each) for each in value] if isinstance(value, list) else value


def _sent_tags(group: str, tags: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "ResourceId": group,
            "ResourceType": _TAG_TYPE,
            "Key": tag["key"],
            "Value": tag["value"],
            "PropagateAtLaunch": tag["propagateAtLaunch"],
        }
        for tag in tags
    ]


def _update_tags(
    aws: cloud.Cloud, group: str, old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]
) -> None:
    kept = {tag["key"] for tag in new}
    changed = [tag for tag in new if tag not in old]
    removed = [tag for tag in old if tag["key"] not in kept]
    if changed:
        aws.call("autoscaling", "create_or_update_tags", Tags=_sent_tags(group, changed))
    if removed:
        aws.call("autoscaling", "delete_tags", Tags=_sent_tags(group, removed))


_TO_WIRE: Final[Mapping[str, tuple[str, Callable[[Any], Any]]]] = {
    "minSize": ("MinSize", int),
    "maxSize": ("MaxSize", int),
    "desiredCapacity": ("DesiredCapacity", int),
    "vpcZoneIdentifiers": ("VPCZoneIdentifier", ",".join),
    "availabilityZones": ("AvailabilityZones", list),
    "protectFromScaleIn": ("NewInstancesProtectedFromScaleIn", bool),
    "healthCheckType": ("HealthCheckType", str),
    "healthCheckGracePeriod": ("HealthCheckGracePeriod", int),
    "defaultCooldown": ("DefaultCooldown", int),
    "terminationPolicies": ("TerminationPolicies", list),
    "capacityRebalance": ("CapacityRebalance", bool),
    "launchTemplate": ("LaunchTemplate", _template),
    "mixedInstancesPolicy": ("MixedInstancesPolicy", _pascal),
}
