"""Say farewell: hold pools and group lists until what leaves is empty; if the whole stack leaves, take off all of ours.

Who leaves and what is waited for is decided in `pool_teardown`; nodes are emptied by `terminator`. Here finalizers are
put on and taken off, and what still runs is told. A pool or a list is let go only after the nodes that leave have been
empty for a moment and the API server itself says so. Every step may be repeated, also by another replica.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import structlog

from autoscaler import clock, control
from autoscaler.api import controllers, keys
from autoscaler.api.manifests import Manifest
from autoscaler.api.resources.pools import InstancePool
from autoscaler.capacity import watched
from autoscaler.capacity.custom import POOLS, SCOPES
from autoscaler.capacity.scaledown import group_lists, pool_teardown
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.control import drain_object
from autoscaler.control.drain_object import Stage
from autoscaler.kube import kinds, objects, owned_marks, port
from autoscaler.kube.reading import listing
from autoscaler.kube.writing import finalizers, writer

log = structlog.get_logger()
AGAIN_SECONDS: Final = 5.0
HOLD_AGAIN_SECONDS: Final = 30.0
"""When a pool that could not be held is tried again: it may be one that the API server lets nobody change."""
Pool = objects.Custom[InstancePool]


class PoolFinalizer:
    """Holds pools and lets them go."""

    def __init__(self, context: control.ControllerContext, tables: watched.Watched) -> None:
        self._context = context
        self._pools = tables.pools
        self._scopes = tables.scopes
        self._lists = tables.group_lists
        self._nodes = tables.nodes
        self._pods = tables.pods
        self._object = drain_object.DrainObject(context, controllers.CAPACITY)
        self._target = writer.Target(resource=POOLS, decode=objects.custom(InstancePool), table=self._pools)
        self._list_target = writer.Target(resource=kinds.CONFIG_MAPS, decode=group_lists.decode, table=self._lists)
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
        held = (*self._pools, *self._scopes, *self._lists)
        is_held = any(keys.FINALIZER in each.meta.finalizers for each in held)
        return self._is_dissolved or (self._object.stage is Stage.LEFT and not is_held)

    @property
    def is_dissolving(self) -> bool:
        """Tell whether the whole stack leaves."""
        return self._object.stage is not Stage.STAYING

    def observe(self, snapshot: Snapshot) -> Snapshot:
        """Add which pools and groups are being removed, and how far that is."""
        is_held = {each.meta.key.name: keys.FINALIZER in each.meta.finalizers for each in self._pools}
        since = self._closing_since
        going = {each.meta.key.name for each in self._pools if each.meta.deleted_at is not None}
        lists = [each for each in self._lists if group_lists.is_list(each.meta)]
        held = [each for each in lists if keys.FINALIZER in each.meta.finalizers]
        unheld = [each for each in lists if each.groups is not None and each.stays and each not in held]
        return replace(
            snapshot,
            leaving_groups=group_lists.leaving(lists, snapshot.groups),
            unheld_lists=frozenset(each.meta.key.name for each in unheld),
            deleted_lists={each.meta.key.name: each.pool for each in held if not each.stays},
            leaving=pool_teardown.who(self._pools, self._object.since if self.is_dissolving else None),
            dissolving=self.is_dissolving,
            may_hold_scopes=self._object.stays,
            closing_since=None if since is None or not self.is_dissolving else self._on_wall(since),
            unheld=frozenset(name for name, holds in is_held.items() if not holds),
            deleted=frozenset(name for name in going if is_held[name]),
            empty_since={name: self._on_wall(at) for name, at in self._empty_since.items()},
        )

    async def carry_out(self, snapshot: Snapshot, plan: pool_teardown.Plan) -> float | None:
        """Hold what stays, and let go of what is empty; return when to look again if nothing changes before."""
        there = {pool.meta.key.name: pool for pool in self._pools}
        self._tell_all(there, plan, snapshot.now)
        now = self._context.clock.monotonic()
        empty = [name for name, left in plan.remainders.items() if left.is_empty]
        self._empty_since = {name: self._empty_since.get(name, now) for name in empty}
        wakes = [await self._calmly(self._hold(there.get(name)), HOLD_AGAIN_SECONDS) for name in plan.held]
        for name in plan.let_go:
            step = self._let_go(there.get(name), plan.remainders[name], snapshot)
            wakes.append(await self._calmly(step, AGAIN_SECONDS))
        wakes += await self._carry_out_lists(snapshot, plan)
        if self.is_dissolving:
            wakes.append(await self._calmly(self._close(snapshot, plan), AGAIN_SECONDS))
        return clock.earliest((*wakes, plan.wake_at))

    def _on_wall(self, at: float) -> float:
        time = self._context.clock
        return at - time.monotonic() + time.now()

    async def _calmly(self, step: Coroutine[Any, Any, float | None], again_seconds: float) -> float | None:
        """Take a step. One that fails is taken again later, and does not stop the others."""
        try:
            return await step
        except port.KubeError as error:  # something changed meanwhile, is refused, or cannot be reached
            log.info("farewell_not_said", error=str(error))
            return self._context.clock.now() + again_seconds

    # Pools

    async def _hold(self, pool: Pool | None) -> None:
        """Keep a pool that stays from going before it is empty."""
        if pool is not None and pool.meta.deleted_at is None:
            await finalizers.add(self._context.writer, self._target, pool, keys.FINALIZER)

    async def _let_go(self, pool: Pool | None, left: pool_teardown.Remainder, snapshot: Snapshot) -> float | None:
        """Let a pool go that is deleted and empty."""
        if pool is None or pool.meta.deleted_at is None:
            return None  # another one came
        if not await self._is_empty(left, snapshot):
            return self._context.clock.now() + AGAIN_SECONDS
        await finalizers.remove(self._context.writer, self._target, pool, keys.FINALIZER)
        log.info("pool_let_go", pool=pool.meta.key.name, since=left.since)
        return None

    async def _is_empty(self, left: pool_teardown.Remainder, snapshot: Snapshot) -> bool:
        """Ask the API server itself whether nothing that is waited for runs on these nodes."""
        api = self._context.api
        found = await asyncio.gather(*(listing.pods_on(api, node.meta.key.name) for node in left.nodes))
        return not any(pool_teardown.is_waited_for(pod, snapshot) for pods in found for pod in pods)

    # Lists of groups

    async def _carry_out_lists(self, snapshot: Snapshot, plan: pool_teardown.Plan) -> list[float | None]:
        there = {each.meta.key.name: each for each in self._lists}
        wakes = [await self._calmly(self._hold_list(there.get(name)), HOLD_AGAIN_SECONDS) for name in plan.held_lists]
        for name, pool in plan.let_go_lists.items():
            step = self._let_go_list(there.get(name), plan.remainders.get(pool), snapshot)
            wakes.append(await self._calmly(step, AGAIN_SECONDS))
        return wakes

    async def _hold_list(self, listed: group_lists.Listed | None) -> None:
        if listed is not None:
            await finalizers.add(self._context.writer, self._list_target, listed, keys.FINALIZER)

    async def _let_go_list(
        self, listed: group_lists.Listed | None, left: pool_teardown.Remainder | None, snapshot: Snapshot
    ) -> float | None:
        """Let a list go whose groups are empty, or are in another list: then nothing is left to wait for."""
        if listed is None:
            return None
        if left is not None and not await self._is_empty(left, snapshot):
            return self._context.clock.now() + AGAIN_SECONDS
        await finalizers.remove(self._context.writer, self._list_target, listed, keys.FINALIZER)
        log.info("group_list_let_go", list=listed.meta.key.name, pool=listed.pool)
        return None

    # The whole stack

    async def _close(self, snapshot: Snapshot, plan: pool_teardown.Plan) -> float | None:
        """Once all work has ended, give what lives for ever a moment to leave, then leave."""
        if not plan.is_over or not await self._are_empty(plan.remainders.values(), snapshot):
            self._closing_since = None
            return None
        if plan.leaves:
            return await self._dissolve()
        if self._closing_since is None:
            self._closing_since = self._context.clock.monotonic()
            return self._context.clock.now() + pool_teardown.TICK_SECONDS  # nobody was asked yet
        return pool_teardown.closed_at(snapshot)

    async def _are_empty(self, left: Iterable[pool_teardown.Remainder], snapshot: Snapshot) -> bool:
        for each in left:
            if not await self._is_empty(each, snapshot):
                return False
        return True

    async def _dissolve(self) -> float | None:
        """Take all of ours off what stays in the cluster, then let the drain object go."""
        found: list[tuple[kinds.ResourceType, objects.Meta, Manifest]] = []
        for resource in (POOLS, SCOPES):  # those that make no sense to us, too
            held = await listing.read(self._context.api, resource, objects.simple)
            found += [(resource, each.meta, _held(each.meta)) for each in held]
        lists = [each.meta for each in self._lists if group_lists.is_list(each.meta)]
        found += [(kinds.CONFIG_MAPS, meta, _held(meta)) for meta in lists]
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

    def _tell_all(self, there: Mapping[str, Pool], plan: pool_teardown.Plan, now: float) -> None:
        """Tell pools that are being removed what they wait for."""
        leaving = {name: pool for name, pool in there.items() if name in plan.remainders}
        uids = {pool.meta.uid for pool in leaving.values()}
        self._told = {uid: reason for uid, reason in self._told.items() if uid in uids}
        for name, pool in leaving.items():
            self._tell(pool, plan.remainders[name], now)

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
