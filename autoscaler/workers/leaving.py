"""Leave worker pools behind: when the stack goes, no pool and no worker may hang on a finalizer that nobody takes off.

Pools and workers stay as they are; workers end in their own time. What belongs to other operators is not touched.
"""

from typing import Final

import msgspec

from autoscaler import control
from autoscaler.api import keys
from autoscaler.kube import kinds, objects
from autoscaler.kube.reading import listing
from autoscaler.kube.writing import batch, finalizers, writer
from autoscaler.workers.shared import POOLS


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    worker_pool_class_name: str | None = None


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    managed_by: str | None = None


class _Pool(msgspec.Struct, frozen=True):
    """Of a pool, what says whose it is: also of one that makes no sense to us otherwise."""

    spec: _Spec = _Spec()
    status: _Status = _Status()


_POOL: Final = msgspec.json.Decoder(_Pool)


class Leaving:
    """Lets go of the pools of one class."""

    def __init__(
        self,
        context: control.ControllerContext,
        *,
        class_name: str | None,
        classes: frozenset[str | None],
        namespace: str | None,
    ) -> None:
        self._context = context
        self._class_name = class_name
        self._others = classes - {class_name}
        """Classes that this runtime handles beside ours: each lets its own pools go."""
        self._namespace = namespace

    async def leave(self) -> None:
        """Free all workers and pools that are ours, or nobody's."""
        api, where = self._context.api, self._namespace
        pools = await listing.read(api, POOLS, _decoded, namespace=where)
        theirs = {each.meta.uid for each, pool in pools if not self._is_ours(pool)}
        query = {"labelSelector": keys.WORKER_POOL}
        pods = await listing.read(api, kinds.PODS, objects.simple, namespace=where, query=query)
        free = [(kinds.PODS, pod) for pod in pods if (owner := pod.meta.controller) is None or owner.uid not in theirs]
        free += [(POOLS, each) for each, _ in pools if each.meta.uid not in theirs]
        await batch.all_of(free, self._let_go)

    def _is_ours(self, pool: _Pool) -> bool:
        """Tell whether we handle a pool, or did when its class was another."""
        is_managed = pool.status.managed_by == self._context.identity
        class_name = pool.spec.worker_pool_class_name
        return class_name == self._class_name or (is_managed and class_name not in self._others)

    async def _let_go(self, held: tuple[kinds.ResourceType, objects.Simple]) -> None:
        resource, stored = held
        target: writer.Target[objects.Simple] = writer.Target(resource=resource, decode=objects.simple)
        await finalizers.remove(self._context.writer, target, stored, keys.FINALIZER)


def _decoded(raw: msgspec.Raw) -> tuple[objects.Simple, _Pool]:
    return objects.simple(raw), _POOL.decode(raw)
