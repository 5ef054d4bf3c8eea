"""What people see of admission: status of Workloads, queues and flavors, events, and metrics.

Everything here is told after the decisions of a cycle were carried out, and bounded: `waiting_reports`, `queue_reports`
and `notices` say how often, and all reports together take a tenth of the time, so that a busy API server serves
admission first. What is refused is tried again less and less often, as the executor does with all writes.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final

from autoscaler import clock, control
from autoscaler.admission.executor import Outcomes
from autoscaler.admission.jobs import port
from autoscaler.admission.quota.cache import books as quota
from autoscaler.admission.quota.cycle import CyclePlan
from autoscaler.admission.reporting import measuring, notices, queue_reports, waiting_reports
from autoscaler.admission.state import gated_pods, known, tally
from autoscaler.admission.writes import On, Write

REST: Final = 9.0
"""After a batch of reports the next waits so many times as long as that took: jobs and quota come first."""
REST_MAX_SECONDS: Final = 10.0
CarryOut = Callable[[Sequence[Write]], Awaitable[Outcomes]]
DueAt = Callable[[Write], float | None]
"""Returns when a write that was refused is tried again, on the monotonic clock; None: now."""
Tell = Callable[[str, Write], None]
"""Records the event of a write about a job, by the job's UID."""


class Reporter:
    """Tells people how things stand."""

    def __init__(
        self,
        context: control.ControllerContext,
        tables: known.Tables,
        books: quota.Books,
        jobs: known.Known,
        job_kinds: Mapping[str, port.ResizableJob],
    ) -> None:
        self._clock = context.clock
        self._workloads = tables.workloads
        read = tables.of_quota
        self._waiting = waiting_reports.WaitingReports(context.clock, books, read)
        self._queues = queue_reports.QueueReports(context.clock, books, read, tally.of(tables.workloads))
        gated = gated_pods.of(tables.pods)
        self._notices = notices.Notices(context, tables, job_kinds, gated)
        self._measuring = measuring.Measuring(context.clock, books, self._queues, gated, jobs)
        context.measure(self._measuring.gather)
        self._rest_until = float("-inf")
        """When the next reports may be written, on the monotonic clock."""

    def note_plan(self, plan: CyclePlan) -> None:
        """Note who was looked at and not admitted."""
        self._waiting.note_refused(plan.refused)

    def count(self, done: Iterable[Write]) -> None:
        """Count what was done."""
        self._measuring.count(done)

    async def publish(self, carry_out: CarryOut, due_at: DueAt, tell: Tell, *, began: float) -> float | None:
        """Say what changed in a cycle that began then; return when to say more, on the wall clock."""
        started = self._clock.monotonic()
        if started >= self._rest_until:
            await self._write(carry_out, due_at, tell)
            self._rest_until = started + min(REST_MAX_SECONDS, (REST + 1) * (self._clock.monotonic() - started))
        self._notices.tell()
        self._measuring.cycle_took(self._clock.monotonic() - began)
        return self._wake_at()

    async def _write(self, carry_out: CarryOut, due_at: DueAt, tell: Tell) -> None:
        planned = [*self._queues.due(), *self._waiting.due()]
        left = {id(write): write for write in planned}
        try:
            outcomes = await carry_out(planned)
            for write in outcomes.done:
                del left[id(write)]
                self._tell(write, tell)
        finally:
            for write in left.values():
                self._again(write, due_at(write) or 0.0)

    def _again(self, write: Write, at: float) -> None:
        (self._waiting if write.on is On.WORKLOAD else self._queues).note_not_done(write, at)

    def _tell(self, write: Write, tell: Tell) -> None:
        stored = self._workloads.get(write.key)
        if stored is not None:
            tell(stored.job_uid, write)

    def _wake_at(self) -> float | None:
        reports_at = clock.earliest((self._waiting.next_at, self._queues.next_at))
        reports_at = None if reports_at is None else max(reports_at, self._rest_until)
        return clock.on_wall(self._clock, clock.earliest((reports_at, self._notices.next_at)))
