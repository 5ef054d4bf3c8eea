"""Makes the workers of one pool, from the template as it is now; less and less often where that fails."""

from collections.abc import Callable
from typing import Final

import structlog

from autoscaler import backoff, control
from autoscaler.api.resources.worker_pools import PoolStatus
from autoscaler.kube import port
from autoscaler.workers import decide, pods, templates, worker_pods
from autoscaler.workers.model import Growth, Pool, Problem
from autoscaler.workers.reporting import event_messages, status_writer
from autoscaler.workers.reporting.status_writer import Stage

log = structlog.get_logger()
HANDOVER_SECONDS: Final = 10.0
"""A pool that another operator handled grows only after this: what that one has sent has arrived by then."""
TEMPLATE_SECONDS: Final = 30.0
"""While workers wait to start, it is looked this often whether they would be made otherwise now."""
_BACKOFF: Final = backoff.Backoff(first_seconds=5.0, longest_seconds=300.0)
"""After workers were refused, or failed at once: when new ones are made."""
_REPLACING: Final = backoff.Backoff(first_seconds=60.0, longest_seconds=1800.0)
"""After workers were replaced since their template changed: when the next are."""
_TEMPLATE_BACKOFF: Final = backoff.Backoff(first_seconds=1.0, longest_seconds=60.0)


class Growing:
    """Makes workers. All times are on the monotonic clock."""

    def __init__(
        self,
        context: control.ControllerContext,
        workers: worker_pods.WorkerPods,
        status: status_writer.StatusWriter,
        pool: Pool,
        *,
        may_grow: Callable[[], bool],
    ) -> None:
        """Grow a pool; `may_grow` is asked before each creation."""
        self.template: str | None = None
        """A hash of what workers are made from now; None: nobody knows."""
        self._context = context
        self._workers = workers
        self._status = status
        self._may_grow = may_grow
        self._refusals = backoff.Retry(context.clock, _BACKOFF)
        """Creations that were refused."""
        self._failures = backoff.Retry(context.clock, _BACKOFF)
        """Workers that failed, or never started, before any did its work."""
        self._replacing = backoff.Retry(context.clock, _REPLACING)
        """Workers that were replaced, in a row, since their template changed."""
        self._template_retry = backoff.Retry(context.clock, _TEMPLATE_BACKOFF)
        self._template_at = float("-inf")
        self._checked: int | None = None
        """The generation of the pool that the template was last checked for."""
        self._unserved: int | None = None
        """What the queue said last, unless somebody was made for it since, or need not be."""
        self._handover_at: float | None = None
        if pool.resource.status.managed_by not in (None, context.identity):
            self._handover_at = context.clock.monotonic() + HANDOVER_SECONDS

    def begin_anew(self) -> None:
        """Forget what held the pool back: it was changed."""
        self._unserved = None
        self._refusals.succeeded()
        self._failures.succeeded()
        self._template_retry.succeeded()

    def plan(self, pool: Pool, queue_size: int) -> Growth:
        """Say how many workers are to be made."""
        self._unserved = queue_size
        unanswered = self._workers.unanswered()
        return decide.grow(self._workers.there, pool.resource.spec, queue_size, unanswered=unanswered)

    def planned(self, pool: Pool) -> Growth:
        """Say how many would be made now by the last reading: nobody, if somebody was since, or that is put off."""
        if self._unserved is None or self._held_until() is not None:
            return Growth()
        return self.plan(pool, self._unserved)

    async def carry_out(self, pool: Pool, growth: Growth) -> float | None:
        """Make workers; return when the queue should be asked again for those that could not be made now."""
        spec = pool.resource.spec
        kept = sorted(self._workers.there.failed) if spec.worker_spec.retain_failed_workers else []
        is_active = spec.status is PoolStatus.ACTIVE
        self._status.note_full(event_messages.full(growth, spec.pool_capacity, kept) if is_active else None)
        if not growth.create:
            self._unserved = None
            self._status.settle(Stage.GROWTH)
        held_until = self._held_until()
        count = growth.create if held_until is None else 0
        if count or self._checked != pool.meta.generation or self._status.has_failed(Stage.TEMPLATE):
            prototype = await self._read(pool)
            if prototype is None:
                return self._template_retry.next_at if growth.create else None
            if count:
                return await self._create(prototype, count)
        return held_until if growth.create else None

    async def check_template(self, pool: Pool) -> None:
        """See now and then, while workers wait to start, what they would be made from now."""
        if self._workers.there.unstarted and self._context.clock.monotonic() >= self._template_at:
            await self._read(pool)

    @property
    def replacing(self) -> str | None:
        """The hash that workers which wait to start must have, else they are replaced; None: they are left alone.

        Where the template changes all the time they are left alone for longer and longer: else nobody ever starts.
        """
        return self.template if self._replacing.is_due else None

    def note_replaced(self, count: int) -> None:
        """Note how many workers were replaced since their template changed."""
        if count:
            self._replacing.failed()
        elif self._replacing.is_due:
            self._replacing.succeeded()

    def note_workers(self, *, failed: bool) -> float | None:
        """Make new workers less and less often while all that are made fail at once, and begin anew when one works.

        Return when the queue should be asked again, if that is put off.
        """
        if not failed and not self._failures.failures:
            return None
        if self._workers.has_proven(self.template):
            self._failures.succeeded()
        elif failed:
            log.warning("growth_held", seconds=self._failures.failed())
            return self._failures.next_at
        return None

    def _held_until(self) -> float | None:
        """Return until when nobody is made; None: not at all."""
        held = [retry.next_at for retry in (self._refusals, self._failures) if not retry.is_due]
        if self._handover_at is not None and self._context.clock.monotonic() < self._handover_at:
            held.append(self._handover_at)
        return max((at for at in held if at is not None), default=None)

    async def _read(self, pool: Pool) -> pods.Prototype | None:
        """Read what workers are made from; where that fails, it is told, and tried again later."""
        if not self._template_retry.is_due:
            return None
        try:
            prototype = pods.make(await templates.read(self._context.api, pool), pool)
        except pods.TemplateError as error:
            self._fail_template("BadTemplate", str(error))
            return None
        except port.KubeError as error:
            self._fail_template("TemplateUnread", f"the template of workers could not be read: {error}")
            return None
        self._template_retry.succeeded()
        self._status.settle(Stage.TEMPLATE)
        self.template, self._checked = prototype.template, pool.meta.generation
        self._template_at = self._context.clock.monotonic() + TEMPLATE_SECONDS
        return prototype

    def _fail_template(self, reason: str, message: str) -> None:
        self._template_retry.failed()
        self.template = None
        self._status.fail(Stage.TEMPLATE, Problem(reason=reason, message=message))

    async def _create(self, prototype: pods.Prototype, count: int) -> float | None:
        before = self._workers.total()
        outcome = await self._workers.create(count, prototype, is_wanted=self._may_grow)
        if self._workers.total() != before:  # while we only observe, it is not
            self._unserved = None
        if outcome.done:
            self._status.tell(event_messages.created(outcome.done))
        if outcome.failure is None:
            self._refusals.succeeded()
            self._status.settle(Stage.GROWTH)
            return None
        log.warning("growth_held", seconds=self._refusals.failed())
        message = f"created {outcome.done} of {event_messages.workers(count)}: {outcome.failure}"
        self._status.fail(Stage.GROWTH, Problem(reason="CreationFailed", message=message))
        return self._refusals.next_at
