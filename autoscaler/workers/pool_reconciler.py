"""Reconciles one pool for as long as we handle it: its queue is read on schedule, its workers are cleaned up and made.

Each pool has a task of its own, so that a slow queue or a refused worker is nobody else's trouble. Its steps run one
after the other, on what is known then; only the reading of the queue goes on beside them. A step that fails is told of
and has one moment at which it is tried again, later and later; nothing that happens meanwhile brings it forward. The
task ends when the pool is gone, when another operator is to handle it, or when we may not act.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from enum import StrEnum
from typing import Final

import structlog

from autoscaler import backoff, clock
from autoscaler.api import keys
from autoscaler.api.resources.worker_pools import PoolStatus, WorkerPool
from autoscaler.control import plans, steps
from autoscaler.kube import objects, port
from autoscaler.kube.writing import batch, finalizers, writer
from autoscaler.workers import decide, growth, planned, worker_pods
from autoscaler.workers.model import Cause, CleanUp, Counts, Pool, Problem
from autoscaler.workers.polling import poller
from autoscaler.workers.reporting import event_messages, pool_metrics, status_writer
from autoscaler.workers.reporting.status_writer import Stage
from autoscaler.workers.shared import POOLS, Shared

log = structlog.get_logger()
GATHER_SECONDS: Final = 0.05
"""Changes of pods are gathered for so long: a hundred of them are one step."""
_BACKOFF: Final = backoff.Backoff(first_seconds=1.0, longest_seconds=60.0)
NAMES_LOGGED: Final = 10


class Step(StrEnum):
    """What is done for a pool, each with a moment of its own at which it is tried again."""

    ADOPT = "adopt"
    LIST = "list workers"
    LET_GO = "let workers go"
    REMOVE = "remove workers"
    PUBLISH = "write status"
    LEAVE = "let the pool go"


class PoolReconciler:
    """One pool."""

    def __init__(self, shared: Shared, pool: Pool, unanswered: dict[str, float]) -> None:
        context = shared.context
        self.key = pool.meta.key
        self.uid = pool.meta.uid
        self.queue_size: int | None = None
        self._shared = shared
        self._context = context
        self._workers = worker_pods.WorkerPods(
            context,
            shared.pods,
            shared.index,
            pool=self.key,
            uid=self.uid,
            unanswered=unanswered,
            suffix=shared.suffix,
        )
        self._target = writer.Target(resource=POOLS, decode=objects.custom(WorkerPool), table=shared.pools)
        self._woken = asyncio.Event()
        self._poller = poller.Poller(context.clock, shared.reader, uid=self.uid, wake=self._woken.set)
        self._status = status_writer.StatusWriter(context, self._target, pool)
        self._growth = growth.Growing(context, self._workers, self._status, pool, may_grow=self._may_grow)
        self._steps = steps.Steps(context.clock, Step, _BACKOFF)
        self._fault = backoff.Retry(context.clock, _BACKOFF)
        """After a fault of our own."""
        self._generation: int | None = None
        self._late = 0
        """How many workers were replaced last since they did not start in time; 0 once one has started."""
        self._pool_changed = True
        self._size: int | None = None
        """What the queue said last, until it was acted on."""
        self._is_adopted = False
        self._told_wrong: frozenset[str] = frozenset()

    def wake(self) -> None:
        """Say that the pool itself changed."""
        self._pool_changed = True
        self._woken.set()

    def wake_for_pods(self) -> None:
        """Say that a pod of the pool changed."""
        self._woken.set()

    def numbers(self) -> pool_metrics.Numbers:
        """Return what is counted of the pool."""
        return pool_metrics.Numbers(
            pool=self.key,
            workers=self.counts(),
            queue_size=self.queue_size,
            polls=self._poller.polls,
            poll_seconds=self._poller.poll_seconds,
        )

    def counts(self) -> Counts:
        """Count the workers."""
        pool = self._present()
        capacity = pool.resource.spec.pool_capacity if pool else 0
        return decide.counts(self._workers.there, capacity, unanswered=self._workers.unanswered())

    def planned(self) -> Iterable[plans.Command]:
        """Say what would be done now."""
        pool = self._present()
        if pool is None:
            return ()
        grown, now = self._growth.planned(pool), self._context.clock.now()
        is_ours, template = self._shared.is_ours(pool), self._growth.replacing
        return planned.of_pool(pool, self._workers.there, is_ours=is_ours, now=now, template=template, growth=grown)

    async def run(self) -> None:
        """Go on until the pool is gone or another's, or we may not act."""
        try:
            while (pool := self._present()) is not None and self._context.held_back() is None:
                if not self._shared.is_ours(pool) and not self._shared.was_ours(pool):
                    return
                self._pool_changed = False
                self._woken.clear()
                await self._reconcile(pool)
                await self._until_woken()
        except writer.FencedError as error:
            log.info("pool_left", pool=self.key, reason=str(error))
        finally:
            self._poller.stop()

    async def _reconcile(self, pool: Pool) -> None:
        """Bring the pool one step closer to what it should be; a fault of ours is this pool's trouble alone."""
        if self._generation != pool.meta.generation:  # somebody changed it: what failed may succeed now
            self._generation = pool.meta.generation
            self._steps.forget()
        self._steps.begin()
        self._status.publish_at = self._status.announce_at = None
        try:
            if not self._shared.is_ours(pool):
                await self._hand_over(pool)
            elif pool.meta.deleted_at is not None:
                await self._leave(pool)
            else:
                await self._handle(pool)
        except writer.FencedError:
            raise
        except Exception as error:  # the boundary of one pool: the others go on
            log.exception("pool_failed", pool=self.key, error=str(error))
            await self._tell_fault(error)
            return
        self._fault.succeeded()
        self._steps.end()

    async def _tell_fault(self, fault: Exception) -> None:
        self._fault.failed()
        problem = Problem(reason="InternalError", message=f"{type(fault).__name__}: {fault}")
        self._status.fail(Stage.CLUSTER, problem)
        try:
            await self._publish()
        except writer.FencedError:
            raise
        except Exception as error:  # it may be the status that is at fault: the event and the log have told it
            log.exception("pool_fault_not_told", pool=self.key, error=str(error))

    async def _handle(self, pool: Pool) -> None:
        if not await self._adopt(pool):
            return
        self._status.announce(pool.resource.spec.status)
        if pool.resource.spec.status is PoolStatus.SHUTDOWN:
            await self._shut_down(pool)
        else:
            await self._follow(pool)
        await self._let_go()
        await self._publish()

    # Coming and going

    async def _adopt(self, pool: Pool) -> bool:
        """Put our finalizer on the pool before it gets its first worker."""
        if not await self._try(Step.ADOPT, self._hold):
            await self._publish()
            return False
        if not self._is_adopted and pool.resource.status.managed_by != self._context.identity:
            self._status.tell(event_messages.adopted(self._context.identity))
        self._is_adopted = True
        return True

    async def _hold(self, attempts: int) -> None:
        if (pool := self._present()) is not None:
            await finalizers.add(self._context.writer, self._target, pool, keys.FINALIZER, attempts=attempts)

    async def _leave(self, pool: Pool) -> None:
        """Remove all workers of a pool that is being deleted, then let it go."""
        self._poller.stop()
        if keys.FINALIZER not in pool.meta.finalizers or not await self._try(Step.LIST, self._list):
            return
        staying = [name for name, pod in self._workers.there.pods.items() if pod.meta.deleted_at is None]
        await self._remove(CleanUp(remove=tuple((name, Cause.SHUTDOWN) for name in sorted(staying))))
        await self._let_go()
        if not self._workers.there.held:
            await self._try(Step.LEAVE, self._release)

    async def _hand_over(self, pool: Pool) -> None:
        """Let go of a pool and its workers that another operator is to handle: whoever that is may not exist."""
        self._poller.stop()
        await self._try(Step.LET_GO, lambda _: self._let_go_of_all())
        if not self._workers.there.held and await self._try(Step.LEAVE, self._release):
            self._shared.note_handed_over(pool)
            log.info("pool_handed_over", pool=self.key, to=pool.resource.spec.worker_pool_class_name)

    async def _release(self, attempts: int) -> None:
        if (pool := self._present()) is not None:
            await finalizers.remove(self._context.writer, self._target, pool, keys.FINALIZER, attempts=attempts)

    async def _shut_down(self, pool: Pool) -> None:
        self._poller.forget()
        self._status.forget()
        self._growth.begin_anew()
        self._size = self.queue_size = None
        await self._remove(self._chosen(pool))

    # Following the queue

    async def _follow(self, pool: Pool) -> None:
        """Ask the queue when its time has come or the pool was changed; act on what it said."""
        if self._poller.ask(pool):  # the pool was changed: forget what held it back
            self._size = None
            self._growth.begin_anew()
        if (answer := self._poller.take(pool)) is not None:
            self._size = answer.size
            if answer.problem is None:
                self._status.settle(Stage.QUEUE)
            else:
                self._status.fail(Stage.QUEUE, answer.problem)
        if answer is not None or self._steps.failures(Step.REMOVE):
            await self._clean_up(pool)
        if self._size is not None and await self._try(Step.LIST, self._list):
            self.queue_size = self._size
            again_at = await self._growth.carry_out(pool, self._growth.plan(pool, self._size))
            self._size = None  # acted on: the same number read again may speak of other jobs
            if again_at is not None:
                self._poller.ask_again(again_at)

    async def _list(self, _attempts: int) -> None:
        await self._workers.look_up()

    # Workers

    async def _clean_up(self, pool: Pool) -> None:
        await self._growth.check_template(pool)
        chosen = self._chosen(pool)
        self._tell_wrong(chosen)
        await self._remove(chosen)

    def _chosen(self, pool: Pool) -> CleanUp:
        now, template = self._context.clock.now(), self._growth.replacing
        return decide.clean_up(self._workers.there, pool.resource.spec, now=now, template=template)

    def _tell_wrong(self, chosen: CleanUp) -> None:
        """Tell of workers that failed or cannot start, each once, and hold growth back where all of them do."""
        if failed := [name for name in chosen.failed if name not in self._told_wrong]:
            log.warning("workers_failed", pool=self.key, workers=failed[:NAMES_LOGGED], count=len(failed))
            self._status.tell(event_messages.failed(len(failed)))
        if stuck := [worker for worker in chosen.stuck if worker.name not in self._told_wrong]:
            self._status.tell(event_messages.stuck(stuck))
        self._told_wrong = frozenset((*chosen.failed, *(worker.name for worker in chosen.stuck)))
        self._late = len(chosen.of(Cause.NOT_STARTED)) or (0 if self._workers.has_started() else self._late)
        message = event_messages.cannot_start(chosen.stuck, self._late)
        problem = Problem(reason="WorkersCannotStart", message=message) if message else None
        self._status.note(Stage.WORKERS, problem)
        again_at = self._growth.note_workers(failed=bool(failed or chosen.of(Cause.NOT_STARTED)))
        if again_at is not None:
            self._poller.ask_again(again_at)

    async def _remove(self, chosen: CleanUp) -> None:
        if not self._steps.may_take(Step.REMOVE):
            return
        names = [name for name, _ in chosen.remove]
        outcome = await self._workers.remove(names)
        self._steps.note(Step.REMOVE, is_done=outcome.failure is None)
        if outcome.failure is None:
            self._status.settle(Stage.CLEAN_UP)
        else:
            left = f"{len(names) - outcome.done} of {event_messages.workers(len(names))}"
            self._fail_removal(f"{left} could not be removed: {outcome.failure}")
        self._tell_removed(chosen, outcome)

    def _tell_removed(self, chosen: CleanUp, outcome: batch.Outcome) -> None:
        if chosen.of(Cause.SHUTDOWN):
            return
        replaced = {cause: len(chosen.of(cause)) for cause in (Cause.OTHER_TEMPLATE, Cause.NOT_STARTED)}
        if outcome.failure is None:
            self._growth.note_replaced(replaced[Cause.OTHER_TEMPLATE])
            for cause, count in replaced.items():
                if count:
                    self._status.tell(event_messages.replaced(count, cause))
        ended = min(outcome.done, len(chosen.remove) - sum(replaced.values()))
        if ended:
            self._status.tell(event_messages.cleaned(ended))

    def _fail_removal(self, message: str) -> None:
        problem = Problem(reason="RemovalFailed", message=message)
        told = event_messages.not_cleaned(message) if self._is_leaving() else None
        self._status.fail(Stage.CLEAN_UP, problem, told)

    async def _let_go(self) -> None:
        """Take our finalizer off workers that we or somebody else deleted."""
        if self._workers.there.hanging:
            await self._try(Step.LET_GO, lambda _: self._let_go_of_hanging())

    async def _let_go_of_hanging(self) -> None:
        _raise_failure(await self._workers.let_go(self._workers.there.hanging))

    async def _let_go_of_all(self) -> None:
        _raise_failure(await self._workers.let_go(self._workers.there.held))

    def _may_grow(self) -> bool:
        """Ask before each creation: the pool may have been changed, shut down or deleted since it was planned."""
        pool = self._present()
        if pool is None or pool.meta.deleted_at is not None or not self._shared.is_ours(pool):
            return False
        spec = pool.resource.spec
        return spec.status is PoolStatus.ACTIVE and self._workers.total() < spec.pool_capacity

    # Telling

    async def _publish(self) -> None:
        await self._try(Step.PUBLISH, self._write_status)

    async def _write_status(self, attempts: int) -> None:
        pool = self._present()
        if pool is not None and self._shared.is_ours(pool):
            await self._status.publish(pool, self.counts(), self.queue_size, attempts=attempts)

    # Trying and waiting

    async def _try(self, step: Step, do: Callable[[int], Awaitable[None]]) -> bool:
        """Take a step, unless it failed a moment ago; tell what went wrong. Return whether it is done."""
        if not self._steps.may_take(step):
            return False
        try:
            await do(self._steps.attempts(step))
        except port.KubeError as error:
            is_overtaken = isinstance(error, port.ConflictError) and not self._steps.failures(step)
            self._steps.note(step, is_done=False)
            if not is_overtaken:  # by a change that is on its way to us: no trouble
                self._tell_trouble(step, error)
            return False
        self._steps.note(step, is_done=True)
        if not self._steps.failures() and not self._fault.failures:
            self._status.settle(Stage.CLUSTER)
        return True

    def _tell_trouble(self, step: Step, error: port.KubeError) -> None:
        message = f"cannot {step}: {error}"
        told = event_messages.not_cleaned(message) if self._is_leaving() else None
        self._status.fail(Stage.CLUSTER, Problem(reason="ApiError", message=message), told)

    def _present(self) -> Pool | None:
        pool = self._shared.pools.get(self.key)
        return pool if pool is not None and pool.meta.uid == self.uid else None

    def _is_leaving(self) -> bool:
        return (pool := self._present()) is not None and pool.meta.deleted_at is not None

    async def _until_woken(self) -> None:
        """Wait for a change or for what is due; changes of pods alone are gathered for a moment."""
        due = self._fault.next_at if self._fault.failures else self._due()
        limit = None if due is None else max(0.0, due - self._context.clock.monotonic())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit):
                await self._until_changed()

    async def _until_changed(self) -> None:
        while True:
            await self._woken.wait()
            if not (self._pool_changed or self._fault.failures or self._poller.is_done):
                await asyncio.sleep(GATHER_SECONDS)
            if self._pool_changed or not self._fault.failures:
                return
            self._woken.clear()  # after a fault of ours, only a change of the pool is worth another try

    def _due(self) -> float | None:
        """Return when time alone asks for the next round: each is a moment that the next round acts on."""
        polls = self._poller.times() if self._is_followed() else ()
        return clock.earliest((*polls, self._status.publish_at, self._status.announce_at, self._steps.next_at()))

    def _is_followed(self) -> bool:
        """Tell whether the queue is read now: otherwise its times do not matter."""
        pool = self._present()
        if pool is None or not self._shared.is_ours(pool) or pool.meta.deleted_at is not None:
            return False
        return not self._steps.failures(Step.ADOPT) and pool.resource.spec.status is not PoolStatus.SHUTDOWN


def _raise_failure(outcome: batch.Outcome) -> None:
    if outcome.failure is not None:
        raise outcome.failure
