"""Auto Scaling groups in a plane's moto, tagged as the stack tags them."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from tests.e2e import waiting
from tools.local import fleet_cloud, fleet_nodes
from tools.local.plane import Plane

IMAGE = "ami-12c6146b"  # one that moto brings along

# Making a client takes boto3 a third of a second.
_autoscaling = functools.cache(fleet_cloud.autoscaling_client)
_ec2 = functools.cache(fleet_cloud.ec2_client)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """One group of a plane, and the nodes the fleet made of it."""

    plane: Plane
    name: str

    def set_desired(self, count: int) -> None:
        client = _autoscaling(self.plane.aws_endpoint, self.plane.region)
        client.set_desired_capacity(AutoScalingGroupName=self.name, DesiredCapacity=count)

    def nodes(self) -> list[Any]:
        listed = self.plane.api.get("/api/v1/nodes", {"labelSelector": f"group={self.name}"})
        return list(listed["items"])

    def wait_for_nodes(self, count: int, *, within_seconds: float = 20.0) -> list[Any]:
        """Wait until exactly so many nodes are there, Ready and free of the taint every new node starts with."""

        def settled() -> bool:
            nodes = self.nodes()
            states = [is_schedulable(node) for node in nodes]
            assert states == [True] * count, f"{count} nodes wanted, schedulable: {states}"
            return True

        waiting.eventually(settled, within_seconds=within_seconds)
        return self.nodes()

    def delete(self) -> None:
        client = _autoscaling(self.plane.aws_endpoint, self.plane.region)
        client.delete_auto_scaling_group(AutoScalingGroupName=self.name, ForceDelete=True)


def create(
    plane: Plane,
    name: str,
    *,
    instance_type: str = "m5.large",
    zone: str = "a",
    desired: int = 0,
    template_tags: Mapping[str, str] | None = None,
) -> NodeGroup:
    """Make a launch template and a group of one zone; its nodes carry the label `group=<name>`."""
    ec2 = _ec2(plane.aws_endpoint, plane.region)
    ec2.create_launch_template(
        LaunchTemplateName=name,
        LaunchTemplateData={"ImageId": IMAGE, "InstanceType": instance_type},  # type: ignore[typeddict-item]
    )
    tags = {
        fleet_nodes.ENABLED_TAG: "true",
        f"{fleet_nodes.LABEL_TAG}group": name,
        **(template_tags or {}),
    }
    _autoscaling(plane.aws_endpoint, plane.region).create_auto_scaling_group(
        AutoScalingGroupName=name,
        MinSize=0,
        MaxSize=20,
        DesiredCapacity=desired,
        AvailabilityZones=[f"{plane.region}{zone}"],
        LaunchTemplate={"LaunchTemplateName": name},
        Tags=[
            {"ResourceId": name, "ResourceType": "auto-scaling-group", "Key": key, "Value": value}
            for key, value in tags.items()
        ],
    )
    return NodeGroup(plane=plane, name=name)


def is_schedulable(node: Any) -> bool:
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in node["status"].get("conditions", []))
    fresh = any(taint["key"] == "node.kubernetes.io/not-ready" for taint in node["spec"].get("taints", []))
    return ready and not fresh
