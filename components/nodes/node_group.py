"""One Auto Scaling group with its launch template: one pool, one zone, one instance type.

Bounds, tags and the template belong to the stack. Desired capacity belongs to the runtime: it is never sent, and a
difference in it is none. Every instance is protected from scale-in, so that neither a lower bound nor a lower desired
capacity ends an instance with work on it; the runtime ends instances by name, which protection does not hinder.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_aws as aws

from autoscaler.api import keys
from autoscaler.api.resources.pools import CapacityType
from autoscaler.api.settings.node_groups import NodeGroupSpec
from components.config.node_pools import SERVICES, NodePool, RootVolume
from components.place import Place

ROOT_DEVICE: Final = "/dev/xvda"
"""The root disk of EKS' images and of Debian's."""
WAIT: Final = "10m"
NO_WAIT: Final = "0"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroupArgs:
    """Which instances, and what they start with."""

    place: Place
    spec: NodeGroupSpec
    pool: NodePool
    image_id: pulumi.Input[str]
    """An image, or resolve:ssm: and a parameter that holds one."""
    user_data: pulumi.Input[str]
    """As base64. Whoever can describe the template can read it: it must not hold a secret."""
    subnet_id: pulumi.Input[str]
    security_group_ids: Sequence[pulumi.Input[str]]
    instance_profile_arn: pulumi.Input[str]
    after: Sequence[pulumi.Resource] = ()
    """What an instance needs to become a node."""


class NodeGroup(pulumi.ComponentResource):
    """A launch template and an Auto Scaling group, both under the node group's name."""

    def __init__(self, name: str, args: NodeGroupArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("sluice:index:NodeGroup", name, None, opts)
        spec = args.spec
        self.template = self._template(name, args)
        self.group = aws.autoscaling.Group(
            name,
            name=spec.name,
            min_size=spec.minimum,
            max_size=spec.maximum,
            vpc_zone_identifiers=[args.subnet_id],
            launch_template=aws.autoscaling.GroupLaunchTemplateArgs(
                id=self.template.id, version=self.template.latest_version.apply(str)
            ),
            protect_from_scale_in=True,
            capacity_rebalance=False,  # it would end instances on its own
            health_check_type="EC2",
            force_delete=True,  # instances at the minimum stay until the end, and are protected; they were drained
            wait_for_capacity_timeout=wait(args.pool, spec),
            tags=group_tags(spec.tags),
            opts=pulumi.ResourceOptions(parent=self, depends_on=args.after, ignore_changes=["desiredCapacity"]),
        )
        self.register_outputs({"name": self.group.name})

    def _template(self, name: str, args: NodeGroupArgs) -> aws.ec2.LaunchTemplate:
        tags = instance_tags(args.spec.tags)
        return aws.ec2.LaunchTemplate(
            name,
            name=args.spec.name,
            update_default_version=True,
            image_id=args.image_id,
            instance_type=args.spec.key.instance_type,
            user_data=args.user_data,
            iam_instance_profile=aws.ec2.LaunchTemplateIamInstanceProfileArgs(arn=args.instance_profile_arn),
            instance_market_options=_market(args.spec.capacity_type),
            metadata_options=aws.ec2.LaunchTemplateMetadataOptionsArgs(
                http_endpoint="enabled",
                http_tokens="required",
                http_put_response_hop_limit=1,  # a pod is one hop further away
                http_protocol_ipv6="disabled",
                instance_metadata_tags="disabled",
            ),
            network_interfaces=[
                aws.ec2.LaunchTemplateNetworkInterfaceArgs(
                    device_index=0,
                    associate_public_ip_address="false",
                    delete_on_termination="true",
                    security_groups=args.security_group_ids,
                )
            ],
            block_device_mappings=[_root_disk(args.pool.root_volume)],
            monitoring=aws.ec2.LaunchTemplateMonitoringArgs(enabled=False),
            tag_specifications=[
                aws.ec2.LaunchTemplateTagSpecificationArgs(resource_type=kind, tags=tags)
                for kind in ("instance", "network-interface", "volume")
            ],
            tags={**args.place.owned, keys.INSTANCE_POOL: args.spec.key.pool},
            opts=pulumi.ResourceOptions(parent=self),
        )


def wait(pool: NodePool, spec: NodeGroupSpec) -> str:
    """Say how long to wait for instances: for those of services, since add-ons need them; for no others."""
    return WAIT if pool.node_type == SERVICES and spec.minimum else NO_WAIT


def instance_tags(tags: Mapping[str, str]) -> dict[str, str]:
    """Choose the tags that instances and disks carry too: whose they are, and who pays. Others speak of the group."""
    return {key: value for key, value in sorted(tags.items()) if not key.startswith(keys.TAG_AUTOSCALER)}


def group_tags(tags: Mapping[str, str]) -> list[aws.autoscaling.GroupTagArgs]:
    """Write all tags of a group, in order, so that no preview shows them shuffled."""
    carried = instance_tags(tags)
    return [
        aws.autoscaling.GroupTagArgs(key=key, value=value, propagate_at_launch=key in carried)
        for key, value in sorted(tags.items())
    ]


def _market(capacity_type: CapacityType) -> aws.ec2.LaunchTemplateInstanceMarketOptionsArgs | None:
    match capacity_type:
        case CapacityType.ON_DEMAND:
            return None
        case CapacityType.SPOT:
            return aws.ec2.LaunchTemplateInstanceMarketOptionsArgs(market_type="spot")


def _root_disk(volume: RootVolume) -> aws.ec2.LaunchTemplateBlockDeviceMappingArgs:
    return aws.ec2.LaunchTemplateBlockDeviceMappingArgs(
        device_name=ROOT_DEVICE,
        ebs=aws.ec2.LaunchTemplateBlockDeviceMappingEbsArgs(
            encrypted="true",
            delete_on_termination="true",
            volume_type="gp3",
            volume_size=volume.size_gib,
            iops=volume.iops,
            throughput=volume.throughput_mib,
        ),
    )
