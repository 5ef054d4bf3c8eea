"""Auto Scaling groups in a plane's moto, tagged as the stack tags them, made by hand for a try or a test."""

import dataclasses
import functools
from collections.abc import Mapping

from tools.local import fleet_cloud, fleet_nodes

IMAGE = "ami-12c6146b"  # one that moto brings along
LARGEST = 20
GROUP_LABEL = "group"

# Making a client takes boto3 a third of a second.
_autoscaling = functools.cache(fleet_cloud.autoscaling_client)
_ec2 = functools.cache(fleet_cloud.ec2_client)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """The groups of one plane."""

    endpoint: str
    region: str

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
        all_tags = {fleet_nodes.ENABLED_TAG: "true", f"{fleet_nodes.LABEL_TAG}{GROUP_LABEL}": name, **(tags or {})}
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
