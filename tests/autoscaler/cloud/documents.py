"""AWS's documents as tests need them: builders that default everything."""

from datetime import UTC, datetime
from typing import Any

from autoscaler.api import keys

CLUSTER = "bench"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def tags(**more: str) -> dict[str, str]:
    return {
        keys.TAG_ENABLED: "true",
        keys.cluster_tag(CLUSTER): "owned",
        keys.INSTANCE_POOL: "batch",
        f"{keys.TAG_TEMPLATE_LABEL}{keys.INSTANCE_TYPE}": "m5.large",
        f"{keys.TAG_TEMPLATE_LABEL}{keys.ARCHITECTURE}": "amd64",
        **more,
    }


def group(name: str = "bench.batch.b", *, tagged: dict[str, str] | None = None, **more: Any) -> Any:
    return {
        "AutoScalingGroupName": name,
        "MinSize": 0,
        "MaxSize": 5,
        "DesiredCapacity": 0,
        "AvailabilityZones": ["eu-west-1b"],
        "Instances": [],
        "Tags": [{"Key": key, "Value": value} for key, value in (tags() if tagged is None else tagged).items()],
        "NewInstancesProtectedFromScaleIn": True,
        "LaunchTemplate": {"LaunchTemplateId": "lt-1", "Version": "3"},
        **more,
    }


def instance(identifier: str = "i-00000000000000001", **more: Any) -> Any:
    return {
        "InstanceId": identifier,
        "AvailabilityZone": "eu-west-1a",
        "LifecycleState": "InService",
        "HealthStatus": "Healthy",
        "ProtectedFromScaleIn": True,
        "InstanceType": "m5.large",
        "LaunchTemplate": {"LaunchTemplateId": "lt-1", "Version": "2"},
        **more,
    }


def activity(**more: Any) -> Any:
    return {
        "ActivityId": "a-1",
        "AutoScalingGroupName": "bench.batch.b",
        "Description": "Launching a new EC2 instance: i-00000000000000001",
        "Cause": "a difference",
        "StartTime": NOON,
        "StatusCode": "InProgress",
        **more,
    }
