"""A node pool: its node groups with what their instances start with, and its budget.

Which groups there are is the grid's to say; here each gets its image, its bootstrap text and its subnet.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import pulumi

from autoscaler.api.settings.node_groups import NodeGroupKey, NodeGroupSpec
from components import userdata
from components.config.node_pools import NodePool as NodePoolConfig
from components.config.stack import Alarms
from components.eks.cluster import Access
from components.eks.node_role import NodeRole
from components.networking.network import Network
from components.nodes import budget, grid, node_group
from components.place import Place

BY_PARAMETER: Final = "resolve:ssm:"
"""EC2 looks the image up when it launches; nobody has to do it before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePoolArgs:
    """A pool, its groups, and the cluster they join."""

    place: Place
    pool_name: str
    config: NodePoolConfig
    groups: Sequence[NodeGroupSpec]
    access: Access
    network: Network
    node_role: NodeRole
    release: str | None = None
    """The release of EKS' image; needed where the pool has no image of its own."""
    image_parameter: pulumi.Input[str] | None = None
    """The parameter with the image of the pool's pipeline; needed where it has one."""
    alarms: Alarms = field(default_factory=Alarms)
    after: Sequence[pulumi.Resource] = ()
    """What must be there before an instance can become a node: the networking add-ons."""


class NodePool(pulumi.ComponentResource):
    """Auto Scaling groups for a pool's zones and types."""

    def __init__(self, name: str, args: NodePoolArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("sluice:index:NodePool", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        self.groups = {
            spec.key: node_group.NodeGroup(_logical(name, spec.key), _group_args(args, spec), child)
            for spec in args.groups
        }
        cost = args.config.limits.target_max_cost_per_month
        if cost is not None:
            budget.PoolBudget(
                name,
                budget.PoolBudgetArgs(
                    place=args.place, pool_name=args.pool_name, monthly_cost=cost, alarms=args.alarms
                ),
                child,
            )
        self.register_outputs({})

    @property
    def ready(self) -> list[pulumi.Resource]:
        """The Auto Scaling groups themselves."""
        return [made.group for made in self.groups.values()]


def image_id(args: NodePoolArgs, spec: NodeGroupSpec) -> pulumi.Input[str]:
    """Choose the image: the pool's own, its pipeline's newest, or the pinned release that fits the type."""
    image = args.config.image
    if image is not None and image.image_id is not None:
        return image.image_id
    if image is not None:
        if args.image_parameter is None:
            raise ValueError(f"node pool {args.pool_name}: its pipeline {image.pipeline} has no parameter")
        return pulumi.Output.concat(BY_PARAMETER, args.image_parameter)
    if args.release is None:
        raise ValueError(f"node pool {args.pool_name}: give nodeImage.release, or an image of its own")
    return BY_PARAMETER + userdata.image_parameter(args.release, spec.architecture, gpu=spec.gpus > 0)


def user_data(args: NodePoolArgs, spec: NodeGroupSpec) -> pulumi.Output[str]:
    """Write how an instance of the group becomes a node, as base64."""
    debian = args.config.image is not None and args.config.image.pipeline is not None
    render = userdata.debian if debian else userdata.al2023

    def written(found: Sequence[str]) -> str:
        bootstrap = userdata.NodeBootstrap(
            cluster=found[0],
            region=args.place.region,
            endpoint=found[1],
            certificate_authority=found[2],
            service_cidr=args.access.service_cidr or "",
            labels=grid.registered_labels(spec),
            taints=(*spec.taints, *args.config.startup_taints),
            max_pods=spec.max_pods,
            vcpus=spec.vcpus,
        )
        return base64.b64encode(render(bootstrap).encode()).decode()

    access = args.access
    return pulumi.Output.all(access.name, access.endpoint, access.certificate_authority).apply(written)


def _group_args(args: NodePoolArgs, spec: NodeGroupSpec) -> node_group.NodeGroupArgs:
    return node_group.NodeGroupArgs(
        place=args.place,
        spec=spec,
        pool=args.config,
        image_id=image_id(args, spec),
        user_data=user_data(args, spec),
        subnet_id=args.network.subnet_ids[spec.key.zone],
        security_group_ids=[*args.access.security_group_ids, *args.config.security_group_ids],
        instance_profile_arn=args.node_role.profile.arn,
        after=[*args.network.ready, *args.node_role.ready, *args.after],
    )


def _logical(name: str, key: NodeGroupKey) -> str:
    return f"{name}.{key.zone}.{key.instance_type}"
