"""What AWS's answers are read as: groups with their reasons for being unusable, activities, lives, types."""

from datetime import UTC, datetime
from typing import Any

import pytest

from autoscaler.api import keys
from autoscaler.api.resources.pools import Architecture
from autoscaler.api.settings.node_groups import NodeGroupKey
from autoscaler.cloud import catalogue, port
from autoscaler.cloud.aws import ec2_documents
from tests.autoscaler.cloud import documents
from tests.autoscaler.cloud.documents import NOON


def usable(document: Any) -> port.NodeGroup:
    read = ec2_documents.node_group(document)
    assert isinstance(read, port.NodeGroup), read
    return read


def test_a_group_is_read_with_its_instances_in_order() -> None:
    second, first = documents.instance("i-00000000000000002"), documents.instance(LifecycleState="Pending:Wait")
    group = usable(documents.group(MinSize=1, MaxSize=9, DesiredCapacity=3, Instances=[second, first]))
    assert group.key == NodeGroupKey(pool="batch", zone="eu-west-1b", instance_type="m5.large")
    assert (group.minimum, group.maximum, group.desired, group.missing) == (1, 9, 3, 1)
    assert [one.id for one in group.instances] == ["i-00000000000000001", "i-00000000000000002"]
    assert [one.lifecycle for one in group.instances] == [port.Lifecycle.PENDING, port.Lifecycle.IN_SERVICE]
    assert group.template == port.TemplateRef(id="lt-1", version="3")
    assert group.instances[0].template == port.TemplateRef(id="lt-1", version="2")


def test_an_instance_is_in_its_groups_zone() -> None:
    """Moto puts every instance into the region's first zone; a group of ours has one zone."""
    [instance] = usable(documents.group(Instances=[documents.instance()])).instances
    assert instance.provider_id == "aws:///eu-west-1b/i-00000000000000001"


@pytest.mark.parametrize(
    ("state", "want"),
    [
        ("Pending", port.Lifecycle.PENDING),
        ("Pending:Proceed", port.Lifecycle.PENDING),
        ("InService", port.Lifecycle.IN_SERVICE),
        ("Terminating", port.Lifecycle.LEAVING),
        ("Terminating:Wait", port.Lifecycle.LEAVING),
        ("Detaching", port.Lifecycle.LEAVING),
        ("Standby", port.Lifecycle.ASIDE),
        ("Warmed:Stopped", port.Lifecycle.ASIDE),
        ("SomethingNew", port.Lifecycle.ASIDE),
    ],
)
def test_states_are_told_in_four_words(state: str, want: port.Lifecycle) -> None:
    [instance] = usable(documents.group(Instances=[documents.instance(LifecycleState=state)])).instances
    assert instance.lifecycle is want


def test_only_starting_and_serving_instances_are_members() -> None:
    states = ["Pending", "InService", "Terminating", "Standby"]
    instances = [documents.instance(f"i-0000000{n}", LifecycleState=state) for n, state in enumerate(states)]
    group = usable(documents.group(DesiredCapacity=4, Instances=instances))
    assert [one.id for one in group.members] == ["i-00000000", "i-00000001"]
    assert group.missing == 2


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"AvailabilityZones": ["eu-west-1a", "eu-west-1b"]}, "2 zones"),
        ({"tagged": {keys.TAG_ENABLED: "true"}}, keys.INSTANCE_POOL),
        ({"tagged": {keys.INSTANCE_POOL: "batch"}}, keys.INSTANCE_TYPE),
        ({"tagged": documents.tags(**{keys.INSTANCE_POOL: "Not A Pool"})}, "pool"),
        ({"tagged": documents.tags(**{f"{keys.TAG_TEMPLATE_RESOURCES}nvidia.com/gpu": "four"})}, "nvidia.com/gpu"),
        ({"tagged": documents.tags(**{f"{keys.TAG_TEMPLATE_TAINT}gpu": "NoEffect"})}, "taint/gpu"),
    ],
)
def test_a_group_that_cannot_be_a_node_group_says_why(more: dict[str, Any], why: str) -> None:
    read = ec2_documents.node_group(documents.group(**more))
    assert isinstance(read, port.Unusable)
    assert why in read.why


def test_the_type_is_taken_from_instances_where_no_tag_tells() -> None:
    tagged = {key: value for key, value in documents.tags().items() if keys.INSTANCE_TYPE not in key}
    group = usable(documents.group(tagged=tagged, Instances=[documents.instance()]))
    assert group.key.instance_type == "m5.large"


@pytest.mark.parametrize(
    ("tagged", "want"),
    [
        (documents.tags(), True),
        (documents.tags(**{keys.cluster_tag(documents.CLUSTER): "shared"}), False),
        ({keys.TAG_ENABLED: "true", keys.cluster_tag("another"): "owned"}, False),
        ({keys.cluster_tag(documents.CLUSTER): "owned"}, False),
        ({}, False),
    ],
)
def test_a_group_is_ours_by_both_tags(tagged: dict[str, str], want: bool) -> None:  # noqa: FBT001
    assert ec2_documents.is_owned(documents.group(tagged=tagged), documents.CLUSTER) is want


@pytest.mark.parametrize(
    ("message", "want"),
    [
        (
            (
                "We currently do not have sufficient p3.8xlarge capacity in the Availability Zone you requested "
                "(us-east-1a). Our system will be working on provisioning additional capacity. Launching EC2 instance "
                "failed."
            ),
            port.LaunchFailure.INSUFFICIENT_CAPACITY,
        ),
        (
            (
                "Could not launch Spot Instances. InsufficientInstanceCapacity - There is no Spot capacity available "
                "that matches your request. Launching EC2 instance failed."
            ),
            port.LaunchFailure.INSUFFICIENT_CAPACITY,
        ),
        (
            (
                "Could not launch Spot Instances. UnfulfillableCapacity - Unable to fulfill capacity due to your "
                "request configuration. Launching EC2 instance failed."
            ),
            port.LaunchFailure.INSUFFICIENT_CAPACITY,
        ),
        (
            "There are not enough free addresses in subnet 'subnet-1' to satisfy the requested number of instances.",
            port.LaunchFailure.INSUFFICIENT_CAPACITY,
        ),
        (
            (
                "Your requested instance type (p3.8xlarge) is not supported in your requested Availability Zone "
                "(us-east-1e). Please retry your request by not specifying an Availability Zone or choosing us-east-1a."
            ),
            port.LaunchFailure.UNSUPPORTED,
        ),
        (
            (
                "You have requested more vCPU capacity than your current vCPU limit of 32 allows for the instance "
                "bucket that the specified instance type belongs to. Launching EC2 instance failed."
            ),
            port.LaunchFailure.LIMIT_EXCEEDED,
        ),
        (
            "Could not launch Spot Instances. MaxSpotInstanceCountExceeded - Max spot instance count exceeded.",
            port.LaunchFailure.LIMIT_EXCEEDED,
        ),
        (
            "The image id '[ami-0abcdef]' does not exist. Launching EC2 instance failed.",
            port.LaunchFailure.INVALID_LAUNCH,
        ),
        ("Invalid IAM Instance Profile name. Launching EC2 instance failed.", port.LaunchFailure.INVALID_LAUNCH),
        (
            "You are not authorized to perform this operation. Launching EC2 instance failed.",
            port.LaunchFailure.INVALID_LAUNCH,
        ),
        ("Client.InternalError: Client error on launch", port.LaunchFailure.INVALID_LAUNCH),
        ("Something happened.", port.LaunchFailure.OTHER),
        ("", port.LaunchFailure.OTHER),
    ],
)
def test_a_failed_launch_has_a_reason(message: str, want: port.LaunchFailure) -> None:
    document = documents.activity(
        Description=f"Launching a new EC2 instance.  Status Reason: {message}",
        StatusCode="Failed",
        StatusMessage=message,
        EndTime=NOON,
    )
    read = ec2_documents.activity(document)
    assert (read.kind, read.failure) == (port.ActivityKind.LAUNCH, want)
    assert read.message == message


def test_an_end_that_fails_is_no_failed_launch() -> None:
    read = ec2_documents.activity(documents.activity(Description="Terminating EC2 instance: i-1", StatusCode="Failed"))
    assert (read.kind, read.failure) == (port.ActivityKind.TERMINATE, None)


def test_a_launch_under_way_names_its_instance() -> None:
    read = ec2_documents.activity(documents.activity(StatusCode="PreInService", EndTime=NOON))
    assert read.instance == "i-00000000000000001"
    assert read.started_at == NOON.timestamp()


def described(state: str, reason: str = "") -> Any:
    return {
        "InstanceId": "i-1",
        "LaunchTime": NOON,
        "State": {"Name": state},
        "StateTransitionReason": reason,
    }


@pytest.mark.parametrize("zone", ["GMT", "UTC"])
def test_a_life_ends_when_somebody_asked_for_it(zone: str) -> None:
    read = ec2_documents.life(described("terminated", f"User initiated (2026-03-01 13:30:05 {zone})"))
    want = datetime(2026, 3, 1, 13, 30, 5, tzinfo=UTC).timestamp()
    assert (read.launched_at, read.ended_at, read.is_over) == (NOON.timestamp(), want, True)


def test_a_life_that_the_provider_ended_has_no_told_end() -> None:
    read = ec2_documents.life(described("terminated", "Server.SpotInstanceTermination: Spot instance termination"))
    assert (read.ended_at, read.is_over) == (None, True)


def test_a_stopped_instance_is_not_over() -> None:
    assert not ec2_documents.life(described("stopped", "User initiated (2026-03-01 13:30:05 GMT)")).is_over


def test_a_template_tells_its_image_and_the_digest_of_its_user_data_only() -> None:
    secret = "bWFjaGluZS1zZWNyZXQ="
    read = ec2_documents.template({"LaunchTemplateData": {"ImageId": "ami-1", "UserData": secret}})
    other = ec2_documents.template({"LaunchTemplateData": {"ImageId": "ami-1", "UserData": "b3RoZXI="}})
    assert read.image_id == "ami-1"
    assert read != other
    assert secret not in repr(read)


def test_a_type_of_foreign_processors_is_none_of_ours() -> None:
    assert ec2_documents.instance_type({"ProcessorInfo": {"SupportedArchitectures": ["arm64_mac"]}}) is None


def kind(architectures: list[str], gpus: list[dict[str, Any]] | None = None) -> Any:
    """Return an instance type as EC2's DescribeInstanceTypes does."""
    found: dict[str, Any] = {
        "InstanceType": "x1.test",
        "ProcessorInfo": {"SupportedArchitectures": architectures},
        "VCpuInfo": {"DefaultVCpus": 4},
        "MemoryInfo": {"SizeInMiB": 1024},
        "NetworkInfo": {"MaximumNetworkInterfaces": 2, "Ipv4AddressesPerInterface": 6},
    }
    return found | ({"GpuInfo": {"Gpus": gpus}} if gpus else {})


def test_an_instance_type_is_taken_from_its_description() -> None:
    want = catalogue.InstanceType(
        name="x1.test",
        architecture=Architecture.AMD64,
        vcpus=4,
        memory_bytes=1024**3,
        network_interfaces=2,
        addresses_per_interface=6,
    )
    assert ec2_documents.instance_type(kind(["i386", "x86_64"])) == want


@pytest.mark.parametrize(
    ("gpus", "want"),
    [
        ([{"Manufacturer": "NVIDIA", "Name": "L4", "Count": 4}], (4, "L4")),
        ([{"Manufacturer": "AMD", "Name": "Radeon", "Count": 4}], (0, None)),
        ([{"Manufacturer": "Nvidia", "Name": "L4", "Count": 1}, {"Manufacturer": "NVIDIA", "Count": 2}], (3, "L4")),
        ([{"Manufacturer": "NVIDIA", "Name": "L4", "Count": 0, "LogicalGpuCount": 1}], (1, "L4")),
    ],
)
def test_gpus_of_nvidia_are_counted_as_a_node_sees_them(
    gpus: list[dict[str, Any]], want: tuple[int, str | None]
) -> None:
    found = ec2_documents.instance_type(kind(["arm64"], gpus))
    assert found is not None
    assert (found.gpus, found.gpu_name) == want
