"""The life of one pool while we handle it: its queue is asked in rhythm, its workers are cleaned up and made.

Each pool lives in a task of its own, so that a slow queue or a refused worker is nobody else's trouble. Its steps run
one after the other, on what is known then; only the reading of the queue goes on beside them. It ends when the pool is
gone, is no longer ours, or we may not act.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import msgspec
import structlog

from autoscaler import control
from autoscaler.api import keys, resources
from autoscaler.api.resources.worker_pools import PoolStatus, WorkerPool
from autoscaler.kube import events, kinds, objects, port, store, writer
from autoscaler.queues import port as queues
from autoscaler.workers import crew, decide, pods, reading, rhythm, status, telling
from autoscaler.workers.model import Counts, Policy, Problem, Told

log = structlog.get_logger()
Pool = objects.Custom[WorkerPool]
POOLS: Final = kinds.custom(resources.WorkerPool)
GATHER_SECONDS: Final = 0.05
"""Changes of pods are gathered for so long: a hundred of them are one step."""
PUBLISH_SECONDS: Final = 1.0
"""The status is written at most this often."""
TICK_SECONDS: Final = 0.001
"""What is due within this is due now: clocks are rounded."""
AGAIN_SECONDS: Final = (1.0, 60.0)
"""After what failed: when it is tried again, at first and at last."""
GROW_AGAIN_SECONDS: Final = (5.0, 300.0)
"""After workers were refused, or failed at once: when new ones are made, at first and at last."""
HANDOVER_SECONDS: Final = 10.0
"""A pool that another operator handled grows only after this: what that one has sent has arrived by then."""
NAMES_LOGGED: Final = 10
READ: Final = "Read"
"""How a reading that succeeded is counted."""


class Stage(StrEnum):
    """What may go wrong, in the order in which it is told."""

    QUEUE = "queue"
    TEMPLATE = "template"
    GROWTH = "growth"
    CLEAN_UP = "clean-up"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What all pools stand on."""

    footing: control.Footing
    pools: store.Table[Pool]
    pods: store.Table[objects.Pod]
    reader: reading.Reader
    class_name: str | None
    """Pools of this class are ours; None: pools without a class are."""
    suffix: Callable[[], str] = crew.random_suffix

    def is_ours(self, pool: Pool) -> bool:
        return pool.resource.spec.worker_pool_class_name == self.class_name


class _Source(msgspec.Struct, frozen=True):
    template: dict[str, Any] = {}


class _Deployment(msgspec.Struct, frozen=True):
    spec: _Source = _Source()


_DEPLOYMENT: Final = msgspec.json.Decoder(_Deployment)


class Life:
    """One pool."""

    def __init__(self, ground: Ground, pool: Pool, unsure: dict[str, float]) -> None:
        self.key = pool.meta.key
        self.uid = pool.meta.uid
        self.polls: Counter[str] = Counter()
        """Readings by how they ended."""
        self.poll_seconds = 0.0
        """How long all readings took together."""
        self.queue_size: int | None = None
        self._ground = ground
        self._footing = ground.footing
        self._crew = crew.Crew(
            ground.footing, ground.pods, pool=self.key, uid=self.uid, unsure=unsure, suffix=ground.suffix
        )
        self._target = writer.Target(resource=POOLS, decode=objects.custom(WorkerPool), table=ground.pools)
        self._woken = asyncio.Event()
        self._pool_changed = True
        self._reading: asyncio.Task[int] | None = None
        self._ask_again_at: float | None = None
        """When the queue is asked once more beside its rhythm, for workers that could not be made."""
        self._size: int | None = None
        """What the queue said last, until it was acted on."""
        self._next_poll: float | None = None
        """On the clock that never goes back, as all times here."""
        self._asked: int | None = None
        """The generation of the spec that the queue was last asked for."""
        self._template_checked: int | None = None
        self._unread = 0
        """How many readings in a row have failed."""
        self._failed_steps = 0
        self._bad_growths = 0
        """How often in a row workers were refused, or failed before any worked."""
        self._grow_after = float("-inf")
        if pool.resource.status.managed_by not in (None, ground.footing.identity):
            self._grow_after = ground.footing.clock.monotonic() + HANDOVER_SECONDS
        self._again_at: float | None = None
        self._publish_at: float | None = None
        self._published_at = float("-inf")
        self._said: tuple[int, status.Known] | None = None
        """What the status is known to say, and in which version of the pool."""
        self._problems: dict[Stage, Problem] = {}
        self._full: Told | None = None
        self._is_adopted = False
        self._announced = status.was(pool.resource)
        self._told_failed: frozenset[str] = frozenset()

    def poke(self) -> None:
        """Say that the pool itself changed."""
        self._pool_changed = True
        self._woken.set()

    def poke_pods(self) -> None:
        """Say that a pod of the pool changed."""
        self._woken.set()

    def counts(self) -> Counts:
        """Count the workers."""
        pool = self._mine()
        return decide.counts(self._crew.workers(), pool.resource.spec.pool_capacity if pool else 0)

    async def run(self) -> None:
        """Go on until the pool is gone or not ours, or we may not act."""
        try:
            while (pool := self._mine()) is not None and self._footing.held_back() is None:
                self._pool_changed = False
                self._woken.clear()
                await self._step(pool)
                await self._until_woken()
        except writer.FencedError as error:
            log.info("pool_left", pool=self.key, reason=str(error))
        finally:
            self._stop_reading()

    def _mine(self) -> Pool | None:
        pool = self._ground.pools.get(self.key)
        return pool if pool is not None and pool.meta.uid == self.uid and self._ground.is_ours(pool) else None

    async def _step(self, pool: Pool) -> None:
        """Reconcile; what fails is told and tried again later, and is this pool's trouble alone."""
        self._again_at = None
        try:
            await self._reconcile(pool)
            self._problems.pop(Stage.CLUSTER, None)
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
        self._fail(Stage.CLUSTER, problem)
        with contextlib.suppress(port.KubeError):
            await self._publish()

    async def _reconcile(self, pool: Pool) -> None:
        if pool.meta.deleted_at is not None:
            await self._leave(pool)
            return
        await self._adopt(pool)
        if (await self._crew.let_go()).failure is not None:
            self._try_again()
        self._announce(pool.resource.spec.status)
        if pool.resource.spec.status is PoolStatus.SHUTDOWN:
            await self._shut_down()
        else:
            await self._follow(pool)
        await self._publish()

    # Coming and going

    async def _adopt(self, pool: Pool) -> None:
        """Put our finalizer on the pool before it gets its first worker."""
        if keys.FINALIZER not in pool.meta.finalizers:
            await self._set_finalizers(pool, [*pool.meta.finalizers, keys.FINALIZER])
        if not self._is_adopted and pool.resource.status.managed_by != self._footing.identity:
            self._tell(telling.adopted(self._footing.identity))
        self._is_adopted = True

    async def _leave(self, pool: Pool) -> None:
        """Remove all workers of a pool that is being deleted, then let it go."""
        self._stop_reading()
        await self._crew.confirm()
        outcome = await self._crew.remove([worker.name for worker in self._crew.workers()])
        if outcome.failure is not None:
            self._tell(telling.not_cleaned(f"not all workers could be removed: {outcome.failure}"))
            self._try_again()
        elif keys.FINALIZER in pool.meta.finalizers and self._crew.is_free():
            left = [finalizer for finalizer in pool.meta.finalizers if finalizer != keys.FINALIZER]
            with contextlib.suppress(port.NotFoundError):
                await self._set_finalizers(pool, left)

    async def _set_finalizers(self, pool: Pool, finalizers: list[str]) -> None:
        changes = {"metadata": {"finalizers": finalizers or None}}
        await self._footing.writer.patch(self._target, self.key, changes, only_if=writer.Precondition.of(pool))

    async def _shut_down(self) -> None:
        self._stop_reading()
        self._next_poll, self._ask_again_at, self._asked, self._size, self._full = None, None, None, None, None
        self._bad_growths, self._grow_after = 0, float("-inf")
        self._problems.clear()
        await self._remove([worker.name for worker in self._crew.workers()])

    # Following the queue

    async def _follow(self, pool: Pool) -> None:
        """Ask the queue when its time has come or the pool was changed; act on what it said."""
        self._ask(pool)
        if self._reading is not None and self._reading.done():
            read, self._reading = self._reading, None
            self._size = self._taken(read)
            self._next_poll = self._due(pool)
            await self._clean_up(pool)
        if self._size is not None:
            self.queue_size = self._size
            await self._grow(pool, self._size)
            self._size = None  # acted on: the same number read again may speak of other jobs

    def _ask(self, pool: Pool) -> None:
        now, changed = self._footing.clock.monotonic(), self._asked != pool.meta.generation
        if changed:
            self._stop_reading()
            self._unread, self._size = 0, None
            self._bad_growths, self._grow_after = 0, min(self._grow_after, now + HANDOVER_SECONDS)
        elif self._reading is not None or not self._is_due(now):
            return
        self._asked = pool.meta.generation
        self._next_poll, self._ask_again_at = self._due(pool), None
        self._reading = asyncio.create_task(self._read(pool), name=f"reading {self.key}")
        self._reading.add_done_callback(lambda _: self._woken.set())

    def _is_due(self, now: float) -> bool:
        times = [at for at in (self._next_poll, self._ask_again_at) if at is not None]
        return not times or now >= min(times) - TICK_SECONDS

    def _due(self, pool: Pool) -> float:
        """Return when the queue is next asked. The wall clock only says how far off that is, for it may be set."""
        interval = rhythm.seconds(pool.resource.spec.queue.interval)
        now = self._footing.clock.now() + 2 * TICK_SECONDS  # one that is due now is not the next
        due = rhythm.next_poll(now, uid=self.uid, interval_seconds=interval, failures=self._unread)
        return self._footing.clock.monotonic() + due - self._footing.clock.now()

    async def _read(self, pool: Pool) -> int:
        started = self._footing.clock.monotonic()
        try:
            return await self._ground.reader.read(pool.resource.spec.queue.source, self.key.namespace)
        finally:
            self.poll_seconds += self._footing.clock.monotonic() - started

    def _taken(self, read: asyncio.Task[int]) -> int | None:
        """Return what a reading said; None if it failed, which is not the same as an empty queue."""
        try:
            size = read.result()
        except queues.QueueError as error:
            self._note_unread(Problem(reason=error.reason, message=error.message))
            return None
        except Exception as error:  # a fault of ours, and no reason to take the queue for empty or to forget it
            log.exception("reading_failed", pool=self.key, error=str(error))
            self._note_unread(Problem(reason="InternalError", message=f"{type(error).__name__}: {error}"))
            return None
        self._unread = 0
        self.polls[READ] += 1
        self._problems.pop(Stage.QUEUE, None)
        return size

    def _note_unread(self, problem: Problem) -> None:
        self._unread += 1
        self.polls[problem.reason] += 1
        self._fail(Stage.QUEUE, problem)

    def _stop_reading(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    # Workers

    async def _clean_up(self, pool: Pool) -> None:
        chosen = decide.clean_up(self._crew.workers(), _policy(pool))
        gone_wrong = frozenset((*chosen.failed, *(worker.name for worker in chosen.stuck)))
        if failed := [name for name in chosen.failed if name not in self._told_failed]:
            log.warning("workers_failed", pool=self.key, workers=failed[:NAMES_LOGGED], count=len(failed))
            self._tell(telling.failed(len(failed)))
        if stuck := [worker for worker in chosen.stuck if worker.name not in self._told_failed]:
            self._tell(telling.stuck(stuck))
        self._told_failed = gone_wrong
        self._note_workers(failed=bool(failed))
        if removed := await self._remove(chosen.remove):
            self._tell(telling.cleaned(removed))

    async def _remove(self, names: tuple[str, ...] | list[str]) -> int:
        outcome = await self._crew.remove(names)
        if outcome.failure is None:
            self._problems.pop(Stage.CLEAN_UP, None)
        else:
            message = (
                f"{len(outcome.failures)} of {telling.workers(len(names))} could not be removed: {outcome.failure}"
            )
            self._fail(Stage.CLEAN_UP, Problem(reason="RemovalFailed", message=message))
            self._try_again()
        return outcome.done

    async def _grow(self, pool: Pool, queue_size: int) -> None:
        await self._crew.confirm()
        policy = _policy(pool)
        growth = decide.grow(self._crew.workers(), policy, queue_size)
        self._note_full(telling.full(growth, policy.capacity) if policy.is_active and growth.left_out else None)
        if not growth.create:
            self._problems.pop(Stage.GROWTH, None)
        wanted = growth.create
        if wanted and self._footing.clock.monotonic() < self._grow_after - TICK_SECONDS:
            wanted, self._ask_again_at = 0, self._grow_after
        unchecked = self._template_checked != pool.meta.generation or Stage.TEMPLATE in self._problems
        if wanted or unchecked:
            await self._create(pool, wanted)

    async def _create(self, pool: Pool, count: int) -> None:
        """Make workers from the template as it is now; with a count of 0, only see whether that would work."""
        try:
            template = await self._template(pool)
            pods.make(template, _blueprint(pool), self._ground.suffix())
        except (pods.TemplateError, port.NotFoundError) as error:
            self._fail(Stage.TEMPLATE, Problem(reason="BadTemplate", message=str(error)))
            return
        self._problems.pop(Stage.TEMPLATE, None)
        self._template_checked = pool.meta.generation
        if count:
            await self._create_from(template, pool, count)

    async def _create_from(self, template: dict[str, Any], pool: Pool, count: int) -> None:
        """Make workers; after a refusal, one is tried before the others."""
        tries = [1, count - 1] if Stage.GROWTH in self._problems else [count]
        done, failure = 0, None
        for part in tries:
            if failure is None:
                outcome = await self._crew.create(part, template, _blueprint(pool), is_wanted=self._may_grow)
                done, failure = done + outcome.done, outcome.failure
        if done:
            self._tell(telling.created(done))
        if failure is None:
            self._problems.pop(Stage.GROWTH, None)
            return
        self._hold_growth()
        message = f"created {done} of {telling.workers(count)}: {failure}"
        self._fail(Stage.GROWTH, Problem(reason="CreationFailed", message=message))

    def _may_grow(self) -> bool:
        """Ask before each creation: the pool may have been changed, shut down or deleted since it was planned."""
        pool = self._mine()
        if pool is None or pool.meta.deleted_at is not None or not _policy(pool).is_active:
            return False
        return len(self._crew.workers()) < pool.resource.spec.pool_capacity

    def _note_workers(self, *, failed: bool) -> None:
        """Make new workers less and less often while all that is made fails at once; begin anew when one works."""
        if self._crew.has_proven():
            self._bad_growths = 0
        elif failed:
            self._hold_growth()

    def _hold_growth(self) -> None:
        first, last = GROW_AGAIN_SECONDS
        pause = min(last, first * 2.0 ** min(self._bad_growths, 10))
        self._bad_growths += 1
        self._grow_after = self._ask_again_at = self._footing.clock.monotonic() + pause
        log.warning("growth_held", pool=self.key, seconds=pause)

    async def _template(self, pool: Pool) -> dict[str, Any]:
        source = pool.resource.spec.worker_spec.pod_template.source
        request = port.Request(method="GET", path=kinds.DEPLOYMENTS.path(source.name, self.key.namespace))
        try:
            return _DEPLOYMENT.decode(port.required(await self._footing.api.send(request))).spec.template
        except port.NotFoundError as error:
            raise pods.TemplateError(
                f"{source.kind} {source.name}, from whose template workers are made, is not in namespace "
                f"{self.key.namespace}: create it, or correct spec.workerSpec.podTemplate.source.name"
            ) from error

    # Telling

    def _announce(self, wanted: PoolStatus) -> None:
        """Tell once that the pool was paused or shut down."""
        if wanted is not self._announced:
            match wanted:
                case PoolStatus.PAUSED:
                    self._tell(telling.paused())
                case PoolStatus.SHUTDOWN:
                    self._tell(telling.shut_down())
                case PoolStatus.ACTIVE:
                    pass
        self._announced = wanted

    def _note_full(self, full: Told | None) -> None:
        if full is not None and self._full is None:
            self._tell(full)
        self._full = full

    def _fail(self, stage: Stage, problem: Problem) -> None:
        log.warning("pool_not_reconciled", pool=self.key, stage=stage, reason=problem.reason, error=problem.message)
        self._problems[stage] = problem
        self._tell(telling.not_reconciled(problem.message))

    def _tell(self, told: Told) -> None:
        regarding = events.Regarding(resource=POOLS, key=self.key, uid=self.uid)
        kind = events.EventType.WARNING if told.warning else events.EventType.NORMAL
        self._footing.recorder.record(
            events.Event(regarding=regarding, type=kind, reason=told.reason, message=told.message)
        )

    async def _publish(self) -> None:
        """Write the status if it has changed, and not too often."""
        pool, now = self._mine(), self._footing.clock.monotonic()
        self._publish_at = None
        if pool is None:
            return
        known = self._known(pool)
        if self._said == (pool.meta.resource_version, known):
            return
        changes = status.changes(pool.resource, known, self._footing.clock.now())
        if not changes:
            self._said = (pool.meta.resource_version, known)
            return
        if now < self._published_at + PUBLISH_SECONDS - TICK_SECONDS:
            self._publish_at = self._published_at + PUBLISH_SECONDS
            return
        self._published_at = now
        await self._footing.writer.patch(
            self._target, self.key, {"status": changes}, only_if=writer.Precondition.of(pool), subresource="status"
        )

    def _known(self, pool: Pool) -> status.Known:
        return status.Known(
            managed_by=self._footing.identity,
            generation=pool.meta.generation,
            counts=decide.counts(self._crew.workers(), pool.resource.spec.pool_capacity),
            queue_size=self.queue_size,
            problem=next((self._problems[stage] for stage in Stage if stage in self._problems), None),
            full=self._full,
        )

    # Waiting

    def _try_again(self) -> None:
        first, last = AGAIN_SECONDS
        pause = min(last, first * 2 ** min(self._failed_steps, 10))
        self._failed_steps += 1
        self._again_at = self._footing.clock.monotonic() + pause

    def _note_success(self) -> None:
        if self._again_at is None:
            self._failed_steps = 0

    async def _until_woken(self) -> None:
        """Wait for a change or for what is due; changes of pods alone are gathered for a moment."""
        asked = (self._next_poll, self._ask_again_at) if self._reading is None else ()  # one under way wakes us itself
        due = [at for at in (*asked, self._publish_at, self._again_at) if at is not None]
        limit = max(0.0, min(due) - self._footing.clock.monotonic()) if due else None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit):
                await self._until_changed()

    async def _until_changed(self) -> None:
        while True:
            await self._woken.wait()
            if self._pool_changed or (self._reading is not None and self._reading.done()):
                return
            if self._again_at is None:
                await asyncio.sleep(GATHER_SECONDS)
                return
            self._woken.clear()  # after what failed, pods can wait until it is tried again


def _policy(pool: Pool) -> Policy:
    spec = pool.resource.spec
    return Policy(status=spec.status, capacity=spec.pool_capacity, retain_failed=spec.worker_spec.retain_failed_workers)


def _blueprint(pool: Pool) -> pods.Blueprint:
    worker = pool.resource.spec.worker_spec
    return pods.Blueprint(
        namespace=pool.meta.key.namespace,
        pool=pool.meta.key.name,
        pool_uid=pool.meta.uid,
        container=worker.pod_template.container_name,
        idle_timeout_minutes=worker.idle_timeout_minutes,
    )
