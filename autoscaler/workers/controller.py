"""Worker pools: every pool of our class has a life of its own here, for as long as we may act.

This module starts and ends those lives and hands changes on to them. It decides nothing about a pool, but for one case
nobody else is left for: workers of a pool that is gone must not hang on our finalizer.
"""

import asyncio
import contextlib
import re
from collections.abc import Callable, Iterable
from typing import Final

import structlog

from autoscaler import control
from autoscaler.api.resources.worker_pools import WorkerPool
from autoscaler.kube import kinds, objects, port, writer
from autoscaler.workers import leaving, pool_reconciler, queue_reader, worker_pods
from autoscaler.workers.model import Phase, Pool
from autoscaler.workers.pool_reconciler import POOLS, Ground, PoolReconciler

log = structlog.get_logger()
ORPHAN_SECONDS: Final = 10.0
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
CHECK_SECONDS: Final = 1.0
"""How often to see whether we may still act."""


class Controller:
    """Handles the pools of one class."""

    def __init__(
        self,
        context: control.ControllerContext,
        *,
        class_name: str | None,
        namespace: str | None,
        open_queues: Callable[[], queue_reader.Queues],
        suffix: Callable[[], str] = worker_pods.random_suffix,
    ) -> None:
        """Watch pools and pods of one namespace, or of all (None). Queues are opened when there is a loop to do so."""
        self._context = context
        self._class_name = class_name
        self._open_queues = open_queues
        self._suffix = suffix
        self._pools = context.watch(POOLS, objects.custom(WorkerPool), namespace)
        self._pods = context.watch(kinds.PODS, objects.pod, namespace)
        self._pod_target = writer.Target(resource=kinds.PODS, decode=objects.pod, table=self._pods)
        self._lives: dict[objects.Key, tuple[PoolReconciler, asyncio.Task[None]]] = {}
        self._by_id: dict[worker_pods.PoolId, PoolReconciler] = {}
        self._unsure: dict[worker_pods.PoolId, dict[str, float]] = {}
        """Workers of each pool that were asked for without an answer; they may come when another life has begun."""
        self._unfreed: dict[objects.Key, float] = {}
        """Orphans that could not be let go, and when to try again."""
        self._hosts: tuple[asyncio.TaskGroup, Ground] | None = None
        self._farewell = leaving.Farewell(context, class_name=class_name, namespace=namespace)
        self._pods.index(worker_pods.by_pool)
        self._pods.listen(self._pod_changed)
        context.feed(self)
        context.measure(self._measure)

    async def reconcile(self, dirty: control.Dirty) -> float | None:
        """Hand changes of pools to their lives; let go of workers whose pool is gone, and of all when we leave."""
        if self._farewell.is_leaving:
            await self._dismiss()
            return await self._farewell.carry_out()
        changed = {key for kind, key in dirty if kind == POOLS.kind} | self._without_life()
        for key in sorted(changed):
            self._see(key)
        await self._free_orphans({key for kind, key in dirty if kind == kinds.PODS.kind})
        self._forget_unsure()
        return self._context.clock.now() + ORPHAN_SECONDS if self._unfreed else None

    # The source: it hosts the lives

    async def run(self) -> None:
        """Host the lives, and end them all when we may not act any more."""
        queues = self._open_queues()
        async with contextlib.aclosing(queues), asyncio.TaskGroup() as group:
            reader = queue_reader.QueueReader(self._context.api, self._context.clock, queues)
            ground = Ground(
                context=self._context,
                pools=self._pools,
                pods=self._pods,
                reader=reader,
                class_name=self._class_name,
                suffix=self._suffix,
            )
            self._hosts = (group, ground)
            self._wake_all()
            try:
                while True:
                    await asyncio.sleep(CHECK_SECONDS)
                    if self._lives and self._context.held_back() is not None:
                        await self._dismiss()
            finally:
                self._hosts = None
                await self._dismiss()

    def unsynced(self) -> str | None:
        """Return None: what is missing is in the tables."""
        return None

    async def _dismiss(self) -> None:
        tasks = [task for _, task in self._lives.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _wake_all(self) -> None:
        for pool in self._pools:
            self._context.wake(POOLS.kind, pool.meta.key)

    # Lives

    def _without_life(self) -> set[objects.Key]:
        return {pool.meta.key for pool in self._pools} - self._lives.keys()

    def _see(self, key: objects.Key) -> None:
        """Tell a pool's life that the pool changed, or begin one."""
        if key in self._lives:
            self._lives[key][0].poke()
            return
        pool: Pool | None = self._pools.get(key)
        if pool is None or self._hosts is None:
            return
        group, ground = self._hosts
        if ground.is_ours(pool):
            identity = worker_pods.PoolId(key.namespace, pool.meta.uid)
            begun = PoolReconciler(ground, pool, self._unsure.setdefault(identity, {}))
            task = group.create_task(begun.run(), name=f"pool {key.namespace}/{key.name}")
            self._lives[key] = (begun, task)
            self._by_id[identity] = begun
            task.add_done_callback(lambda _: self._ended(begun))

    def _ended(self, ended: PoolReconciler) -> None:
        """Forget a life; if its pool is there, or one of the same name, another may begin."""
        identity = worker_pods.PoolId(ended.key.namespace, ended.uid)
        del self._lives[ended.key]
        del self._by_id[identity]
        if self._pools.get(ended.key) is not None:
            self._context.wake(POOLS.kind, ended.key)

    def _pod_changed(self, old: objects.Pod | None, new: objects.Pod | None) -> None:
        for identity in {each for pod in (old, new) if pod is not None for each in worker_pods.by_pool(pod)}:
            if identity in self._by_id:
                self._by_id[identity].poke_pods()

    async def _free_orphans(self, changed: set[objects.Key]) -> None:
        now = self._context.clock.monotonic()
        due = changed | {key for key, at in self._unfreed.items() if at <= now}
        orphans = sorted(key for key in due if self._may_be_orphan(key))
        self._unfreed = {key: at for key, at in self._unfreed.items() if key not in due}
        await asyncio.gather(*(self._free_orphan(key) for key in orphans))

    def _forget_unsure(self) -> None:
        now = self._context.clock.monotonic()
        self._unsure = {
            identity: names
            for identity, names in self._unsure.items()
            if identity in self._by_id or any(until > now for until in names.values())
        }

    def _may_be_orphan(self, key: objects.Key) -> bool:
        pod: objects.Pod | None = self._pods.get(key)
        return (
            pod is not None
            and worker_pods.hangs_on_us(pod)
            and not any(each in self._by_id for each in worker_pods.by_pool(pod))
        )

    async def _free_orphan(self, key: objects.Key) -> None:
        """Let go of a worker that is being deleted and whose pool is gone; one that fails does not hold up others."""
        pod: objects.Pod | None = self._pods.get(key)
        try:
            if pod is not None and not await self._has_pool(pod):
                await worker_pods.let_go(self._context.writer, self._pod_target, pod)
                log.info("orphan_let_go", pod=key)
        except port.ConflictError:  # it changed: we are woken again
            return
        except port.KubeError as error:
            log.warning("orphan_not_let_go", pod=key, error=str(error))
            self._unfreed[key] = self._context.clock.monotonic() + ORPHAN_SECONDS

    async def _has_pool(self, pod: objects.Pod) -> bool:
        """Ask for the pool that a worker names; a worker that names none, or none that could be, has none."""
        owner = pod.meta.controller
        if not worker_pods.by_pool(pod) or owner is None or not _NAME.fullmatch(owner.name):
            return False
        key = objects.Key(pod.meta.key.namespace, owner.name)
        known: Pool | None = self._pools.get(key)
        if known is not None and known.meta.uid == owner.uid:
            return True
        request = port.Request(method="GET", path=POOLS.path(key.name, key.namespace))
        try:
            found = objects.simple(port.required(await self._context.api.send(request)))
        except port.NotFoundError:
            return False
        return found.meta.uid == owner.uid

    # Numbers

    def _measure(self) -> Iterable[control.Metric]:
        lives = [begun for begun, _ in self._lives.values()]
        counted = [(begun, begun.counts()) for begun in lives]
        yield _metric(
            "workers",
            "Worker pods of a pool, by phase.",
            control.MetricType.GAUGE,
            [
                _sample(begun, number, phase=phase)
                for begun, counts in counted
                for phase, number in (
                    (Phase.RUNNING, counts.running),
                    (Phase.PENDING, counts.pending),
                    (Phase.FAILED, counts.failed),
                )
            ],
        )
        yield _metric(
            "capacity",
            "How many more workers a pool may have.",
            control.MetricType.GAUGE,
            [_sample(begun, counts.capacity) for begun, counts in counted],
        )
        yield _metric(
            "queue_size",
            "Jobs that waited when the queue was last read.",
            control.MetricType.GAUGE,
            [_sample(begun, begun.queue_size) for begun in lives if begun.queue_size is not None],
        )
        yield _metric(
            "polls",
            "Readings of a pool's queue, by how they ended.",
            control.MetricType.COUNTER,
            [_sample(begun, number, outcome=how) for begun in lives for how, number in sorted(begun.polls.items())],
        )
        yield _metric(
            "poll_seconds",
            "How long readings of a pool's queue take.",
            control.MetricType.SUMMARY,
            [
                sample
                for begun in lives
                for sample in (
                    _sample(begun, begun.polls.total(), part="count"),
                    _sample(begun, begun.poll_seconds, part="sum"),
                )
            ],
        )


def _metric(name: str, text: str, kind: control.MetricType, samples: Iterable[control.Sample]) -> control.Metric:
    return control.Metric(name=f"sluice_worker_pool_{name}", text=text, type=kind, samples=tuple(samples))


def _sample(begun: pool_reconciler.PoolReconciler, value: float, *, part: str = "", **labels: str) -> control.Sample:
    place = {"pool_namespace": begun.key.namespace, "pool": begun.key.name}
    return control.Sample(labels={**place, **labels}, value=value, part=part)
