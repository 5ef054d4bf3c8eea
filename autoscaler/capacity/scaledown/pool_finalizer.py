"""Say farewell: hold pools until they are empty, then let them go; when the whole stack leaves, take off all of ours.

Who leaves and what is waited for is decided in `pool_teardown`; nodes are emptied by `terminator`. Here finalizers are
put on and taken off, and what still runs is told. A pool is let go only after its nodes have been empty for a moment
and the API server itself says so. Every step may be repeated, also by another replica.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

import structlog

from autoscaler import clock, control
from autoscaler.api import controllers, keys
from autoscaler.api.manifests import Manifest
from autoscaler.api.resources.pools import InstancePool
from autoscaler.capacity.custom import POOLS
from autoscaler.capacity.scaledown import pool_teardown
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.control import drain_object
from autoscaler.control.drain_object import Stage
from autoscaler.kube import kinds, objects, owned_marks, port, store
from autoscaler.kube.reading import listing
from autoscaler.kube.writing import finalizers, writer

log = structlog.get_logger()
SETTLE_SECONDS: Final = 5.0
"""How long nodes must have been empty: what was on its way there has arrived by then."""
CLOSING_SECONDS: Final = 60.0
"""How long what lives for ever may take to leave once the stack's last work has ended: budgets may hold it for ever."""
AGAIN_SECONDS: Final = 5.0
HOLD_AGAIN_SECONDS: Final = 30.0
"""When a pool that could not be held is tried again: it may be one that the API server lets nobody change."""
TICK_SECONDS: Final = 0.001
Pool = objects.Custom[InstancePool]


class PoolFinalizer:
    """Holds pools and lets them go."""

    def __init__(
        self,
        context: control.ControllerContext,
        *,
        pools: store.Table[Pool],
        nodes: store.Table[objects.Node],
        pods: store.Table[objects.Pod],
    ) -> None:
        self._context = context
        self._pools = pools
        self._nodes = nodes
        self._pods = pods
        self._object = drain_object.DrainObject(context, controllers.CAPACITY)
        self._target = writer.Target(resource=POOLS, decode=objects.custom(InstancePool), table=pools)
        self._empty_since: dict[str, float] = {}
        """Pools whose nodes are empty, and since when by the clock that never goes back."""
        self._told: dict[str, pool_teardown.Reason] = {}
        self._closing_since: float | None = None
        """Since when, in a stack that leaves, no work is left that ends by itself; None: some is."""
        self._is_dissolved = False

    @property
    def have_left(self) -> bool:
        """Tell whether nothing is to be done any more."""
        self._is_dissolved = self._is_dissolved and self.is_dissolving
        is_held = any(keys.FINALIZER in pool.meta.finalizers for pool in self._pools)
        return self._is_dissolved or (self._object.stage is Stage.LEFT and not is_held)

    @property
    def is_dissolving(self) -> bool:
        """Tell whether the whole stack leaves."""
        return self._object.stage is not Stage.STAYING

    @property
    def is_closing(self) -> bool:
        """Tell whether the whole stack leaves and its last work has ended."""
        return self.is_dissolving and self._closing_since is not None

    @property
    def unheld(self) -> list[str]:
        """The pools that stay and do not carry our finalizer yet."""
        staying = [each for each in self._pools if each.meta.deleted_at is None and not self.is_dissolving]
        return sorted(each.meta.key.name for each in staying if keys.FINALIZER not in each.meta.finalizers)

    def who(self) -> dict[str, float]:
        """Return the pools that are being removed, and since when."""
        return pool_teardown.who(self._pools, self._object.since if self.is_dissolving else None)

    async def carry_out(self, snapshot: Snapshot) -> float | None:
        """Hold what stays, and let go of what is empty; return when to look again if nothing changes before."""
        there = list(self._pools)
        self._told = {pool.meta.uid: told for pool in there if (told := self._told.get(pool.meta.uid)) is not None}
        wakes = []
        for pool in there:
            if pool.meta.key.name in snapshot.leaving:
                wakes.append(await self._calmly(self._see_off(pool, snapshot), AGAIN_SECONDS))
            else:
                wakes.append(await self._calmly(self._hold(pool), HOLD_AGAIN_SECONDS))
        if self.is_dissolving:
            wakes.append(await self._calmly(self._close(snapshot), AGAIN_SECONDS))
        return clock.earliest(wakes)

    async def _calmly(self, step: Coroutine[Any, Any, float | None], again_seconds: float) -> float | None:
        """Take a step. One that fails is taken again later, and does not stop the others."""
        try:
            return await step
        except port.KubeError as error:  # something changed meanwhile, is refused, or cannot be reached
            log.info("farewell_not_said", error=str(error))
            return self._context.clock.now() + again_seconds

    # Pools

    async def _hold(self, pool: Pool) -> None:
        """Keep a pool that stays from going before it is empty."""
        self._empty_since.pop(pool.meta.key.name, None)
        self._told.pop(pool.meta.uid, None)
        is_staying = self._object.stage is Stage.STAYING and pool.meta.deleted_at is None
        if is_staying and keys.FINALIZER not in pool.meta.finalizers:
            await finalizers.add(self._context.writer, self._target, pool, keys.FINALIZER)

    async def _see_off(self, pool: Pool, snapshot: Snapshot) -> float | None:
        """Tell of a pool that is being removed, and let it go once it is empty."""
        name = pool.meta.key.name
        left = pool_teardown.remainder(snapshot, name)
        self._tell(pool, left, snapshot.now)
        settled_at = self._settles(name, left)
        if settled_at is None:
            return left.wake_at
        ago = self._context.clock.monotonic() - self._context.clock.now()
        if left.nodes and self._context.clock.monotonic() < settled_at - TICK_SECONDS:
            return settled_at - ago
        if pool.meta.deleted_at is None or keys.FINALIZER not in pool.meta.finalizers:
            return None  # it goes with all others
        if not await self._is_empty(left, snapshot):
            return self._context.clock.now() + AGAIN_SECONDS
        await finalizers.remove(self._context.writer, self._target, pool, keys.FINALIZER)
        log.info("pool_let_go", pool=name, since=left.since)
        return None

    def _settles(self, name: str, left: pool_teardown.Remainder) -> float | None:
        """Return when a pool will have been empty for long enough; None if it is not empty."""
        if not left.is_empty:
            self._empty_since.pop(name, None)
            return None
        return self._empty_since.setdefault(name, self._context.clock.monotonic()) + SETTLE_SECONDS

    async def _is_empty(self, left: pool_teardown.Remainder, snapshot: Snapshot) -> bool:
        """Ask the API server itself whether nothing that is waited for runs on these nodes."""
        api = self._context.api
        found = await asyncio.gather(*(listing.pods_on(api, node.meta.key.name) for node in left.nodes))
        return not any(pool_teardown.is_waited_for(pod, snapshot) for pods in found for pod in pods)

    # The whole stack

    async def _close(self, snapshot: Snapshot) -> float | None:
        """Once all work has ended, give what lives for ever a moment to leave, then leave."""
        if not await self._is_over(snapshot):
            self._closing_since = None
            return None
        time = self._context.clock
        if self._closing_since is None:
            self._closing_since = time.monotonic()
        closed_at = self._closing_since + CLOSING_SECONDS
        if pool_teardown.services(snapshot) and time.monotonic() < closed_at - TICK_SECONDS:
            at_once = time.now() + TICK_SECONDS if not snapshot.closing else None  # nobody was asked yet
            return at_once or closed_at - time.monotonic() + time.now()
        return await self._dissolve()

    async def _is_over(self, snapshot: Snapshot) -> bool:
        """Tell whether no work keeps the stack from leaving any more."""
        for name in snapshot.leaving:
            left = pool_teardown.remainder(snapshot, name)
            settled_at = self._empty_since.get(name, float("inf")) + SETTLE_SECONDS - TICK_SECONDS
            is_settled = not left.nodes or self._context.clock.monotonic() >= settled_at
            if not left.is_empty or not is_settled or not await self._is_empty(left, snapshot):
                return False
        return True

    async def _dissolve(self) -> float | None:
        """Take all of ours off what stays in the cluster, then let the drain object go."""
        held = await listing.read(self._context.api, POOLS, objects.simple)  # those that make no sense to us, too
        found = [(POOLS, pool.meta, _held(pool.meta)) for pool in held]
        found += [(kinds.NODES, node.meta, _marked(node)) for node in self._nodes]
        found += [(kinds.PODS, pod.meta, _gated(pod)) for pod in self._pods]
        changed = [
            (resource, meta, changes) for resource, meta, each in found if (changes := owned_marks.without(each))
        ]
        cleared = [await self._clear(resource, meta, changes) for resource, meta, changes in changed]
        if not all(cleared):
            return self._context.clock.now() + AGAIN_SECONDS
        await self._object.let_go()
        self._is_dissolved = True
        log.info("stack_left", cleared=len(cleared))
        return None

    async def _clear(self, resource: kinds.ResourceType, meta: objects.Meta, changes: Manifest) -> bool:
        """Take all of ours off an object; one that cannot be cleared does not hold up the others."""
        target: writer.Target[objects.Simple] = writer.Target(resource=resource, decode=objects.simple)
        only_if = writer.Precondition(uid=meta.uid, resource_version=meta.resource_version)
        try:
            await self._context.writer.patch(target, meta.key, changes, only_if=only_if)
        except port.NotFoundError:
            return True
        except port.KubeError as error:
            log.warning("not_cleared", kind=resource.kind, name=meta.key.name, error=str(error))
            return False
        log.info("cleared", kind=resource.kind, name=meta.key.name, what=owned_marks.told(changes))
        return True

    # Telling

    def _tell(self, pool: Pool, left: pool_teardown.Remainder, now: float) -> None:
        """Tell what still runs, once at each stage."""
        reason = left.reason(now)
        if self._told.get(pool.meta.uid) is reason:
            return
        self._told[pool.meta.uid] = reason
        is_overdue = reason is pool_teardown.Reason.OVERDUE
        self._context.tell(POOLS, pool, reason, str(left), is_warning=is_overdue, is_change=True)
        log.info("pool_leaving", pool=pool.meta.key.name, stage=reason, pods=len(left.pods), since=left.since)


def _held(meta: objects.Meta) -> Manifest:
    return {"metadata": {"finalizers": meta.finalizers}}


def _marked(node: objects.Node) -> Manifest:
    taints = [{"key": key, "value": value, "effect": effect} for key, value, effect in node.taints]
    metadata = {"labels": node.meta.labels, "annotations": node.meta.annotations}
    return {"kind": kinds.NODES.kind, "metadata": metadata, "spec": {"taints": taints}}


def _gated(pod: objects.Pod) -> Manifest:
    return {"spec": {"schedulingGates": [{"name": gate} for gate in pod.gates]}}
