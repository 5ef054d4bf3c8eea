"""What the reconcilers of all pools of one class share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from autoscaler import control
from autoscaler.api import keys, resources
from autoscaler.kube import kinds, objects, store
from autoscaler.workers import queue_reader, worker_index, worker_pods
from autoscaler.workers.model import Pool

POOLS: Final = kinds.custom(resources.WorkerPool)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What the reconcilers of all pools share."""

    context: control.ControllerContext
    pools: store.Table[Pool]
    pods: store.Table[objects.Pod]
    index: worker_index.WorkerIndex
    reader: queue_reader.QueueReader
    class_name: str | None
    """Pools of this class are ours; None: pools without a class are."""
    suffix: Callable[[], str] = worker_pods.random_suffix

    def is_ours(self, pool: Pool) -> bool:
        return pool.resource.spec.worker_pool_class_name == self.class_name

    def was_ours(self, pool: Pool) -> bool:
        """Tell whether we handled a pool that is to be handled by another operator now, and still hold it."""
        is_managed = pool.resource.status.managed_by == self.context.identity
        return is_managed and not self.is_ours(pool) and keys.FINALIZER in pool.meta.finalizers
