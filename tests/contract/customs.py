"""Custom kinds that contract tests use."""

from autoscaler.api import resources
from autoscaler.kube import kinds
from autoscaler.kube.kinds import ResourceType
from tests import builders
from tests.contract.worlds import Body

WORKER_POOLS = kinds.custom(resources.WorkerPool)
WORKLOADS = kinds.custom(resources.Workload)
MACHINES = kinds.custom(resources.Machine)
LOCAL_QUEUES = kinds.custom(resources.LocalQueue)
WIDGETS = ResourceType(group="contract.dev", version="v1", plural="widgets", kind="Widget", namespaced=True)


def worker_pool(**changes: object) -> Body:
    body = builders.resource("WorkerPool", name="pool", **changes)
    return {**body, "metadata": {"name": "pool"}}
