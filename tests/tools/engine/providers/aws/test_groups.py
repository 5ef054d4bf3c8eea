"""Auto Scaling groups: what the program does not give is never sent."""

from typing import Any

from tests.tools.engine import builders
from tests.tools.engine.providers.aws import fakes
from tools.engine.providers.aws import groups

LIVE: dict[str, Any] = {
    "AutoScalingGroupARN": "arn:g",
    "AutoScalingGroupName": "g",
    "MinSize": 0,
    "MaxSize": 3,
    "DesiredCapacity": 2,
    "AvailabilityZones": ["eu-west-1a"],
    "VPCZoneIdentifier": "subnet-1",
    "NewInstancesProtectedFromScaleIn": True,
    "LaunchTemplate": {"LaunchTemplateId": "lt-1", "LaunchTemplateName": "t", "Version": "1"},
    "Tags": [{"Key": "b", "Value": "2", "PropagateAtLaunch": False}, {"Key": "a", "Value": "1"}],
    "Instances": [{"InstanceId": "i-1"}],
}
TAGS = [{"key": "a", "value": "1", "propagateAtLaunch": False}, {"key": "b", "value": "2", "propagateAtLaunch": False}]
INPUTS: dict[str, Any] = {
    "name": "g",
    "minSize": 0,
    "maxSize": 3,
    "vpcZoneIdentifiers": ["subnet-1"],
    "protectFromScaleIn": True,
    "launchTemplate": {"id": "lt-1", "version": "1"},
    "tags": TAGS,
    "forceDelete": True,
}


def aws(**changed: Any) -> fakes.FakeCloud:
    return fakes.FakeCloud({"describe_auto_scaling_groups": {"AutoScalingGroups": [LIVE | changed]}})


def test_a_creation_sends_no_desired_capacity() -> None:
    cloud = aws()
    state = groups.create(cloud, builders.create(groups.TYPE, INPUTS))

    [(operation, arguments)] = cloud.writes
    assert operation == "create_auto_scaling_group"
    assert "DesiredCapacity" not in arguments
    assert arguments["VPCZoneIdentifier"] == "subnet-1"
    assert arguments["LaunchTemplate"] == {"LaunchTemplateId": "lt-1", "Version": "1"}
    assert [tag["Key"] for tag in arguments["Tags"]] == ["a", "b"]
    assert state.outputs["desiredCapacity"] == 2


def test_an_update_sends_what_changed_alone() -> None:
    cloud = aws()
    new = INPUTS | {"maxSize": 5, "tags": [TAGS[0] | {"value": "9"}]}
    groups.update(cloud, builders.update(groups.TYPE, INPUTS, new))

    update, put, removed = cloud.writes
    assert update == ("update_auto_scaling_group", {"AutoScalingGroupName": "id", "MaxSize": 5})
    assert (put[0], [tag["Key"] for tag in put[1]["Tags"]]) == ("create_or_update_tags", ["a"])
    assert (removed[0], [tag["Key"] for tag in removed[1]["Tags"]]) == ("delete_tags", ["b"])


def test_an_update_of_what_aws_does_not_know_sends_nothing() -> None:
    cloud = aws()
    groups.update(cloud, builders.update(groups.TYPE, INPUTS, INPUTS | {"forceDelete": False}))
    assert cloud.writes == []


def test_a_read_tells_desired_as_an_output_and_not_as_an_input() -> None:
    found = groups.read(aws(DesiredCapacity=7), builders.read(groups.TYPE, INPUTS))
    assert found is not None
    assert found.inputs == INPUTS
    assert found.outputs["desiredCapacity"] == 7


def test_a_read_tells_drift_in_what_the_program_gives() -> None:
    inputs = INPUTS | {"desiredCapacity": 2}
    found = groups.read(aws(DesiredCapacity=7, MaxSize=9), builders.read(groups.TYPE, inputs))
    assert found is not None
    assert found.inputs == INPUTS | {"desiredCapacity": 7, "maxSize": 9}


def test_a_group_that_is_gone_is_told() -> None:
    gone = fakes.FakeCloud({"describe_auto_scaling_groups": {"AutoScalingGroups": []}})
    assert groups.read(gone, builders.read(groups.TYPE, INPUTS)) is None
    groups.delete(gone, builders.delete(groups.TYPE, INPUTS))
    assert gone.writes == []


def test_a_forced_deletion_takes_the_protected_instances_along() -> None:
    cloud = aws()
    groups.delete(cloud, builders.delete(groups.TYPE, INPUTS))
    assert [name for name, _ in cloud.writes] == ["delete_auto_scaling_group", "terminate_instances"]
