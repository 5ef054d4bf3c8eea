"""Auto Scaling groups in a plane's moto, tagged as the stack tags them, made by hand for a try or a test."""

import dataclasses
import functools
import re
from collections.abc import Mapping

import botocore.exceptions

from autoscaler.cloud import catalogue
from tools.local.registrar import registrar_cloud, registrar_nodes

NAME = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")
IMAGE = "ami-12c6146b"  # one that moto brings along
LARGEST = 20
GROUP_LABEL = "group"

# Making a client takes boto3 a third of a second.
_autoscaling = functools.cache(registrar_cloud.autoscaling_client)
_ec2 = functools.cache(registrar_cloud.ec2_client)


class UnknownError(Exception):
    """Something was asked for that this plane's AWS does not have."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """The groups of one plane."""

    endpoint: str
    region: str

    def require(self, *, instance_type: str, zone: str) -> None:
        """Raise UnknownError, naming what is known, where there is no such instance type or zone."""
        ec2 = _ec2(self.endpoint, self.region)
        zones = [known["ZoneName"] for known in ec2.describe_availability_zones()["AvailabilityZones"]]
        if zone not in zones:
            raise UnknownError(f"there is no zone {zone}; there are {', '.join(zones)}")
        if instance_type in catalogue.bundled():
            return
        try:
            ec2.describe_instance_types(InstanceTypes=[instance_type])  # type: ignore[list-item]
        except botocore.exceptions.ClientError as error:
            raise UnknownError(f"there is no instance type {instance_type}: {error}") from error

    def exists(self, name: str) -> bool:
        answer = _autoscaling(self.endpoint, self.region).describe_auto_scaling_groups(AutoScalingGroupNames=[name])
        return bool(answer["AutoScalingGroups"])

    def create(
        self, name: str, *, instance_type: str, zone: str, desired: int = 0, tags: Mapping[str, str] | None = None
    ) -> None:
        """Make a launch template and a group of one zone; its nodes carry the label `group=<name>`."""
        _ec2(self.endpoint, self.region).create_launch_template(
            LaunchTemplateName=name,
            LaunchTemplateData={"ImageId": IMAGE, "InstanceType": instance_type},  # type: ignore[typeddict-item]
        )
        all_tags = {
            registrar_nodes.ENABLED_TAG: "true",
            f"{registrar_nodes.LABEL_TAG}{GROUP_LABEL}": name,
            **(tags or {}),
        }
        _autoscaling(self.endpoint, self.region).create_auto_scaling_group(
            AutoScalingGroupName=name,
            MinSize=0,
            MaxSize=LARGEST,
            DesiredCapacity=desired,
            AvailabilityZones=[zone],
            LaunchTemplate={"LaunchTemplateName": name},
            Tags=[
                {"ResourceId": name, "ResourceType": "auto-scaling-group", "Key": key, "Value": value}
                for key, value in all_tags.items()
            ],
        )

    def set_desired(self, name: str, count: int) -> None:
        _autoscaling(self.endpoint, self.region).set_desired_capacity(AutoScalingGroupName=name, DesiredCapacity=count)

    def delete(self, name: str) -> None:
        client = _autoscaling(self.endpoint, self.region)
        client.delete_auto_scaling_group(AutoScalingGroupName=name, ForceDelete=True)
