"""Custom resources that a stack declares. Their specs are the runtime's own models.

Rules between the fields of one such spec are checked by the API server alone (CEL), where they are written once.
"""

from typing import Annotated

from pydantic import Field

from autoscaler.api.resources.accounts import ProviderAccountSpec
from autoscaler.api.resources.machines import MachineSpec
from autoscaler.api.resources.pools import InstancePoolSpec, PoolName
from autoscaler.api.resources.queues import ClusterQueueSpec, LocalQueueSpec, ResourceFlavorSpec
from autoscaler.api.resources.scopes import POOLS_MAX, ScopePool
from autoscaler.api.resources.types import DnsLabel, DnsName, Labels
from autoscaler.api.resources.worker_pools import WorkerPoolSpec
from components.config.base import Section


class Namespace(Section):
    """A namespace for workloads."""

    existing: bool | None = None
    """Whether it is there already: it is labelled only. Default: true on an existing cluster, false on a new one."""
    guests: bool = False
    """Whether pods that ask for a machine get one: its pods with the labels of a machine group and type are guests."""
    labels: Labels = {}
    """More labels."""


class Scope(Section):
    """A group of namespaces, and the pools they use."""

    namespaces: Annotated[tuple[DnsLabel, ...], Field(max_length=1000)] = ()
    """The namespaces of this scope. Each may be in one scope only."""
    pools: Annotated[tuple[ScopePool, ...], Field(max_length=POOLS_MAX)] = ()
    """The pools they use, each once. Instance-wide pools that are not listed come last."""


class Objects(Section):
    """The custom resources that a cluster's config declares; each is named by its key."""

    namespaces: Annotated[dict[DnsLabel, Namespace], Field(max_length=1000)] = {}
    """Namespaces for workloads. Those that scopes, localQueues and workerPools name need not be listed."""
    provider_accounts: Annotated[dict[DnsName, ProviderAccountSpec], Field(max_length=64)] = {}
    """Accounts with providers of instances. The account aws (this region, the runtime's own role) is always there."""
    instance_pools: Annotated[dict[PoolName, InstancePoolSpec], Field(max_length=64)] = {}
    """Pools without Auto Scaling groups of this stack, such as static nodes."""
    scopes: Annotated[dict[DnsLabel, Scope], Field(max_length=256)] = {}
    """Which namespaces use which pools, in what order and within which limits."""
    resource_flavors: Annotated[dict[DnsName, ResourceFlavorSpec], Field(max_length=256)] = {}
    """Kinds of nodes that quota is counted for."""
    cluster_queues: Annotated[dict[DnsName, ClusterQueueSpec], Field(max_length=1000)] = {}
    """Quota for jobs."""
    local_queues: Annotated[dict[DnsLabel, dict[DnsName, LocalQueueSpec]], Field(max_length=1000)] = {}
    """Which ClusterQueue the jobs of a namespace use: LocalQueues, by namespace and name."""
    worker_pools: Annotated[dict[DnsLabel, dict[DnsName, WorkerPoolSpec]], Field(max_length=1000)] = {}
    """Worker pools, by namespace and name."""
    machines: Annotated[dict[DnsLabel, MachineSpec], Field(max_length=64)] = {}
    """Machine groups: nodes, and the types of machine that hold room there. Guests are pods of namespaces with
    guests: true."""

    def workload_namespaces(self) -> dict[str, str | None]:
        """Name every namespace for workloads, with its scope."""
        scopes = {namespace: name for name, scope in self.scopes.items() for namespace in scope.namespaces}
        named = {*self.namespaces, *scopes, *self.local_queues, *self.worker_pools}
        return {namespace: scopes.get(namespace) for namespace in sorted(named)}
