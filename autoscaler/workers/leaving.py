"""Leave worker pools behind: when the stack goes, no pool and no worker may hang on a finalizer that nobody takes off.

Pools and workers stay as they are; workers end in their own time. What belongs to other operators is not touched.
"""

from typing import Final

import msgspec
import structlog

from autoscaler import backoff, control
from autoscaler.api import keys, names
from autoscaler.control import drain_object
from autoscaler.control.drain_object import Stage
from autoscaler.kube import batch, finalizers, kinds, listing, objects, port, writer
from autoscaler.workers.shared import POOLS

log = structlog.get_logger()
_BACKOFF: Final = backoff.Backoff(first_seconds=5.0, longest_seconds=60.0)
SENT_SECONDS: Final = 10.0
"""How long what was sent before may take to arrive."""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    worker_pool_class_name: str | None = None


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    managed_by: str | None = None


class _Pool(msgspec.Struct, frozen=True):
    """Of a pool, what says whose it is: also of one that makes no sense to us otherwise."""

    spec: _Spec = _Spec()
    status: _Status = _Status()


_POOL: Final = msgspec.json.Decoder(_Pool)


class Farewell:
    """Lets go of the pools of one class, once the stack leaves."""

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
        self._object = drain_object.DrainObject(context, names.worker_part(class_name))
        self._is_done = False
        self._retry = backoff.Retry(context.clock, _BACKOFF)

    @property
    def is_leaving(self) -> bool:
        """Tell whether no pool is to be handled any more."""
        is_leaving = self._object.stage is not Stage.STAYING
        self._is_done = self._is_done and is_leaving
        return is_leaving

    async def carry_out(self) -> float | None:
        """Take our finalizer off workers and pools, then let the drain object go; return when to try again."""
        if self._is_done:
            return None
        try:
            await self._context.writer.flush(SENT_SECONDS)
            freed = await self._free()
            await self._object.let_go()
        except port.KubeError as error:
            log.info("worker_pools_not_let_go", error=str(error))
            return self._context.clock.now() + self._retry.failed()
        log.info("worker_pools_let_go", objects=freed)
        self._is_done = True
        self._retry.succeeded()
        return None

    async def _free(self) -> int:
        """Free all workers and pools that are ours, or nobody's; return how many there were."""
        api, where = self._context.api, self._namespace
        pools = await listing.read(api, POOLS, _decoded, namespace=where)
        theirs = {each.meta.uid for each, pool in pools if not self._is_ours(pool)}
        query = {"labelSelector": keys.WORKER_POOL}
        pods = await listing.read(api, kinds.PODS, objects.simple, namespace=where, query=query)
        workers = [each for each in pods if each.meta.controller is None or each.meta.controller.uid not in theirs]
        held = [(kinds.PODS, each) for each in workers if keys.FINALIZER in each.meta.finalizers]
        held += [(POOLS, each) for each, _ in pools if _is_held(each) and each.meta.uid not in theirs]
        outcome = await batch.each(held, self._let_go)
        if outcome.failure is not None:
            raise outcome.failure
        return len(held)

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


def _is_held(found: objects.Simple) -> bool:
    return keys.FINALIZER in found.meta.finalizers
