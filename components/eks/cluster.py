"""The cluster: a new control plane of EKS or one that is there already, and the way into it.

What comes after knows a cluster by its `Access` alone. Nobody gets into a new cluster but by the entries made here, not
even who makes it: EKS would make an entry of its own, beside which none for the same role can be made. So the config's
administrators must include whoever runs `pulumi up`.
"""

import ipaddress
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as k8s

from autoscaler.api import keys
from components.access import policies
from components.config import clusters, network, reading
from components.eks import kubeconfigs
from components.networking.network import Network
from components.place import Place

SERVICE_CIDR: Final = "172.20.0.0/16"
"""Addresses of Services where the config gives none: fixed, so that no node has to look them up."""
OTHER_SERVICE_CIDR: Final = "10.100.0.0/16"
KEY_DELETION_DAYS: Final = 7
"""The least that KMS allows: what the key encrypted went with the cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The way into a cluster, and what nodes need to join it."""

    name: pulumi.Input[str]
    """The cluster's name, as its nodes say it."""
    eks_name: pulumi.Input[str] | None
    """Its name in EKS; None where it is no cluster of EKS."""
    endpoint: pulumi.Input[str] | None
    """None on a cluster whose config does not say how to join; then it has no pools."""
    api_servers: Sequence[pulumi.Input[str]]
    """URLs of the API server, as far as the stack knows them; some may turn out to be empty."""
    certificate_authority: pulumi.Input[str] | None
    service_cidr: str | None
    security_group_ids: Sequence[pulumi.Input[str]]
    """Groups by which nodes and control plane talk."""
    kubernetes: k8s.Provider
    definitions: k8s.Provider
    """For custom resource definitions: it takes over those that are there, which another stack may have left."""
    kubeconfig_command: pulumi.Output[str]
    ready: Sequence[pulumi.Resource]
    """What must be there before anything is put into the cluster, and stay until everything is out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """How AWS knows a cluster. It is known before there is a way in."""

    name: pulumi.Input[str]
    eks_name: pulumi.Input[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class EksClusterArgs:
    """What to make, and where."""

    place: Place
    config: clusters.Cluster
    network: Network
    caller: kubeconfigs.Caller = kubeconfigs.ITSELF
    """As whom the stack acts in the cluster."""


class EksCluster(pulumi.ComponentResource):
    """A control plane of EKS. Its nodes and add-ons are made elsewhere."""

    def __init__(self, name: str, args: EksClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("sluice:index:EksCluster", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        role = aws.iam.Role(
            f"{name}.control-plane",
            assume_role_policy=json.dumps(policies.cluster_trust(args.place)),
            tags=args.place.owned,
            opts=child,
        )
        rights = aws.iam.RolePolicyAttachment(
            f"{name}.control-plane",
            role=role.name,
            policy_arn=policies.Managed.EKS_CLUSTER.arn(args.place.partition),
            opts=child,
        )
        key = aws.kms.Key(
            f"{name}.secrets",
            description=f"Secrets of cluster {args.place.cluster}",
            enable_key_rotation=True,
            deletion_window_in_days=KEY_DELETION_DAYS,
            policy=role.arn.apply(lambda arn: json.dumps(policies.kms_key(args.place, cluster_role_arn=arn))),
            tags=args.place.owned,
            opts=child,
        )
        logs = aws.cloudwatch.LogGroup(  # under the name that EKS would use: made here, it goes with the stack
            f"{name}.control-plane",
            name=f"/aws/eks/{args.place.cluster}/cluster",
            retention_in_days=args.config.logs.retention_days,
            tags=args.place.owned,
            opts=child,
        )
        self.cluster = self._control_plane(name, args, role=role, key=key, after=[rights, logs])
        self.identity = Identity(name=self.cluster.name, eks_name=self.cluster.name)
        self.entries = list(_entries(name, args.place, args.config.access, self.cluster.name, parent=self))
        self._name, self._args = name, args
        self.register_outputs({"name": self.cluster.name, "endpoint": self.cluster.endpoint})

    def _control_plane(
        self,
        name: str,
        args: EksClusterArgs,
        *,
        role: aws.iam.Role,
        key: aws.kms.Key,
        after: Sequence[pulumi.Resource],
    ) -> aws.eks.Cluster:
        config = args.config
        return aws.eks.Cluster(
            name,
            name=args.place.cluster,
            version=config.kubernetes_version,
            role_arn=role.arn,
            access_config=aws.eks.ClusterAccessConfigArgs(
                authentication_mode="API", bootstrap_cluster_creator_admin_permissions=False
            ),
            bootstrap_self_managed_addons=False,
            enabled_cluster_log_types=sorted(config.logs.types),
            encryption_config=aws.eks.ClusterEncryptionConfigArgs(
                provider=aws.eks.ClusterEncryptionConfigProviderArgs(key_arn=key.arn), resources=["secrets"]
            ),
            kubernetes_network_config=aws.eks.ClusterKubernetesNetworkConfigArgs(
                ip_family="ipv4", service_ipv4_cidr=service_cidr(config.network)
            ),
            upgrade_policy=aws.eks.ClusterUpgradePolicyArgs(support_type="STANDARD"),
            vpc_config=aws.eks.ClusterVpcConfigArgs(
                subnet_ids=args.network.control_plane_subnet_ids,
                endpoint_private_access=True,
                endpoint_public_access=config.endpoint.public,
                public_access_cidrs=sorted(config.endpoint.allowed_cidrs) if config.endpoint.public else None,
            ),
            deletion_protection=config.protect,
            tags=args.place.owned,
            opts=pulumi.ResourceOptions(parent=self, depends_on=after, protect=config.protect),
        )

    def connect(self, *, after: Sequence[pulumi.Resource]) -> Access:
        """Make the way in, once its entries and the networking add-ons are there.

        A provider reads the API's schema once, at its start. An entry takes a moment until it works, and a refusal
        then would make the cluster unreachable for the whole `up`; the add-ons take longer than that.
        """
        args, entries, cluster = self._args, self.entries, self.cluster
        region = args.place.region
        authority = cluster.certificate_authority.apply(lambda found: found.data or "")
        kubeconfig = pulumi.Output.all(cluster.name, cluster.endpoint, authority).apply(
            lambda found: kubeconfigs.of_eks(
                cluster=found[0],
                region=region,
                endpoint=found[1],
                certificate_authority=found[2],
                caller=args.caller,
            )
        )
        ways = _Providers(
            self, self._name, after=[*entries, *after], kubeconfig=kubeconfig, identifier=cluster.endpoint
        )
        return Access(
            name=cluster.name,
            eks_name=cluster.name,
            endpoint=cluster.endpoint,
            api_servers=[cluster.endpoint],
            certificate_authority=authority,
            service_cidr=service_cidr(args.config.network),
            security_group_ids=[cluster.vpc_config.apply(lambda found: found.cluster_security_group_id or "")],
            kubernetes=ways.kubernetes,
            definitions=ways.definitions,
            kubeconfig_command=cluster.name.apply(lambda found: kubeconfigs.eks_command(found, region)),
            ready=entries,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingClusterArgs:
    """Which cluster."""

    place: Place
    config: clusters.Cluster
    existing: clusters.Existing


class ExistingCluster(pulumi.ComponentResource):
    """A cluster that is there already. Nothing of it is changed but who may use it, where the config says so."""

    def __init__(self, name: str, args: ExistingClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("sluice:index:ExistingCluster", name, None, opts)
        existing, join, place = args.existing, args.existing.join, args.place
        entries: list[pulumi.Resource] = []
        command = kubeconfigs.existing_command(secret=existing.kubeconfig, context=existing.context)
        if existing.eks_cluster is not None:
            entries += _entries(name, place, args.config.access, existing.eks_cluster, parent=self)
            command = kubeconfigs.eks_command(existing.eks_cluster, place.region)
        kubeconfig = reading.secret(existing.kubeconfig) if existing.kubeconfig else None
        ways = _Providers(
            self,
            name,
            after=entries,
            kubeconfig=kubeconfig,
            context=existing.context,
            identifier=place.cluster,  # a new kubeconfig for the same cluster must not replace what is in it
        )
        self.access = Access(
            name=existing.eks_cluster or place.cluster,
            eks_name=existing.eks_cluster,
            endpoint=join.endpoint if join else None,
            api_servers=list(_api_servers(existing, kubeconfig)),
            certificate_authority=join.certificate_authority if join else None,
            service_cidr=join.service_cidr if join else None,
            security_group_ids=join.security_group_ids if join else (),
            kubernetes=ways.kubernetes,
            definitions=ways.definitions,
            kubeconfig_command=pulumi.Output.from_input(command),
            ready=entries,
        )
        self.register_outputs({})


def _api_servers(existing: clusters.Existing, kubeconfig: pulumi.Output[str] | None) -> Iterator[pulumi.Input[str]]:
    """Name the API server of an existing cluster in every way that is known. An address is no secret."""
    yield from existing.api_servers
    if existing.join is not None:
        yield existing.join.endpoint
    if kubeconfig is not None:
        yield pulumi.Output.unsecret(kubeconfig.apply(lambda text: kubeconfigs.server(text, existing.context) or ""))


def service_cidr(config: network.Network | None) -> str:
    """Take the addresses of Services that the config gives, or some that are not the network's.

    Those of an adopted network are not known here: only the config can keep clear of them.
    """
    if config is not None and config.service_cidr is not None:
        return config.service_cidr
    taken = config.cidr if config is not None else None
    if taken and ipaddress.IPv4Network(taken).overlaps(ipaddress.IPv4Network(SERVICE_CIDR)):
        return OTHER_SERVICE_CIDR
    return SERVICE_CIDR


class _Providers:
    """The two ways in: what uses them waits for the entries, and leaves before them."""

    def __init__(
        self,
        parent: pulumi.Resource,
        name: str,
        *,
        after: Sequence[pulumi.Resource],
        kubeconfig: pulumi.Input[str] | None,
        identifier: pulumi.Input[str],
        context: str | None = None,
    ) -> None:

        def way(suffix: str, *, takes_over: bool | None = None) -> k8s.Provider:
            return k8s.Provider(
                f"{name}.{suffix}",
                kubeconfig=kubeconfig,
                context=context,
                cluster_identifier=identifier,
                # A rotated pull secret is changed in place, and no pod starts in a moment without it.
                enable_secret_mutable=True,
                enable_config_map_mutable=True,
                upsert_existing_objects=takes_over,
                enable_patch_force=takes_over,
                opts=pulumi.ResourceOptions(parent=parent, depends_on=after),
            )

        self.kubernetes = way("kubernetes")
        self.definitions = way("definitions", takes_over=True)


def _entries(
    name: str, place: Place, access: clusters.Access, cluster: pulumi.Input[str], *, parent: pulumi.Resource
) -> Iterator[pulumi.Resource]:
    """Let the config's roles and users in. Each has one entry, however many of the lists it is in."""
    levels = {"admin": access.admins, "viewer": access.viewers}
    groups = {keys.DEPLOYERS_GROUP: access.admins, keys.VIEWERS_GROUP: access.viewers}
    child = pulumi.ResourceOptions(parent=parent)
    entries: dict[str, aws.eks.AccessEntry] = {}
    for principal in sorted({*access.admins, *access.viewers}):
        entries[principal] = aws.eks.AccessEntry(
            f"{name}.{_short(principal)}",
            cluster_name=cluster,
            principal_arn=principal,
            type="STANDARD",
            kubernetes_groups=[group for group, members in groups.items() if principal in members],
            tags=place.owned,
            opts=child,
        )
        yield entries[principal]
    for level, principals in levels.items():
        for principal in sorted(set(principals)):
            yield aws.eks.AccessPolicyAssociation(
                f"{name}.{level}.{_short(principal)}",
                cluster_name=cluster,
                principal_arn=principal,
                policy_arn=f"arn:{place.partition}:eks::aws:cluster-access-policy/{ACCESS_POLICIES[level]}",
                access_scope=aws.eks.AccessPolicyAssociationAccessScopeArgs(type="cluster"),
                opts=pulumi.ResourceOptions(parent=parent, depends_on=[entries[principal]]),
            )


ACCESS_POLICIES: Final[Mapping[str, str]] = {
    "admin": "AmazonEKSClusterAdminPolicy",
    "viewer": "AmazonEKSViewPolicy",  # AmazonEKSAdminViewPolicy would show Secrets
}


def _short(principal: str) -> str:
    """Name a principal by what tells it from others: account, kind and name."""
    return principal.partition(":iam::")[2]
