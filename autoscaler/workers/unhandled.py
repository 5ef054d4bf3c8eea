"""Pools that nobody handles: their class has no operator that lives. They say so, and can be deleted all the same.

An operator shows that it lives by the Lease of its class. We look where our own is: in our namespace, or in kube-system
where we handle all namespaces. Of an operator whose Lease is elsewhere we only see what it does: a pool on whose
present spec another operator has acted is taken to be handled. We never make or remove a worker of pools that are not
ours.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

import structlog

from autoscaler import backoff, control
from autoscaler.api import controllers, keys, names
from autoscaler.control import polling
from autoscaler.kube import kinds, objects, port
from autoscaler.kube.leases import lease
from autoscaler.kube.writing import batch, finalizers, writer
from autoscaler.workers import worker_index
from autoscaler.workers.model import Pool
from autoscaler.workers.reporting import status

log = structlog.get_logger()
LOOK_SECONDS: Final = 15.0
PATIENCE_SECONDS: Final = 60.0
"""A class without an operator for so long has none: one that restarts is back by then."""
_BACKOFF: Final = backoff.Backoff(first_seconds=LOOK_SECONDS, longest_seconds=300.0)


class _Sign(NamedTuple):
    """The last sign of life of a class's operator."""

    lease: lease.Lease | None
    """Its Lease as it was; None: there is none where we look."""
    seen_at: float
    """Since when, by ours, it has been so."""


class UnhandledPools:
    """Looks for pools that nobody handles."""

    def __init__(
        self,
        context: control.ControllerContext,
        pools: writer.Target[Pool],
        pods: writer.Target[objects.Pod],
        index: worker_index.WorkerIndex,
        *,
        classes: frozenset[str | None],
        is_everywhere: bool,
    ) -> None:
        """Look at the pools that are of none of our classes; `is_everywhere`: we handle those of all namespaces."""
        self._context = context
        self._classes = classes
        self._leases = controllers.KUBE_SYSTEM if is_everywhere else context.namespace
        self._target = pools
        self._pod_target = pods
        self._index = index
        self._signs: dict[str, _Sign] = {}
        """By the name of the Lease."""
        self._idle_since: dict[str, tuple[int, float]] = {}
        """By the UID of a pool: since when nobody has acted on its generation."""
        self._retries = backoff.Retries(context.clock, _BACKOFF)
        polling.Polling(context, "worker pools that nobody handles", self._look)

    async def _look(self) -> float:
        pools = self._target.table or ()
        strangers = [pool for pool in pools if pool.resource.spec.worker_pool_class_name not in self._classes]
        leases = {_lease(pool) for pool in strangers}
        self._signs = {name: sign for name, sign in self._signs.items() if name in leases}
        for name in sorted(leases):
            if not self._retries.holds(name):
                self._retries.note(name, is_done=await self._look_at(name))
        self._note_idle(strangers)
        for pool in strangers:
            if self._is_deserted(pool) and not self._retries.holds(pool.meta.uid):
                self._retries.note(pool.meta.uid, is_done=await self._attend(pool))
        return LOOK_SECONDS

    async def _look_at(self, name: str) -> bool:
        """Note the newest sign of life of a class's operator; where we may not look, it is taken to live."""
        try:
            found = lease.decode(await port.get(self._context.api, kinds.LEASES.path(name, self._leases)))
        except port.NotFoundError:
            found = None
        except port.KubeError as error:
            log.info("operator_not_looked_for", lease=name, error=str(error))
            self._signs.pop(name, None)
            return False
        before = self._signs.get(name)
        if before is None or before.lease != found:  # it is renewed every few seconds, and given back at the end
            self._signs[name] = _Sign(found, self._context.clock.monotonic())
        return True

    def _note_idle(self, strangers: Iterable[Pool]) -> None:
        """Note since when nobody has acted on the present spec of pools."""
        now, before = self._context.clock.monotonic(), self._idle_since
        self._idle_since = {}
        for pool in strangers:
            generation, (known, since) = pool.meta.generation, before.get(pool.meta.uid, (-1, now))
            if not self._is_acted_on(pool):
                self._idle_since[pool.meta.uid] = (generation, since if known == generation else now)

    def _is_acted_on(self, pool: Pool) -> bool:
        status_ = pool.resource.status
        is_theirs = status_.managed_by not in (None, self._context.identity)
        return is_theirs and status_.observed_generation == pool.meta.generation

    def _is_deserted(self, pool: Pool) -> bool:
        """Tell whether the operator of a pool died, or there was none and nobody acts on the pool."""
        now, sign = self._context.clock.monotonic(), self._signs.get(_lease(pool))
        if sign is None or now - sign.seen_at < PATIENCE_SECONDS:
            return False
        if sign.lease is not None:
            return True
        _, idle_since = self._idle_since.get(pool.meta.uid, (0, now))
        return now - idle_since >= PATIENCE_SECONDS

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


def _lease(pool: Pool) -> str:
    return names.worker_lease(pool.resource.spec.worker_pool_class_name)


def _message(pool: Pool) -> str:
    namespace, class_name = pool.meta.key.namespace, pool.resource.spec.worker_pool_class_name
    who = "default operator" if class_name is None else f"operator of class {class_name}"
    mend = "spec.workerPoolClassName names the operator" if class_name is None else "correct spec.workerPoolClassName"
    return f"no {who} is running for namespace {namespace}, so nobody follows the queue: {mend}, or start one"
