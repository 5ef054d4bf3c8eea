"""A cluster: made by the stack, or there already; and everything in it."""

import base64
import binascii
import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from autoscaler.api import node_resources, version
from autoscaler.api.resources.types import DnsLabel, Labels
from components.config.autoscaler import Autoscaler
from components.config.base import (
    Cidr,
    IamPrincipal,
    KubernetesVersion,
    Problem,
    SecretName,
    Section,
    SecurityGroupId,
    absent,
)
from components.config.network import Network, service_problems
from components.config.node_pools import NodePools
from components.config.objects import Objects
from components.config.validation import checks

NAME_MAX: Final = 60
"""A cluster's name begins the names of its roles, queues and rules, of which AWS allows 64 characters and more."""

ClusterName = Annotated[str, Field(max_length=NAME_MAX, pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]
"""A cluster's name in AWS. EKS allows 100 characters, Sluice 60."""


def _base64(text: str) -> str:
    try:
        base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ValueError("must be base64") from None
    return text


class LogType(StrEnum):
    API = "api"
    AUDIT = "audit"
    AUTHENTICATOR = "authenticator"
    CONTROLLER_MANAGER = "controllerManager"
    SCHEDULER = "scheduler"


class Endpoint(Section):
    """From where the API server of a new cluster can be reached."""

    public: bool = False
    """false: from inside the network alone; then `pulumi up` needs a way in, such as a VPN or a runner there."""
    allowed_cidrs: Annotated[tuple[Cidr, ...], Field(max_length=40)] = ()
    """Who may reach a public one."""

    def problems(self) -> Iterator[Problem]:
        if self.public and not self.allowed_cidrs:
            yield absent("allowedCidrs", message="must be given where public is true; 0.0.0.0/0 lets everybody in")
        if not self.public and self.allowed_cidrs:
            yield Problem(path=("allowedCidrs",), value=list(self.allowed_cidrs), message="goes with public: true")


class Logs(Section):
    """The control plane's logs."""

    types: Annotated[tuple[LogType, ...], Field(max_length=5)] = tuple(LogType)
    """Which ones are kept. Default: all of them."""
    retention_days: Annotated[int, Field(ge=1, le=2922)] = 30
    """For how long: one of the periods that CloudWatch knows."""

    def problems(self) -> Iterator[Problem]:
        if self.retention_days not in checks.RETENTION_DAYS:
            known = ", ".join(str(days) for days in checks.RETENTION_DAYS)
            yield Problem(path=("retentionDays",), value=self.retention_days, message=f"must be one of {known}")


class Access(Section):
    """Who may use the cluster, by IAM."""

    admins: Annotated[tuple[IamPrincipal, ...], Field(max_length=64)] = ()
    """Roles and users that may do everything. A new cluster needs the one that runs `pulumi up` among them."""
    viewers: Annotated[tuple[IamPrincipal, ...], Field(max_length=64)] = ()
    """Roles and users that may read everything but Secrets, our own objects and nodes included."""


class Addon(Section):
    """An add-on of EKS."""

    version: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^v[0-9][0-9A-Za-z.+-]*$")] | None = None
    """Its version. Default: what EKS chooses when the cluster is made."""


class AddonName(StrEnum):
    VPC_CNI = "vpc-cni"
    KUBE_PROXY = "kube-proxy"
    POD_IDENTITY = "eks-pod-identity-agent"
    COREDNS = "coredns"
    EBS_CSI = "aws-ebs-csi-driver"


ApiServer = Annotated[str, Field(max_length=255, pattern=r"^https://[^\s/,]+$")]
"""The address of an API server."""


class Join(Section):
    """What a node needs to know to join an existing cluster."""

    endpoint: ApiServer
    """The API server's address, as the nodes reach it."""
    certificate_authority: Annotated[str, Field(min_length=1, max_length=8192), AfterValidator(_base64)]
    """The API server's certificate authority, as base64."""
    service_cidr: Cidr
    """The addresses of the cluster's Services."""
    security_group_ids: Annotated[tuple[SecurityGroupId, ...], Field(max_length=4)] = ()
    """Security groups that let nodes and control plane talk."""


class Existing(Section):
    """A cluster that is there already."""

    kubeconfig: SecretName | None = None
    """The key of sluice:secrets that holds a kubeconfig. Default: the kubeconfig of who runs Pulumi."""
    context: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    """The context in it. Default: its current one."""
    eks_cluster: ClusterName | None = None
    """Its name, where it is a cluster of EKS with access entries: nodes and runtime then get their rights there.
    EKS allows names of 100 characters; Sluice takes those of up to 60, since they begin the names of roles."""
    join: Join | None = None
    """What nodes need to know to join; needed with nodePools."""
    api_servers: Annotated[tuple[ApiServer, ...], Field(max_length=8)] = ()
    """More addresses of its API server, which no worker pool may ask. Those in kubeconfig and join are known; what the
    kubeconfig of who runs Pulumi says is not."""


RELEASE: Final = r"^1\.[0-9]{2}\.[0-9]+-20[0-9]{6}$"


def _release(text: str) -> str:
    if not re.fullmatch(RELEASE, text):
        own = "is an image of your own: give it as image.imageId of a node pool; " if text.startswith("ami-") else ""
        raise ValueError(f"{own}must be a release of EKS' image such as 1.36.2-20261101: Kubernetes version, then date")
    return text


class NodeImage(Section):
    """The image of nodes: EKS' own, of Amazon Linux 2023."""

    release: Annotated[str, Field(json_schema_extra={"pattern": RELEASE}), AfterValidator(_release)]
    """Its release, pinned, such as 1.36.2-20261101: a preview never changes by itself."""


class NodeRole(Section):
    """The IAM role of the stack's nodes."""

    cni: bool | None = None
    """Whether nodes have the rights of the VPC CNI (AmazonEKS_CNI_Policy). Must be given with existing.eksCluster:
    true where the cluster's CNI uses its nodes' role, false where it has a role of its own, as on a new cluster."""


class Monitoring(Section):
    """Dashboards and alerts."""

    dashboards: bool = True
    """Whether to install the dashboard and alert rules, as ConfigMaps."""
    grafana_url: Annotated[str, Field(max_length=255, pattern=r"^https?://[^\s]+$")] | None = None
    """Where Grafana is, for the dashboard's address among the stack's outputs."""
    runbook_url: Annotated[str, Field(max_length=255, pattern=r"^https?://[^\s#]+$")] | None = None
    """Where your people read docs/runbooks.md; alerts then link to their section of it (annotation runbook_url)."""
    prometheus_operator: bool = False
    """Whether the Prometheus operator is there: the alert rules then are a PrometheusRule, and a ServiceMonitor has the
    runtime's metrics read."""
    operator_labels: Labels = {}
    """More labels of these two, by which the operator selects them, such as release: kube-prometheus-stack."""

    def problems(self) -> Iterator[Problem]:
        if self.operator_labels and not self.prometheus_operator:
            yield Problem(
                path=("operatorLabels",), value=self.operator_labels, message="goes with prometheusOperator: true"
            )


class Cluster(Objects):
    """A cluster and everything in it."""

    name: ClusterName | None = None
    """The cluster's name in AWS. Default: existing.eksCluster, or <stack>-<key>."""
    kubernetes_version: KubernetesVersion
    """Its Kubernetes, such as "1.36", which is the oldest that will do. In quotes: a bare 1.40 is read as 1.4."""
    existing: Existing | None = None
    """Given: the cluster is there already, and no control plane is made."""
    network: Network | None = None
    """Where nodes live. Needed for a new cluster, and for nodePools."""
    endpoint: Endpoint = Endpoint()
    """From where the API server can be reached."""
    logs: Logs = Logs()
    """The control plane's logs."""
    access: Access = Access()
    """Who may use the cluster, by IAM."""
    addons: Annotated[dict[AddonName, Addon], Field(max_length=8)] = {}
    """Versions of EKS' add-ons; all of them are always installed on a new cluster."""
    node_image: NodeImage | None = None
    """The image of nodes. Needed with nodePools, unless each has an image of its own."""
    node_pools: NodePools = {}
    """Instances by pool."""
    node_role: NodeRole = NodeRole()
    """The IAM role of the stack's nodes."""
    vm_memory_overhead_percent: Annotated[float, Field(ge=0, le=50)] = node_resources.VM_MEMORY_OVERHEAD_PERCENT
    """How much of an instance's memory its node is expected not to have, in percent, because hypervisor, firmware and
    kernel take it. It is for types of which no node was seen yet: what nodes really offer is learned from them."""
    autoscaler: Autoscaler = Autoscaler()
    """The runtime, and who scales the nodes."""
    monitoring: Monitoring = Monitoring()
    """Dashboards and alerts."""
    gpu_support: bool | None = None
    """Whether to install NVIDIA's device plugin and feature discovery where a pool has GPUs. Default: true on a new
    cluster; false on an existing one, which may have its own."""
    protect: bool = True
    """Whether the cluster and the network that the stack makes are protected: a change that would replace them, and
    `pulumi destroy`, are refused, and EKS refuses to delete the cluster. To remove them, set false and run `pulumi up`
    first."""
    destroy_custom_resources: bool = False
    """true: destroying the stack also removes the definitions, and with them all objects of their kinds. Otherwise
    they stay on an existing cluster."""

    def name_in(self, stack: str, key: str) -> str:
        """Name the cluster in AWS, so that two stacks in one account do not collide."""
        known = self.existing.eks_cluster if self.existing else None
        return self.name or known or f"{stack}-{key}"

    def problems(self) -> Iterator[Problem]:
        yield from self._version()
        yield from self._new_cluster() if self.existing is None else self._existing_cluster(self.existing)
        yield from self._nodes()
        yield from checks.references(self)

    def _version(self) -> Iterator[Problem]:
        minor = int(self.kubernetes_version.removeprefix("1."))
        oldest = version.MINIMUM_KUBERNETES[1]
        if minor < oldest:
            yield Problem(
                path=("kubernetesVersion",), value=self.kubernetes_version, message=f'must be "1.{oldest}" or newer'
            )
        release = self.node_image.release if self.node_image else None
        if release and not release.startswith(f"{self.kubernetes_version}."):
            yield Problem(
                path=("nodeImage", "release"),
                value=release,
                message=f"must be a release of kubernetesVersion, {self.kubernetes_version}",
            )

    def _new_cluster(self) -> Iterator[Problem]:
        if self.network is None:
            yield absent("network", message="must be given for a new cluster: {cidr} or {vpcId, subnetIds}")
        elif self.network.subnet_ids is not None and len(self.network.subnet_ids) < 2:
            yield Problem(
                path=("network", "subnetIds"),
                value=self.network.subnet_ids,
                message="must name subnets of two zones at least, or EKS makes no cluster",
            )
        if not self.access.admins:
            yield absent(
                "access", "admins", message="must name the role or user that runs `pulumi up`, or it gets no way in"
            )
        yield from checks.services_pool(self)

    def _existing_cluster(self, existing: Existing) -> Iterator[Problem]:
        if self.node_pools and existing.join is None:
            yield absent("existing", "join", message="must be given with nodePools: what nodes need to join")
        if self.node_pools and self.network is None:
            allowed = (
                "{vpcId, subnetIds} of existing.eksCluster" if existing.eks_cluster else "{cidr} or {vpcId, subnetIds}"
            )
            yield absent("network", message=f"must be given with nodePools: {allowed}")
        if self.node_pools and existing.eks_cluster is not None:
            yield from self._joining(existing)
        if existing.join is not None:
            made = self.network.cidr if self.network else None
            path = ("existing", "join", "serviceCidr")
            yield from service_problems(existing.join.service_cidr, made, path=path)
        for field in ("endpoint", "logs", "addons"):
            if field in self.model_fields_set:
                yield Problem(path=(field,), message="goes with a new cluster, not with existing", has_value=False)
        if self.name is not None and existing.eks_cluster not in (None, self.name):
            yield Problem(path=("name",), value=self.name, message="must be left out, or equal existing.eksCluster")
        if existing.eks_cluster is None and "access" in self.model_fields_set:
            yield Problem(path=("access",), message="needs existing.eksCluster", has_value=False)

    def _joining(self, existing: Existing) -> Iterator[Problem]:
        """Demand what nodes need to join a cluster of EKS: without it they start, and are never Ready."""
        if self.network is not None and self.network.cidr is not None:
            message = "must be left out: nodes join existing.eksCluster from its own network; give vpcId and subnetIds"
            yield Problem(path=("network", "cidr"), value=self.network.cidr, message=message)
        if existing.join is not None and not existing.join.security_group_ids:
            message = (
                "must name the cluster's security group (aws eks describe-cluster --query "
                "cluster.resourcesVpcConfig.clusterSecurityGroupId), or nodes have the network's default group"
            )
            yield absent("existing", "join", "securityGroupIds", message=message)
        if self.node_role.cni is None:
            message = (
                "must be given with existing.eksCluster and nodePools: true where the cluster's VPC CNI uses its "
                "nodes' role, false where it has a role of its own"
            )
            yield absent("nodeRole", "cni", message=message)

    def _node_role(self) -> Iterator[Problem]:
        if "node_role" in self.model_fields_set and not self.node_pools:
            yield Problem(path=("nodeRole",), message="goes with nodePools", has_value=False)
        if self.existing is None and self.node_role.cni is not None:
            message = "must be left out for a new cluster: its VPC CNI has a role of its own"
            yield Problem(path=("nodeRole", "cni"), value=self.node_role.cni, message=message)

    def _nodes(self) -> Iterator[Problem]:
        yield from self._node_role()
        for name, pool in self.node_pools.items():
            if pool.image is None and self.node_image is None:
                yield absent("nodeImage", message=f"must be given: node pool {name} has no image of its own")
                break
        for name, pool in self.node_pools.items():
            yield from checks.node_pool(name, pool, new_cluster=self.existing is None)


ClusterKey = Annotated[DnsLabel, Field(max_length=32)]
