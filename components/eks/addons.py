"""EKS' add-ons: what nodes need to talk, and what the cluster's own services need to run.

The first ones have no pods without nodes, so they come before any node and every node finds them. The others wait for
the nodes they run on. What runs once for the whole cluster runs on node.type=k8s-services, never beside work.

The cluster is new, so an add-on meets nothing when it is made, and would rather fail than take something over. Later
the stack's config is right: what was changed by hand is written over with the next change of the add-on.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pulumi
import pulumi_aws as aws

from components import specs
from components.access import policies
from components.config.clusters import Addon, AddonName
from components.eks import pod_identity
from components.place import Place

NAMESPACE: Final = "kube-system"
ENFORCING: Final[Mapping[str, Any]] = {"enableNetworkPolicy": "true"}
"""Without this the VPC CNI takes NetworkPolicies and does nothing about them. A text: the add-on takes no boolean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddonsArgs:
    """Which cluster, and which versions."""

    place: Place
    cluster: pod_identity.Named
    versions: Mapping[AddonName, Addon] = field(default_factory=dict)
    """Pinned versions; EKS chooses for the others when it makes them."""
    after: Sequence[pulumi.Resource] = ()


class NetworkingAddons(pulumi.ComponentResource):
    """Addresses for pods, Services, and roles for pods: on every node, before it is Ready."""

    def __init__(self, name: str, args: AddonsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("sluice:index:NetworkingAddons", name, None, opts)
        rights = _role(self, f"{name}.cni", args, service_account="aws-node", policy=policies.Managed.EKS_CNI)
        identity = _addon(self, name, args, AddonName.POD_IDENTITY)
        self.ready: list[pulumi.Resource] = [
            identity,
            _addon(self, name, args, AddonName.VPC_CNI, values=ENFORCING, after=[identity, *rights.ready]),
            _addon(self, name, args, AddonName.KUBE_PROXY),
        ]
        self.register_outputs({})


class ServicesAddons(pulumi.ComponentResource):
    """Names for Services, and disks. They need nodes of the services pools, which `after` brings."""

    def __init__(self, name: str, args: AddonsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("sluice:index:ServicesAddons", name, None, opts)
        rights = _role(
            self, f"{name}.ebs", args, service_account="ebs-csi-controller-sa", policy=policies.Managed.EBS_CSI
        )
        self.ready: list[pulumi.Resource] = [
            _addon(self, name, args, AddonName.COREDNS, values=specs.ON_SERVICES),
            _addon(self, name, args, AddonName.EBS_CSI, values={"controller": specs.ON_SERVICES}, after=rights.ready),
        ]
        self.register_outputs({})


def _role(
    parent: pulumi.Resource, name: str, args: AddonsArgs, *, service_account: str, policy: policies.Managed
) -> pod_identity.PodRole:
    return pod_identity.PodRole(
        name,
        pod_identity.PodRoleArgs(
            place=args.place,
            cluster=args.cluster,
            namespace=NAMESPACE,
            service_account=service_account,
            managed_policy_arns={policy.name.lower(): policy.arn(args.place.partition)},
        ),
        pulumi.ResourceOptions(parent=parent),
    )


def _addon(
    parent: pulumi.Resource,
    name: str,
    args: AddonsArgs,
    addon: AddonName,
    *,
    values: Mapping[str, Any] | None = None,
    after: Sequence[pulumi.Resource] = (),
) -> aws.eks.Addon:
    pinned = args.versions.get(addon)
    return aws.eks.Addon(
        f"{name}.{addon}",
        cluster_name=args.cluster.name,
        addon_name=addon.value,
        addon_version=pinned.version if pinned else None,
        configuration_values=json.dumps(values, sort_keys=True) if values else None,
        resolve_conflicts_on_create="NONE",
        resolve_conflicts_on_update="OVERWRITE",
        tags=args.place.owned,
        opts=pulumi.ResourceOptions(parent=parent, depends_on=[*args.after, *after]),
    )
