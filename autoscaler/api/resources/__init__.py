"""The eleven kinds of sluice.dev/v1alpha1 as pydantic models: fields, defaults, bounds and the rules between fields.

A model says everything about its kind once: the CRD schema, `kubectl explain` and the runtime's own parsing all come
from it. Field names in Python are snake_case, on the wire camelCase.
"""

from autoscaler.api.resources.accounts import ProviderAccount
from autoscaler.api.resources.base import Resource
from autoscaler.api.resources.instances import Instance
from autoscaler.api.resources.machines import Machine, MachineNodePool
from autoscaler.api.resources.pools import InstancePool
from autoscaler.api.resources.queues import ClusterQueue, LocalQueue, ResourceFlavor
from autoscaler.api.resources.scopes import Scope
from autoscaler.api.resources.worker_pools import WorkerPool
from autoscaler.api.resources.workloads import Workload

KINDS: tuple[type[Resource], ...] = (
    WorkerPool,
    Machine,
    MachineNodePool,
    ProviderAccount,
    InstancePool,
    Scope,
    Instance,
    ResourceFlavor,
    ClusterQueue,
    LocalQueue,
    Workload,
)

__all__ = [
    "KINDS",
    "ClusterQueue",
    "Instance",
    "InstancePool",
    "LocalQueue",
    "Machine",
    "MachineNodePool",
    "ProviderAccount",
    "Resource",
    "ResourceFlavor",
    "Scope",
    "WorkerPool",
    "Workload",
]
