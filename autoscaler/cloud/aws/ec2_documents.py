"""What AWS's answers say, in our words. Pure: documents in, values out.

A group that cannot be a node group is unusable, with what is wrong with it; the others are not held up by it.
"""

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import pydantic

from autoscaler.api import keys, node_resources
from autoscaler.api.resources.pools import Architecture
from autoscaler.api.settings.node_groups import NodeGroupKey
from autoscaler.cloud import catalogue, node_templates, port

if TYPE_CHECKING:
    from mypy_boto3_autoscaling import type_defs as asg
    from mypy_boto3_ec2 import type_defs as ec2

OWNED: Final = "owned"
_LIFECYCLES: Final = {
    "Pending": port.Lifecycle.PENDING,
    "InService": port.Lifecycle.IN_SERVICE,
    "Terminating": port.Lifecycle.LEAVING,
    "Terminated": port.Lifecycle.LEAVING,
    "Detaching": port.Lifecycle.LEAVING,
    "Detached": port.Lifecycle.LEAVING,
}
"""By the word before a colon: lifecycle hooks make Pending:Wait and the like of them."""
_ARCHITECTURES: Final = {"x86_64": Architecture.AMD64, "arm64": Architecture.ARM64}
_INSTANCE: Final = re.compile(r"\bi-[0-9a-f]{8,17}\b")
_MOMENT: Final = re.compile(r"\((\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}) (?:GMT|UTC)\)")
_FAILURES: Final = (
    (
        port.LaunchFailure.UNSUPPORTED,
        re.compile(r"not supported in (?:your|the) requested|Unsupported\b", re.IGNORECASE),
    ),
    (
        port.LaunchFailure.INSUFFICIENT_CAPACITY,
        re.compile(
            r"do not have sufficient|InsufficientInstanceCapacity|Insufficient\w*Capacity|UnfulfillableCapacity"
            r"|no Spot capacity|SpotMaxPriceTooLow|lower than the minimum required Spot|no capacity"
            r"|free addresses|FreeAddressesInSubnet",
            re.IGNORECASE,
        ),
    ),
    (
        port.LaunchFailure.LIMIT_EXCEEDED,
        re.compile(
            r"LimitExceeded|CountExceeded|limit of|quota|more (?:vCPU capacity|instances) (?:\(\d+\) )?than",
            re.IGNORECASE,
        ),
    ),
    (
        port.LaunchFailure.INVALID_LAUNCH,
        re.compile(
            r"does not exist|Invalid|not authorized|UnauthorizedOperation|Client\.\w+|no longer available"
            r"|must be subscribed|not (?:valid|found)",
            re.IGNORECASE,
        ),
    ),
)
"""The first that matches. Messages are prose, kept stable by AWS; with event details codes stand among them."""


def is_owned(group: "asg.AutoScalingGroupTypeDef", cluster: str) -> bool:
    """Tell whether a group is this cluster's and lent to its autoscaler."""
    tags = tags_of(group)
    return tags.get(keys.cluster_tag(cluster)) == OWNED and keys.TAG_ENABLED in tags


def tags_of(group: "asg.AutoScalingGroupTypeDef") -> dict[str, str]:
    return {tag["Key"]: tag.get("Value", "") for tag in group.get("Tags", [])}


def node_group(group: "asg.AutoScalingGroupTypeDef") -> port.NodeGroup | port.Unusable:
    """Read a group of this cluster."""
    name = port.GroupName(group["AutoScalingGroupName"])
    try:
        node = node_templates.of_tags(tags_of(group))
        key = _key(group, node)
    except ValueError as error:
        return port.Unusable(name=name, why=str(error))
    return port.NodeGroup(
        name=name,
        key=key,
        minimum=group["MinSize"],
        maximum=group["MaxSize"],
        desired=group["DesiredCapacity"],
        instances=tuple(sorted((_instance(one, key.zone) for one in group["Instances"]), key=lambda one: one.id)),
        template=_template_ref(group.get("LaunchTemplate")),
        node=node,
        suspended=frozenset(one.get("ProcessName", "") for one in group.get("SuspendedProcesses", [])),
    )


def _key(group: "asg.AutoScalingGroupTypeDef", node: port.NodeTemplate) -> NodeGroupKey:
    tags = tags_of(group)
    zones = group["AvailabilityZones"]
    if len(zones) != 1:
        raise ValueError(f"it spans {len(zones)} zones ({', '.join(zones)}), and a node group has one")
    if keys.INSTANCE_POOL not in tags:
        raise ValueError(f"it has no tag {keys.INSTANCE_POOL}, which names its pool")
    try:
        return NodeGroupKey(pool=tags[keys.INSTANCE_POOL], zone=zones[0], instance_type=_type(group, node))
    except pydantic.ValidationError as error:
        wrong = ", ".join(str(one["loc"][0]) for one in error.errors())
        raise ValueError(f"its {wrong} cannot be read from its tags") from error


def _type(group: "asg.AutoScalingGroupTypeDef", node: port.NodeTemplate) -> str:
    if keys.INSTANCE_TYPE in node.labels:
        return node.labels[keys.INSTANCE_TYPE]
    types = {one["InstanceType"] for one in group["Instances"] if "InstanceType" in one}
    if len(types) == 1:
        return types.pop()
    raise ValueError(f"it has no tag {keys.TAG_TEMPLATE_LABEL}{keys.INSTANCE_TYPE}, which names its instance type")


def _instance(found: "asg.InstanceTypeDef", zone: str) -> port.Instance:
    return port.Instance(
        id=port.InstanceId(found["InstanceId"]),
        zone=zone,
        lifecycle=_LIFECYCLES.get(found["LifecycleState"].partition(":")[0], port.Lifecycle.ASIDE),
        template=_template_ref(found.get("LaunchTemplate")),
    )


def _template_ref(found: "asg.LaunchTemplateSpecificationTypeDef | None") -> port.TemplateRef | None:
    if found is None or "LaunchTemplateId" not in found:
        return None
    return port.TemplateRef(id=found["LaunchTemplateId"], version=found.get("Version", "$Default"))


def activity(found: "asg.ActivityTypeDef") -> port.Activity:
    """Read what a group did or failed to do."""
    description, message = found.get("Description", ""), found.get("StatusMessage", "")
    kind = _kind(description)
    instance = _INSTANCE.search(description)
    is_failed_launch = kind is port.ActivityKind.LAUNCH and found["StatusCode"] == "Failed"
    return port.Activity(
        id=found["ActivityId"],
        kind=kind,
        started_at=found["StartTime"].timestamp(),
        instance=port.InstanceId(instance[0]) if instance else None,
        failure=launch_failure(message) if is_failed_launch else None,
        message=message,
    )


def _kind(description: str) -> port.ActivityKind:
    if description.startswith("Launching"):
        return port.ActivityKind.LAUNCH
    return port.ActivityKind.TERMINATE if description.startswith("Terminating") else port.ActivityKind.OTHER


def launch_failure(message: str) -> port.LaunchFailure:
    """Tell why a launch failed, from what EC2 said."""
    return next((failure for failure, said in _FAILURES if said.search(message)), port.LaunchFailure.OTHER)


def life(found: "ec2.InstanceTypeDef") -> port.InstanceTimes:
    """Read when an instance began and ended; EC2 tells the moment of an end that somebody asked for."""
    is_over = found["State"]["Name"] in {"shutting-down", "terminated"}
    ended_at = _moment(found.get("StateTransitionReason", "")) if is_over else None
    return port.InstanceTimes(
        launched_at=found["LaunchTime"].timestamp(),
        is_over=is_over,
        ended_at=ended_at,
        image_id=found.get("ImageId", ""),
    )


def _moment(reason: str) -> float | None:
    told = _MOMENT.search(reason)
    return datetime.strptime(told[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp() if told else None


def template(found: "ec2.LaunchTemplateVersionTypeDef") -> port.Template:
    """Read what a version of a launch template says."""
    data: Mapping[str, object] = found.get("LaunchTemplateData", {})
    user_data = str(data.get("UserData", ""))
    return port.Template(
        image_id=str(data.get("ImageId", "")), user_data_sha256=hashlib.sha256(user_data.encode()).hexdigest()
    )


def instance_type(found: "ec2.InstanceTypeInfoTypeDef") -> catalogue.InstanceType | None:
    """Read what a type has; None if its processors are none that nodes of ours can have."""
    supported = found["ProcessorInfo"]["SupportedArchitectures"]
    architecture = next((_ARCHITECTURES[one] for one in supported if one in _ARCHITECTURES), None)
    if architecture is None:
        return None
    gpus = [one for one in found.get("GpuInfo", {}).get("Gpus", []) if one.get("Manufacturer", "").upper() == "NVIDIA"]
    # What a node sees: EC2 says 0 of a part of a GPU, and 1 of the logical GPU that the part is.
    count = sum(one.get("Count", 0) or int(one.get("LogicalGpuCount", 0)) for one in gpus)
    return catalogue.InstanceType(
        name=found["InstanceType"],
        architecture=architecture,
        vcpus=found["VCpuInfo"]["DefaultVCpus"],
        memory_bytes=found["MemoryInfo"]["SizeInMiB"] * node_resources.MIB,
        network_interfaces=found["NetworkInfo"]["MaximumNetworkInterfaces"],
        addresses_per_interface=found["NetworkInfo"]["Ipv4AddressesPerInterface"],
        gpus=count,
        gpu_name=gpus[0].get("Name") if count else None,
    )
