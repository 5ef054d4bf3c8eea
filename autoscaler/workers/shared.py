"""What the reconcilers of all pools of one class share."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from autoscaler import control
from autoscaler.api import keys, resources
from autoscaler.kube import kinds, objects, store
from autoscaler.workers import worker_index, worker_pods
from autoscaler.workers.model import Pool
from autoscaler.workers.polling import queue_reader

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
    classes: frozenset[str | None]
    """All classes that this runtime handles: a pool that moves among them stays with it."""
    suffix: Callable[[], str] = worker_pods.random_suffix
    handed_over: dict[str, int] = field(default_factory=dict)
    """Pools by UID, with the generation at which we let them go: a finalizer they have since is another's."""

    def is_ours(self, pool: Pool) -> bool:
        return pool.resource.spec.worker_pool_class_name == self.class_name

    def was_ours(self, pool: Pool) -> bool:
        """Tell whether this runtime handled a pool that is to be another operator's now, and still holds it."""
        is_managed = pool.resource.status.managed_by == self.context.identity
        if self.handed_over.get(pool.meta.uid) == pool.meta.generation:
            return False
        is_leaving = pool.resource.spec.worker_pool_class_name not in self.classes
        return is_managed and is_leaving and keys.FINALIZER in pool.meta.finalizers

    def note_handed_over(self, pool: Pool) -> None:
        """Note that we let a pool go, and forget those that are gone."""
        there = {each.meta.uid for each in self.pools}
        for uid in self.handed_over.keys() - there:
            del self.handed_over[uid]
        self.handed_over[pool.meta.uid] = pool.meta.generation
