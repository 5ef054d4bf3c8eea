"""The role of nodes, under which they join the cluster and pull images."""

import json
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components.access import policies
from components.eks.cluster import Access
from components.place import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRoleArgs:
    """Whose nodes."""

    place: Place
    access: Access
    cni: bool = False
    """Whether the cluster's VPC CNI acts under its nodes' role."""


class NodeRole(pulumi.ComponentResource):
    """What a node is before any pod runs on it: it may join, find its own instance, and pull images.

    EKS' minimal policy would not do: nodeadm asks EC2 for the instance's name and its type's network interfaces. There
    are rights for the VPC CNI only where it has no role of its own, and none for Session Manager, whose agent would be
    a way into every node.
    """

    def __init__(self, name: str, args: NodeRoleArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("sluice:index:NodeRole", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        place = args.place
        self.role = aws.iam.Role(
            name,
            assume_role_policy=json.dumps(policies.instance_trust(partition=place.partition)),
            tags=place.owned,
            opts=child,
        )
        grants = [
            aws.iam.RolePolicyAttachment(
                f"{name}.{policy.name.lower()}", role=self.role.name, policy_arn=policy.arn(place.partition), opts=child
            )
            for policy in (*policies.NODE, *((policies.Managed.EKS_CNI,) if args.cni else ()))
        ]
        self.profile = aws.iam.InstanceProfile(name, role=self.role.name, tags=place.owned, opts=child)
        self.ready: list[pulumi.Resource] = [*grants, self.profile]
        if args.access.eks_name is not None:
            self.ready.append(
                aws.eks.AccessEntry(
                    name,
                    cluster_name=args.access.eks_name,
                    principal_arn=self.role.arn,
                    type="EC2_LINUX",
                    tags=place.owned,
                    opts=child,
                )
            )
        self.register_outputs({"roleArn": self.role.arn})
