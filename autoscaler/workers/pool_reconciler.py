"""The life of one pool while we handle it: its queue is asked on schedule, its workers are cleaned up and made.

Each pool lives in a task of its own, so that a slow queue or a refused worker is nobody else's trouble. Its steps run
one after the other, on what is known then; only the reading of the queue goes on beside them. It ends when the pool is
gone, is no longer ours, or we may not act.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import structlog

from autoscaler import control
from autoscaler.api import keys, resources
from autoscaler.api.resources.worker_pools import PoolStatus, WorkerPool
from autoscaler.kube import kinds, objects, port, store, writer
from autoscaler.workers import decide, event_messages, pods, poller, queue_reader, status_writer, templates, worker_pods
from autoscaler.workers.model import Counts, Policy, Pool, Problem
from autoscaler.workers.status_writer import Stage

log = structlog.get_logger()
POOLS: Final = kinds.custom(resources.WorkerPool)
GATHER_SECONDS: Final = 0.05
"""Changes of pods are gathered for so long: a hundred of them are one step."""
AGAIN_SECONDS: Final = (1.0, 60.0)
"""After what failed: when it is tried again, at first and at last."""
GROW_AGAIN_SECONDS: Final = (5.0, 300.0)
"""After workers were refused, or failed at once: when new ones are made, at first and at last."""
HANDOVER_SECONDS: Final = 10.0
"""A pool that another operator handled grows only after this: what that one has sent has arrived by then."""
NAMES_LOGGED: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What all pools stand on."""

    context: control.ControllerContext
    pools: store.Table[Pool]
    pods: store.Table[objects.Pod]
    reader: queue_reader.QueueReader
    class_name: str | None
    """Pools of this class are ours; None: pools without a class are."""
    suffix: Callable[[], str] = worker_pods.random_suffix

    def is_ours(self, pool: Pool) -> bool:
        return pool.resource.spec.worker_pool_class_name == self.class_name


class PoolReconciler:
    """One pool."""

    def __init__(self, ground: Ground, pool: Pool, unsure: dict[str, float]) -> None:
        self.key = pool.meta.key
        self.uid = pool.meta.uid
        self.queue_size: int | None = None
        self._ground = ground
        self._context = ground.context
        self._workers = worker_pods.WorkerPods(
            ground.context, ground.pods, pool=self.key, uid=self.uid, unsure=unsure, suffix=ground.suffix
        )
        self._target = writer.Target(resource=POOLS, decode=objects.custom(WorkerPool), table=ground.pools)
        self._woken = asyncio.Event()
        self._poller = poller.Poller(ground.context.clock, ground.reader, uid=self.uid, wake=self._woken.set)
        self._status = status_writer.StatusWriter(ground.context, self._target, pool)
        self._pool_changed = True
        self._size: int | None = None
        """What the queue said last, until it was acted on."""
        self._template_checked: int | None = None
        self._failed_steps = 0
        self._bad_growths = 0
        """How often in a row workers were refused, or failed before any worked."""
        self._grow_after = float("-inf")
        """On the clock that never goes back, as all times here."""
        if pool.resource.status.managed_by not in (None, ground.context.identity):
            self._grow_after = ground.context.clock.monotonic() + HANDOVER_SECONDS
        self._again_at: float | None = None
        self._is_adopted = False
        self._told_failed: frozenset[str] = frozenset()

    def poke(self) -> None:
        """Say that the pool itself changed."""
        self._pool_changed = True
        self._woken.set()

    def poke_pods(self) -> None:
        """Say that a pod of the pool changed."""
        self._woken.set()

    @property
    def polls(self) -> Counter[str]:
        """Readings of the queue by how they ended."""
        return self._poller.polls

    @property
    def poll_seconds(self) -> float:
        """How long all readings took together."""
        return self._poller.poll_seconds

    def counts(self) -> Counts:
        """Count the workers."""
        pool = self._mine()
        return decide.counts(self._workers.workers(), pool.resource.spec.pool_capacity if pool else 0)

    async def run(self) -> None:
        """Go on until the pool is gone or not ours, or we may not act."""
        try:
            while (pool := self._mine()) is not None and self._context.held_back() is None:
                self._pool_changed = False
                self._woken.clear()
                await self._step(pool)
                await self._until_woken()
        except writer.FencedError as error:
            log.info("pool_left", pool=self.key, reason=str(error))
        finally:
            self._poller.stop()

    def _mine(self) -> Pool | None:
        pool = self._ground.pools.get(self.key)
        return pool if pool is not None and pool.meta.uid == self.uid and self._ground.is_ours(pool) else None

    async def _step(self, pool: Pool) -> None:
        """Reconcile; what fails is told and tried again later, and is this pool's trouble alone."""
        self._again_at = None
        try:
            await self._reconcile(pool)
            self._status.settle(Stage.CLUSTER)
            self._note_success()
        except port.ConflictError:  # what we knew is old: the change that overtook us is on its way
            self._try_again()
        except port.KubeError as error:
            await self._stumble(Problem(reason="ApiError", message=str(error)))
        except writer.FencedError:
            raise
        except Exception as error:  # the boundary of one pool: the others go on
            log.exception("pool_failed", pool=self.key, error=str(error))
            await self._stumble(Problem(reason="InternalError", message=f"{type(error).__name__}: {error}"))

    async def _stumble(self, problem: Problem) -> None:
        """Tell what broke a step, and try again later."""
        self._try_again()
        self._status.fail(Stage.CLUSTER, problem)
        with contextlib.suppress(port.KubeError):
            await self._status.publish(self._mine(), self.counts(), self.queue_size)

    async def _reconcile(self, pool: Pool) -> None:
        if pool.meta.deleted_at is not None:
            await self._leave(pool)
            return
        await self._adopt(pool)
        if (await self._workers.let_go()).failure is not None:
            self._try_again()
        self._status.announce(pool.resource.spec.status)
        if pool.resource.spec.status is PoolStatus.SHUTDOWN:
            await self._shut_down()
        else:
            await self._follow(pool)
        await self._status.publish(self._mine(), self.counts(), self.queue_size)

    # Coming and going

    async def _adopt(self, pool: Pool) -> None:
        """Put our finalizer on the pool before it gets its first worker."""
        if keys.FINALIZER not in pool.meta.finalizers:
            await self._set_finalizers(pool, [*pool.meta.finalizers, keys.FINALIZER])
        if not self._is_adopted and pool.resource.status.managed_by != self._context.identity:
            self._status.tell(event_messages.adopted(self._context.identity))
        self._is_adopted = True

    async def _leave(self, pool: Pool) -> None:
        """Remove all workers of a pool that is being deleted, then let it go."""
        self._poller.stop()
        await self._workers.confirm()
        outcome = await self._workers.remove([worker.name for worker in self._workers.workers()])
        if outcome.failure is not None:
            self._status.tell(event_messages.not_cleaned(f"not all workers could be removed: {outcome.failure}"))
            self._try_again()
        elif keys.FINALIZER in pool.meta.finalizers and self._workers.is_free():
            left = [finalizer for finalizer in pool.meta.finalizers if finalizer != keys.FINALIZER]
            with contextlib.suppress(port.NotFoundError):
                await self._set_finalizers(pool, left)

    async def _set_finalizers(self, pool: Pool, finalizers: list[str]) -> None:
        changes = {"metadata": {"finalizers": finalizers or None}}
        await self._context.writer.patch(self._target, self.key, changes, only_if=writer.Precondition.of(pool))

    async def _shut_down(self) -> None:
        self._poller.forget()
        self._status.forget()
        self._size, self._bad_growths, self._grow_after = None, 0, float("-inf")
        await self._remove([worker.name for worker in self._workers.workers()])

    # Following the queue

    async def _follow(self, pool: Pool) -> None:
        """Ask the queue when its time has come or the pool was changed; act on what it said."""
        if self._poller.ask(pool):
            self._begin_anew()
        if (answer := self._poller.take(pool)) is not None:
            self._size = answer.size
            if answer.problem is None:
                self._status.settle(Stage.QUEUE)
            else:
                self._status.fail(Stage.QUEUE, answer.problem)
            await self._clean_up(pool)
        if self._size is not None:
            self.queue_size = self._size
            await self._grow(pool, self._size)
            self._size = None  # acted on: the same number read again may speak of other jobs

    def _begin_anew(self) -> None:
        """Forget what held the pool back: it was changed."""
        self._size, self._bad_growths = None, 0
        self._grow_after = min(self._grow_after, self._context.clock.monotonic() + HANDOVER_SECONDS)

    # Workers

    async def _clean_up(self, pool: Pool) -> None:
        chosen = decide.clean_up(self._workers.workers(), _policy(pool))
        gone_wrong = frozenset((*chosen.failed, *(worker.name for worker in chosen.stuck)))
        if failed := [name for name in chosen.failed if name not in self._told_failed]:
            log.warning("workers_failed", pool=self.key, workers=failed[:NAMES_LOGGED], count=len(failed))
            self._status.tell(event_messages.failed(len(failed)))
        if stuck := [worker for worker in chosen.stuck if worker.name not in self._told_failed]:
            self._status.tell(event_messages.stuck(stuck))
        self._told_failed = gone_wrong
        self._note_workers(failed=bool(failed))
        if removed := await self._remove(chosen.remove):
            self._status.tell(event_messages.cleaned(removed))

    async def _remove(self, names: tuple[str, ...] | list[str]) -> int:
        outcome = await self._workers.remove(names)
        if outcome.failure is None:
            self._status.settle(Stage.CLEAN_UP)
        else:
            left = f"{len(outcome.failures)} of {event_messages.workers(len(names))}"
            message = f"{left} could not be removed: {outcome.failure}"
            self._status.fail(Stage.CLEAN_UP, Problem(reason="RemovalFailed", message=message))
            self._try_again()
        return outcome.done

    async def _grow(self, pool: Pool, queue_size: int) -> None:
        await self._workers.confirm()
        policy = _policy(pool)
        growth = decide.grow(self._workers.workers(), policy, queue_size)
        self._status.note_full(
            event_messages.full(growth, policy.capacity) if policy.is_active and growth.left_out else None
        )
        if not growth.create:
            self._status.settle(Stage.GROWTH)
        wanted = growth.create
        if wanted and self._context.clock.monotonic() < self._grow_after - poller.TICK_SECONDS:
            wanted = 0
            self._poller.ask_again(self._grow_after)
        unchecked = self._template_checked != pool.meta.generation or self._status.has_failed(Stage.TEMPLATE)
        if wanted or unchecked:
            await self._create(pool, wanted)

    async def _create(self, pool: Pool, count: int) -> None:
        """Make workers from the template as it is now; with a count of 0, only see whether that would work."""
        try:
            template = await templates.read(self._context.api, pool)
            pods.make(template, templates.blueprint(pool), self._ground.suffix())
        except (pods.TemplateError, port.NotFoundError) as error:
            self._status.fail(Stage.TEMPLATE, Problem(reason="BadTemplate", message=str(error)))
            return
        self._status.settle(Stage.TEMPLATE)
        self._template_checked = pool.meta.generation
        if count:
            await self._create_from(template, pool, count)

    async def _create_from(self, template: dict[str, Any], pool: Pool, count: int) -> None:
        """Make workers; after a refusal, one is tried before the others."""
        tries = [1, count - 1] if self._status.has_failed(Stage.GROWTH) else [count]
        done, failure = 0, None
        for part in tries:
            if failure is None:
                outcome = await self._workers.create(
                    part, template, templates.blueprint(pool), is_wanted=self._may_grow
                )
                done, failure = done + outcome.done, outcome.failure
        if done:
            self._status.tell(event_messages.created(done))
        if failure is None:
            self._status.settle(Stage.GROWTH)
            return
        self._hold_growth()
        message = f"created {done} of {event_messages.workers(count)}: {failure}"
        self._status.fail(Stage.GROWTH, Problem(reason="CreationFailed", message=message))

    def _may_grow(self) -> bool:
        """Ask before each creation: the pool may have been changed, shut down or deleted since it was planned."""
        pool = self._mine()
        if pool is None or pool.meta.deleted_at is not None or not _policy(pool).is_active:
            return False
        return len(self._workers.workers()) < pool.resource.spec.pool_capacity

    def _note_workers(self, *, failed: bool) -> None:
        """Make new workers less and less often while all that is made fails at once; begin anew when one works."""
        if self._workers.has_proven():
            self._bad_growths = 0
        elif failed:
            self._hold_growth()

    def _hold_growth(self) -> None:
        first, last = GROW_AGAIN_SECONDS
        pause = min(last, first * 2.0 ** min(self._bad_growths, 10))
        self._bad_growths += 1
        self._grow_after = self._context.clock.monotonic() + pause
        self._poller.ask_again(self._grow_after)
        log.warning("growth_held", pool=self.key, seconds=pause)

    # Waiting

    def _try_again(self) -> None:
        first, last = AGAIN_SECONDS
        pause = min(last, first * 2 ** min(self._failed_steps, 10))
        self._failed_steps += 1
        self._again_at = self._context.clock.monotonic() + pause

    def _note_success(self) -> None:
        if self._again_at is None:
            self._failed_steps = 0

    async def _until_woken(self) -> None:
        """Wait for a change or for what is due; changes of pods alone are gathered for a moment."""
        due = [at for at in (*self._poller.times(), self._status.publish_at, self._again_at) if at is not None]
        limit = max(0.0, min(due) - self._context.clock.monotonic()) if due else None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit):
                await self._until_changed()

    async def _until_changed(self) -> None:
        while True:
            await self._woken.wait()
            if self._pool_changed or self._poller.is_done:
                return
            if self._again_at is None:
                await asyncio.sleep(GATHER_SECONDS)
                return
            self._woken.clear()  # after what failed, pods can wait until it is tried again


def _policy(pool: Pool) -> Policy:
    spec = pool.resource.spec
    return Policy(status=spec.status, capacity=spec.pool_capacity, retain_failed=spec.worker_spec.retain_failed_workers)
