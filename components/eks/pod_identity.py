"""Roles that pods act under, by EKS Pod Identity: no key is stored anywhere, and none can be read from a node.

It must not decide what a role may do: its caller brings the policies.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import pulumi
import pulumi_aws as aws

from components.access import policies
from components.place import Place


class Named(Protocol):
    """A cluster, as AWS knows it."""

    @property
    def name(self) -> pulumi.Input[str]:
        """The cluster's name, as its nodes say it."""

    @property
    def eks_name(self) -> pulumi.Input[str] | None:
        """Its name in EKS; None where it is no cluster of EKS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRoleArgs:
    """Whose role, and what it may do."""

    place: Place
    cluster: Named
    namespace: str
    service_account: str
    policies: Mapping[str, pulumi.Input[str]] = field(default_factory=dict)
    """Policy documents, as JSON, by a name of their own."""
    managed_policy_arns: Mapping[str, str] = field(default_factory=dict)
    """Policies of AWS' own, by a name of their own."""
    after: Sequence[pulumi.Resource] = ()


class PodRole(pulumi.ComponentResource):
    """A role, and its tie to a ServiceAccount where the cluster is one of EKS."""

    def __init__(self, name: str, args: PodRoleArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("sluice:index:PodRole", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        self.role = aws.iam.Role(name, assume_role_policy=_trust(args), tags=args.place.owned, opts=child)
        self.grants: list[pulumi.Resource] = [
            aws.iam.RolePolicy(f"{name}.{key}", role=self.role.name, policy=document, opts=child)
            for key, document in args.policies.items()
        ]
        self.grants += [
            aws.iam.RolePolicyAttachment(f"{name}.{key}", role=self.role.name, policy_arn=arn, opts=child)
            for key, arn in args.managed_policy_arns.items()
        ]
        self.association = self._associate(name, args) if args.cluster.eks_name is not None else None
        self.register_outputs({})

    @property
    def ready(self) -> list[pulumi.Resource]:
        """What must be there before a pod of this ServiceAccount starts: EKS gives credentials at its start only."""
        return [*self.grants, *([self.association] if self.association else [])]

    def _associate(self, name: str, args: PodRoleArgs) -> aws.eks.PodIdentityAssociation:
        return aws.eks.PodIdentityAssociation(
            name,
            cluster_name=args.cluster.eks_name,
            namespace=args.namespace,
            service_account=args.service_account,
            role_arn=self.role.arn,
            tags=args.place.owned,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[*self.grants, *args.after]),
        )


def _trust(args: PodRoleArgs) -> pulumi.Output[str]:
    """Trust this ServiceAccount of this cluster; a name that is not in EKS trusts nobody."""

    def document(cluster: str) -> str:
        place = replace(args.place, cluster=cluster)
        return json.dumps(policies.pod_trust(place, namespace=args.namespace, service_account=args.service_account))

    return pulumi.Output.from_input(args.cluster.name).apply(document)
