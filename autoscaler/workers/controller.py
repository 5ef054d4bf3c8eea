"""Worker pools: every pool of our class has a reconciler here, for as long as we may act.

This module starts and ends reconcilers and hands changes on to them. It decides nothing about a pool, but for one case
nobody else is left for: workers of a pool that is gone must not hang on our finalizer.
"""

import asyncio
import contextlib
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import structlog

from autoscaler import backoff, clock, control
from autoscaler.api import keys, names
from autoscaler.api.resources.worker_pools import WorkerPool
from autoscaler.control import farewell, metrics, plans, ticking
from autoscaler.kube import kinds, objects, port
from autoscaler.kube.writing import batch, finalizers, writer
from autoscaler.queues import port as queues
from autoscaler.workers import decide, leaving, planned, unhandled, worker_index, worker_pods
from autoscaler.workers.model import Growth, Pool
from autoscaler.workers.polling import queue_reader
from autoscaler.workers.pool_reconciler import PoolReconciler
from autoscaler.workers.reporting import pool_metrics
from autoscaler.workers.shared import POOLS, Shared

log = structlog.get_logger()
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_BACKOFF: Final = backoff.Backoff(first_seconds=10.0, longest_seconds=300.0)
"""After an orphan that could not be let go."""
CHECK_SECONDS: Final = 1.0
"""How often to see whether we may still act."""


class Controller:
    """Handles the pools of one class."""

    def __init__(
        self,
        context: control.ControllerContext,
        *,
        class_name: str | None,
        classes: frozenset[str | None],
        namespace: str | None,
        open_queues: Callable[[], queues.Queues],
        suffix: Callable[[], str] = worker_pods.random_suffix,
    ) -> None:
        """Watch pools and pods of one namespace, or of all (None). Queues are opened when there is a loop to do so.

        `classes` are all that this runtime handles: pools of the others are in its own hands too.
        """
        self._context = context
        self._class_name = class_name
        self._classes = classes
        self._open_queues = open_queues
        self._suffix = suffix
        self._pools = context.watch(POOLS, objects.custom(WorkerPool), namespace)
        self._pods = context.watch(kinds.PODS, objects.pod, namespace)
        self._pod_target = writer.Target(resource=kinds.PODS, decode=objects.pod, table=self._pods)
        self._index = worker_index.index(self._pods)
        self._index.on_change.append(self._workers_changed)
        self._reconcilers: dict[objects.Key, tuple[PoolReconciler, asyncio.Task[None]]] = {}
        self._by_id: dict[worker_index.PoolId, PoolReconciler] = {}
        self._unanswered: dict[worker_index.PoolId, dict[str, float]] = {}
        """Workers of each pool that were asked for without an answer; they may come when another reconciler runs."""
        self._orphans: dict[objects.Key, int] = {}
        """Workers that may have no pool, and how often letting them go failed."""
        self._orphan_retry = backoff.Retry(context.clock, _BACKOFF)
        self._hosts: tuple[asyncio.TaskGroup, Shared] | None = None
        last = leaving.Leaving(context, class_name=class_name, classes=classes, namespace=namespace)
        self._farewell = farewell.Farewell(context, names.worker_part(class_name), last.leave)
        self._look_after_unhandled(is_everywhere=namespace is None)
        context.feed(self)
        context.measure(self._measure)

    def _look_after_unhandled(self, *, is_everywhere: bool) -> None:
        target = writer.Target(resource=POOLS, decode=objects.custom(WorkerPool), table=self._pools)
        unhandled.UnhandledPools(
            self._context, target, self._pod_target, self._index, classes=self._classes, is_everywhere=is_everywhere
        )

    async def reconcile(self, dirty: control.Dirty) -> float | None:
        """Hand changes of pools to their reconcilers; let go of workers without a pool, and of all when we leave."""
        if self._farewell.is_leaving:
            await self._dismiss()
            return await self._farewell.carry_out()
        changed = {key for kind, key in dirty if kind == POOLS.kind} | self._without_reconciler()
        for key in sorted(changed):
            self._see(key)
        workers = {key for kind, key in dirty if kind == kinds.PODS.kind}
        if any(self._pools.get(key) is None for key in changed):
            workers |= self._left_behind()
        await self._free_orphans(workers)
        self._forget_unanswered()
        return clock.on_wall(self._context.clock, self._orphan_retry.next_at)

    async def planned(self) -> plans.Planned:
        """Say what would be done now for pools; while we are paused nobody reads their queues."""
        if self._farewell.is_leaving:
            return plans.Planned(unknown=("the runtime leaves: it lets go of its pools and workers",))
        commands = [command for each, _ in self._reconcilers.values() for command in each.planned()]
        resting = list(self._resting_pools()) if self._context.is_paused() else []
        commands += [command for pool, workers in resting for command in self._planned_at_rest(pool, workers)]
        gone = "its worker pool is gone: finalizer"
        orphans = sorted(key for key in self._orphans if self._may_be_orphan(key))
        commands += [plans.Command(verb="patch", what=f"pod {key.namespace}/{key.name}", why=gone) for key in orphans]
        unread = f"how {len(resting)} worker pools grow: no queue is read while the runtime is paused"
        return plans.Planned(commands=tuple(commands), unknown=(unread,) if resting else ())

    # The source: it hosts the reconcilers

    async def run(self) -> None:
        """Host the reconcilers, and end them all when we may not act any more."""
        queues = self._open_queues()
        async with contextlib.aclosing(queues), asyncio.TaskGroup() as group:
            shared = Shared(
                context=self._context,
                pools=self._pools,
                pods=self._pods,
                index=self._index,
                reader=queue_reader.QueueReader(self._context.api, self._context.clock, queues),
                class_name=self._class_name,
                classes=self._classes,
                suffix=self._suffix,
            )
            self._hosts = (group, shared)
            self._wake_all()
            closed = asyncio.Event()
            ticks = group.create_task(ticking.every(CHECK_SECONDS, lambda: self._look(closed)))
            try:
                while True:
                    await closed.wait()
                    closed.clear()
                    await self._dismiss()
            finally:
                ticks.cancel()
                self._hosts = None
                await self._dismiss()

    def _look(self, closed: asyncio.Event) -> None:
        if self._reconcilers and self._context.held_back() is not None:
            closed.set()

    def unsynced(self) -> str | None:
        """Return None: what is missing is in the tables."""
        return None

    async def _dismiss(self) -> None:
        tasks = [task for _, task in self._reconcilers.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _wake_all(self) -> None:
        for pool in self._pools:
            self._context.wake(POOLS.kind, pool.meta.key)

    # Reconcilers

    def _without_reconciler(self) -> set[objects.Key]:
        return {pool.meta.key for pool in self._pools} - self._reconcilers.keys()

    def _see(self, key: objects.Key) -> None:
        """Tell a pool's reconciler that the pool changed, or start one."""
        if key in self._reconcilers:
            self._reconcilers[key][0].wake()
            return
        pool: Pool | None = self._pools.get(key)
        if pool is None or self._hosts is None:
            return
        group, shared = self._hosts
        if shared.is_ours(pool) or shared.was_ours(pool):
            identity = worker_index.PoolId(key.namespace, pool.meta.uid)
            started = PoolReconciler(shared, pool, self._unanswered.setdefault(identity, {}))
            task = group.create_task(started.run(), name=f"pool {key.namespace}/{key.name}")
            self._reconcilers[key] = (started, task)
            self._by_id[identity] = started
            task.add_done_callback(lambda _: self._ended(started))

    def _ended(self, ended: PoolReconciler) -> None:
        """Forget a reconciler: if its pool is there, or one of that name, another may start; else it leaves workers."""
        identity = worker_index.PoolId(ended.key.namespace, ended.uid)
        del self._reconcilers[ended.key]
        del self._by_id[identity]
        self._context.wake(POOLS.kind, ended.key)

    def _workers_changed(self, identity: worker_index.PoolId) -> None:
        if identity in self._by_id:
            self._by_id[identity].wake_for_pods()

    def _forget_unanswered(self) -> None:
        now = self._context.clock.monotonic()
        self._unanswered = {
            identity: names
            for identity, names in self._unanswered.items()
            if identity in self._by_id or any(until > now for until in names.values())
        }

    # Workers without a pool

    async def _free_orphans(self, changed: set[objects.Key]) -> None:
        """Let go of workers that are being deleted and whose pool is gone; those that failed before go last."""
        self._orphans |= {key: 0 for key in changed if key not in self._orphans}
        self._orphans = {key: failures for key, failures in self._orphans.items() if self._may_be_orphan(key)}
        if not self._orphans:
            self._orphan_retry.succeeded()
        elif self._orphan_retry.is_due:
            orphans = sorted(self._orphans, key=lambda key: (self._orphans[key], key))
            outcome = await batch.each(orphans, self._free_orphan)
            self._orphan_retry.note(is_done=outcome.failure is None)
            if outcome.failure is not None:
                log.warning("orphans_not_let_go", pods=len(self._orphans), error=str(outcome.failure))

    def _left_behind(self) -> set[objects.Key]:
        """Return the workers that wait for us and whose pool is not known: nothing may ever change about them."""
        known = {worker_index.PoolId(pool.meta.key.namespace, pool.meta.uid) for pool in self._pools}
        gone = [workers for identity, workers in self._index.as_dict().items() if identity not in known]
        return {pod.meta.key for workers in gone for pod in workers.hanging.values()}

    def _may_be_orphan(self, key: objects.Key) -> bool:
        pod: objects.Pod | None = self._pods.get(key)
        if pod is None or not worker_index.hangs_on_us(pod):
            return False
        return not any(each in self._by_id for each in worker_index.pool_of(pod))

    async def _free_orphan(self, key: objects.Key) -> None:
        pod: objects.Pod | None = self._pods.get(key)
        try:
            if pod is not None and not await self._has_pool(pod):
                await finalizers.remove(self._context.writer, self._pod_target, pod, keys.FINALIZER, attempts=1)
                log.info("orphan_let_go", pod=key)
        except port.KubeError:
            self._orphans[key] = self._orphans.get(key, 0) + 1
            raise
        self._orphans.pop(key, None)

    async def _has_pool(self, pod: objects.Pod) -> bool:
        """Ask for the pool that a worker names; a worker that names none, or none that could be, has none."""
        owner = pod.meta.controller
        if not worker_index.pool_of(pod) or owner is None or not _NAME.fullmatch(owner.name):
            return False
        key = objects.Key(pod.meta.key.namespace, owner.name)
        known: Pool | None = self._pools.get(key)
        if known is not None and known.meta.uid == owner.uid:
            return True
        try:
            found = objects.simple(await port.get(self._context.api, POOLS.path(key.name, key.namespace)))
        except port.NotFoundError:
            return False
        return found.meta.uid == owner.uid

    def _measure(self) -> Iterable[metrics.Metric]:
        """Return the numbers of pools; of those that rest while the runtime is paused, from what is known of them."""
        handled = [reconciler.numbers() for reconciler, _ in self._reconcilers.values()]
        return pool_metrics.of([*handled, *(self._resting() if self._context.is_paused() else ())])

    def _resting(self) -> Iterator[pool_metrics.Numbers]:
        for pool, workers in self._resting_pools():
            counts = decide.counts(workers, pool.resource.spec.pool_capacity, unanswered=0)
            yield pool_metrics.Numbers(pool=pool.meta.key, workers=counts, queue_size=pool.resource.status.queue_size)

    def _resting_pools(self) -> Iterator[tuple[Pool, worker_index.PoolWorkers]]:
        for pool in self._pools:
            key = pool.meta.key
            if key not in self._reconcilers and pool.resource.spec.worker_pool_class_name == self._class_name:
                yield pool, self._index.get(worker_index.PoolId(key.namespace, pool.meta.uid)) or worker_index.NOBODY

    def _planned_at_rest(self, pool: Pool, workers: worker_index.PoolWorkers) -> Iterator[plans.Command]:
        now = self._context.clock.now()
        return planned.of_pool(pool, workers, is_ours=True, now=now, template=None, growth=Growth())
