"""What one pool says: events as things happen, and its status, written where it changed and not too often.

It remembers what is wrong, stage by stage, until somebody says that it is settled. What the status looks like is put
together in `status`, the words of events in `event_messages`.
"""

from enum import StrEnum
from typing import Final

import structlog

from autoscaler import control
from autoscaler.api.resources.worker_pools import PoolStatus
from autoscaler.kube import kinds
from autoscaler.kube.writing import events, writer
from autoscaler.workers.model import Counts, Pool, Problem, Told
from autoscaler.workers.polling.poller import TICK_SECONDS
from autoscaler.workers.reporting import event_messages, status

log = structlog.get_logger()
PUBLISH_SECONDS: Final = 1.0
"""The status is written at most this often."""


class Stage(StrEnum):
    """What may go wrong, in the order in which it is told."""

    QUEUE = "queue"
    TEMPLATE = "template"
    GROWTH = "growth"
    WORKERS = "workers"
    CLEAN_UP = "clean-up"
    CLUSTER = "cluster"


class StatusWriter:
    """Speaks for one pool."""

    def __init__(self, context: control.ControllerContext, target: writer.Target[Pool], pool: Pool) -> None:
        self.publish_at: float | None = None
        """When a status that was held back is to be written."""
        self.announce_at: float | None = None
        """When a change of state that had no room among the events is to be told again."""
        self._context = context
        self._target = target
        self._pool = pool
        self._problems: dict[Stage, Problem] = {}
        self._full: Told | None = None
        self._announced = status.was(pool.resource)
        self._published_at = float("-inf")
        self._said: tuple[int, status.Known] | None = None
        """What the status is known to say, and in which version of the pool."""

    def tell(self, told: Told, *, ended: events.Ended | None = None) -> None:
        """Record an event about the pool."""
        resource: kinds.ResourceType = self._target.resource
        self._context.tell(
            resource,
            self._pool,
            told.reason,
            told.message,
            is_warning=told.warning,
            is_change=told.is_change,
            ended=ended,
        )

    def announce(self, wanted: PoolStatus) -> None:
        """Tell once that the pool was paused or shut down; once more if the API server never took it."""
        before = self._announced
        if wanted is before:
            return
        self._announced = wanted

        def ended(is_told: bool) -> None:  # noqa: FBT001  # a callback's shape
            if not is_told and self._announced is wanted:
                self._announced = before
                self.announce_at = self._context.clock.monotonic() + events.REFILL_SECONDS

        match wanted:
            case PoolStatus.PAUSED:
                self.tell(event_messages.paused(), ended=ended)
            case PoolStatus.SHUTDOWN:
                self.tell(event_messages.shut_down(), ended=ended)
            case PoolStatus.ACTIVE:
                pass

    def note_full(self, full: Told | None) -> None:
        """Tell once that the pool is full, and once more where the cause changes; None: it is not."""
        if full is not None and (self._full is None or self._full.condition != full.condition):
            self.tell(full)
        self._full = full

    def fail(self, stage: Stage, problem: Problem, told: Told | None = None) -> None:
        """Tell what went wrong, and remember it."""
        log.warning("pool_not_reconciled", pool=self._key, stage=stage, reason=problem.reason, error=problem.message)
        self._problems[stage] = problem
        self.tell(told or event_messages.not_reconciled(problem.message))

    def note(self, stage: Stage, problem: Problem | None) -> None:
        """Remember what is wrong with a stage without an event; None: nothing is."""
        if problem is None:
            self.settle(stage)
        else:
            self._problems[stage] = problem

    def settle(self, stage: Stage) -> None:
        """Say that nothing is wrong any more with a stage."""
        self._problems.pop(stage, None)

    def has_failed(self, stage: Stage) -> bool:
        """Tell whether something is wrong with a stage."""
        return stage in self._problems

    def forget(self) -> None:
        """Settle everything: the pool is shut down."""
        self._problems.clear()
        self._full = None

    async def publish(
        self, pool: Pool, counts: Counts, queue_size: int | None, *, attempts: int = writer.ATTEMPTS
    ) -> None:
        """Write the status if it has changed, and not too often."""
        now = self._context.clock.monotonic()
        self.publish_at = None
        known = self._known(pool, counts, queue_size)
        if self._said == (pool.meta.resource_version, known):
            return
        changes = status.changes(pool.resource, known, self._context.clock.now())
        if not changes:
            self._said = (pool.meta.resource_version, known)
            return
        if now < self._published_at + PUBLISH_SECONDS - TICK_SECONDS:
            self.publish_at = self._published_at + PUBLISH_SECONDS
            return
        self._published_at = now
        await self._context.writer.patch_status(self._target, pool, changes, attempts=attempts)

    @property
    def _key(self) -> object:
        return self._pool.meta.key

    def _known(self, pool: Pool, counts: Counts, queue_size: int | None) -> status.Known:
        return status.Known(
            managed_by=self._context.identity,
            generation=pool.meta.generation,
            counts=counts,
            queue_size=queue_size,
            problem=next((self._problems[stage] for stage in Stage if stage in self._problems), None),
            full=self._full,
        )
