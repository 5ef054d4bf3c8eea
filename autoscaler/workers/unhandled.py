"""Pools that nobody handles: their class has no operator that lives. They are told so, and can be deleted all the same.

An operator shows that it lives by the Lease of its class, in the pool's namespace or, where it handles all namespaces,
in kube-system. Every operator looks at the pools that are not its own; it never makes or removes a worker of theirs.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple

import structlog

from autoscaler import backoff, control
from autoscaler.api import keys, names
from autoscaler.control import polling
from autoscaler.kube import batch, finalizers, kinds, lease, objects, port, store, writer
from autoscaler.workers import status, worker_index
from autoscaler.workers.model import Pool

log = structlog.get_logger()
KUBE_SYSTEM: Final = "kube-system"
LOOK_SECONDS: Final = 15.0
PATIENCE_SECONDS: Final = 60.0
"""A class without an operator for so long has none: one that restarts is back by then."""
_BACKOFF: Final = backoff.Backoff(first_seconds=LOOK_SECONDS, longest_seconds=300.0)


class _Place(NamedTuple):
    namespace: str
    class_name: str | None


class _Sign(NamedTuple):
    """The last sign of life of a class's operator."""

    renewed: datetime | None
    """By its own clock; None: nobody holds the Lease."""
    seen_at: float
    """Since when, by ours, it has been so."""


class UnhandledPools:
    """Looks for pools that nobody handles."""

    def __init__(
        self,
        context: control.ControllerContext,
        *,
        class_name: str | None,
        pools: store.Table[Pool],
        pods: store.Table[objects.Pod],
        index: worker_index.WorkerIndex,
        target: writer.Target[Pool],
    ) -> None:
        self._context = context
        self._class_name = class_name
        self._pools = pools
        self._index = index
        self._target = target
        self._pod_target = writer.Target(resource=kinds.PODS, decode=objects.pod, table=pods)
        self._signs: dict[_Place, _Sign] = {}
        self._retries = backoff.Retries(context.clock, _BACKOFF)
        polling.Polling(context, "worker pools that nobody handles", self._look)

    async def _look(self) -> float:
        strangers = [pool for pool in self._pools if pool.resource.spec.worker_pool_class_name != self._class_name]
        places = {_place(pool) for pool in strangers}
        self._signs = {place: sign for place, sign in self._signs.items() if place in places}
        for place in sorted(places, key=str):
            await self._look_at(place)
        for pool in strangers:
            if self._is_deserted(_place(pool)) and not self._retries.holds(pool.meta.uid):
                self._retries.note(pool.meta.uid, is_done=await self._attend(pool))
        return LOOK_SECONDS

    async def _look_at(self, place: _Place) -> None:
        """Note the newest sign of life of a class's operators; where we may not look, they are taken to live."""
        try:
            renewed = [await self._renewed(place, where) for where in (place.namespace, KUBE_SYSTEM)]
        except port.KubeError as error:
            log.info("operator_not_looked_for", namespace=place.namespace, lease=_lease(place), error=str(error))
            self._signs.pop(place, None)
            return
        newest = max((at for at in renewed if at is not None), default=None)
        before = self._signs.get(place)
        if before is None or before.renewed != newest:
            self._signs[place] = _Sign(newest, self._context.clock.monotonic())

    async def _renewed(self, place: _Place, where: str) -> datetime | None:
        request = port.Request(method="GET", path=kinds.LEASES.path(_lease(place), where))
        try:
            spec = lease.decode(port.required(await self._context.api.send(request))).spec
        except port.NotFoundError:
            return None
        return spec.renew_time if spec.holder_identity else None

    def _is_deserted(self, place: _Place) -> bool:
        sign = self._signs.get(place)
        return sign is not None and self._context.clock.monotonic() - sign.seen_at >= PATIENCE_SECONDS

    async def _attend(self, pool: Pool) -> bool:
        """Tell that nobody handles a pool, and let go of what is being deleted; return whether all that was done."""
        try:
            if pool.meta.deleted_at is None:
                changes = status.unhandled(pool.resource, _message(pool), self._context.clock.now())
                await self._context.writer.patch_status(self._target, pool, changes, attempts=1)
                return await self._let_go(self._workers(pool).hanging.values())
            if not await self._let_go(self._workers(pool).held.values()):
                return False
            await finalizers.remove(self._context.writer, self._target, pool, keys.FINALIZER, attempts=1)
        except port.KubeError as error:
            log.info("unhandled_pool_not_told", pool=pool.meta.key, error=str(error))
            return False
        return True

    async def _let_go(self, workers: Iterable[objects.Pod]) -> bool:
        async def one(pod: objects.Pod) -> None:
            await finalizers.remove(self._context.writer, self._pod_target, pod, keys.FINALIZER, attempts=1)

        return (await batch.each(list(workers), one)).failure is None

    def _workers(self, pool: Pool) -> worker_index.PoolWorkers:
        identity = worker_index.PoolId(pool.meta.key.namespace, pool.meta.uid)
        return self._index.get(identity) or worker_index.NOBODY


def _place(pool: Pool) -> _Place:
    return _Place(pool.meta.key.namespace, pool.resource.spec.worker_pool_class_name)


def _lease(place: _Place) -> str:
    return names.worker_lease(place.class_name)


def _message(pool: Pool) -> str:
    namespace, class_name = _place(pool)
    who = "default operator" if class_name is None else f"operator of class {class_name}"
    mend = "spec.workerPoolClassName names the operator" if class_name is None else "correct spec.workerPoolClassName"
    return f"no {who} is running for namespace {namespace}, so nobody follows the queue: {mend}, or start one"
