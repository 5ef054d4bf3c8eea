"""Admission: jobs wait in queues, get quota, and may grow and shrink under it.

A cycle is a few rounds of two steps: decide what each job that changed needs and write it; then admit what fits, by
what the store holds after those writes. Nothing is decided here.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

import structlog

from autoscaler import clock, control
from autoscaler.admission import decide, doubts, executor, leaving, messages, planned, takeover
from autoscaler.admission.jobs import port as jobs
from autoscaler.admission.quota import cycle
from autoscaler.admission.quota.cache import books
from autoscaler.admission.reporting import reporter
from autoscaler.admission.state import known
from autoscaler.admission.state.job_state import Memory, Policy, Stage
from autoscaler.admission.workloads.workload import WORKLOADS, decode
from autoscaler.admission.writes import On, Step, Write
from autoscaler.api import resources
from autoscaler.control import copies, pacing, plans
from autoscaler.kube import kinds, objects, store
from autoscaler.kube.writing import writer

log = structlog.get_logger()
ROUNDS: Final = 100
"""So many rounds a cycle has at most; what is left is the next one's."""
LONGEST_SECONDS: Final = 5.0
"""A cycle that took so long has no more rounds, so that people are told how things stand while much changes."""
JOBS_AT_ONCE: Final = 200
ADMITTED_AT_ONCE: Final = 500
PLANNED_MAX: Final = 10_000
"""So many writes of quota are shown in a plan at most."""
FAILED_SECONDS: Final = 60.0
"""How long a job is left alone about which nothing could be decided."""


class Controller:
    """Handles the queued jobs of a cluster."""

    def __init__(
        self, context: control.ControllerContext, *, job_kinds: Iterable[jobs.ResizableJob], policy: Policy
    ) -> None:
        context = replace(context, writer=context.writer.with_deadlines())
        self._context = context
        self._policy = policy
        self._kinds = {each.resource.kind: each for each in job_kinds}
        tables = known.Tables.watched(context, self._kinds.values())
        self._known = known.Known(tables, self._kinds.values())
        self._books = books.Books(tables.of_quota)
        self._tables = tables
        self._doubts = doubts.Doubts(context.clock, tables.workloads)
        self._executor = executor.Executor(
            context,
            {
                On.WORKLOAD: writer.Target(resource=WORKLOADS, decode=decode, table=tables.workloads),
                On.POD: writer.Target(resource=kinds.PODS, decode=objects.pod, table=tables.pods),
                On.CLUSTER_QUEUE: _custom(resources.ClusterQueue, tables.cluster_queues),
                On.LOCAL_QUEUE: _custom(resources.LocalQueue, tables.local_queues),
                On.FLAVOR: _custom(resources.ResourceFlavor, tables.flavors),
            },
            {
                name: (each, writer.Target(resource=each.resource, decode=each.decode, table=tables.jobs[name]))
                for name, each in self._kinds.items()
            },
            self._doubts,
        )
        self._takeover = takeover.Takeover(context, tables, self._doubts)
        self._reporter = reporter.Reporter(context, tables, self._books, self._known, self._kinds)
        self._farewell = leaving.Leaving(context, self._kinds.values(), tables.pods)
        self._running: set[str] = set()
        """UIDs of jobs that were seen to run since they were admitted."""
        self._alarms: pacing.Pacer[str] = pacing.Pacer(context.clock, 0.0)
        """UIDs of jobs about which time alone changes what is to be done."""

    async def reconcile(self, dirty: control.Dirty) -> float | None:
        """Bring jobs and quota up to date, round by round, until nothing changes any more."""
        del dirty  # what changed is noted by job, as it arrives
        if self._farewell.is_leaving:
            return await self._farewell.carry_out()
        began = self._context.clock.monotonic()
        await self._takeover.catch_up()
        for uid in self._alarms.take():
            self._known.note(uid)
        wake_at = None
        for _ in range(ROUNDS):
            await self._bring_jobs_up_to_date()
            wake_at = await self._admit()
            if not self._known.dirty:
                break
            if self._context.clock.monotonic() - began >= LONGEST_SECONDS:
                wake_at = self._context.clock.now()
                break
        told_at = await self._reporter.publish(self._carry_out, self._executor.due_at, self._tell, began=began)
        return clock.earliest((wake_at, told_at, clock.on_wall(self._context.clock, self._alarms.next_at)))

    async def planned(self) -> plans.Planned:
        """Say what would be done now."""
        if self._farewell.is_leaving:
            return plans.Planned(unknown=("the runtime leaves: it lets go of its jobs",))
        copied = copies.Copies()
        sight = planned.Sight(
            tables=copied.of(self._tables),
            job_kinds=tuple(self._kinds.values()),
            memory_of=self._memory,
            policy=self._policy,
            now=self._context.clock.now(),
            is_settled=self._doubts.until is None,
            most=PLANNED_MAX,
        )
        writes, unknown = await self._context.plan(planned.decided, copied, sight)
        due = [write for write in writes if self._executor.due_at(write) is None]
        return plans.Planned(commands=planned.shown(due), unknown=tuple(unknown))

    # Jobs

    async def _bring_jobs_up_to_date(self) -> None:
        """Decide about each job that changed, and write."""
        uids = list(itertools.islice(self._known.dirty, JOBS_AT_ONCE))
        decided: dict[str, Sequence[Write]] = {}
        for uid in uids:
            del self._known.dirty[uid]
            decided[uid] = self._decide(uid)
        owners = {_object(write): uid for uid, writes in decided.items() for write in writes}
        chosen = [write for writes in decided.values() for write in writes]
        try:
            outcomes = await self._carry_out(chosen)
        except BaseException:
            for uid in uids:  # what was not done is decided again
                self._known.note(uid)
            raise
        for write in outcomes.failed:
            self._alarms.note(owners[_object(write)], at=self._executor.due_at(write) or 0.0)
        for write in outcomes.done:
            self._tell(owners[_object(write)], write)

    def _decide(self, uid: str) -> Sequence[Write]:
        """Decide about one job; one that makes no sense to us keeps nobody else waiting."""
        try:
            return self._decided(uid)
        except Exception:
            log.exception("job_not_decided", uid=uid, again_in_seconds=FAILED_SECONDS)
            self._alarms.note(uid, at=self._context.clock.monotonic() + FAILED_SECONDS)
            return ()

    def _decided(self, uid: str) -> Sequence[Write]:
        state, time = self._known.state(uid, self._memory(uid)), self._context.clock
        decision = decide.decide(state, now=time.now(), policy=self._policy)
        is_running = state.stage is Stage.ADMITTED and state.job is not None and not state.job.is_suspended
        (self._running.add if is_running else self._running.discard)(uid)
        if decision.wake_at is not None:
            self._alarms.note(uid, at=time.monotonic() + decision.wake_at - time.now())
        return decision.writes

    def _memory(self, uid: str) -> Memory:
        return Memory(
            refused=self._executor.refused_for_good,
            touched=self._executor.touched,
            was_running=uid in self._running,
        )

    # Quota

    async def _admit(self) -> float | None:
        """Admit what fits now, unless the sum is not known; return when time alone changes that."""
        unsettled = await self._settle()
        if unsettled is not None:
            return unsettled
        plan = cycle.decide(self._books, now=self._context.clock.now(), most=ADMITTED_AT_ONCE)
        self._reporter.note_plan(plan)
        current = [write for write in plan.writes if planned.is_current(self._tables, self._known, write)]
        outcomes = await self._carry_out(current)
        for write in outcomes.done:
            stored = self._tables.workloads.get(write.key)
            if stored is not None and not stored.is_slice:
                self._tell(stored.job_uid, write)
        return clock.earliest((plan.wake_at, await self._settle(), *map(self._again_at, outcomes.failed)))

    async def _settle(self) -> float | None:
        """See to it that writes without an answer succeed no more, or are seen; return when to go on; None: now."""
        fences = self._doubts.fences()
        if not fences:
            return None
        outcomes = await self._carry_out(fences)
        await self._takeover.look_at(write for write, _ in outcomes.refused)
        return clock.earliest((self._doubts.until, *map(self._again_at, outcomes.failed)))

    # What both need

    async def _carry_out(self, writes: Sequence[Write]) -> executor.Outcomes:
        outcomes = await self._executor.carry_out(writes)
        self._reporter.count(outcomes.done)
        return outcomes

    def _again_at(self, write: Write) -> float | None:
        """Return when a write that was refused is tried again, on the wall clock."""
        return clock.on_wall(self._context.clock, self._executor.due_at(write) or 0.0)

    def _tell(self, uid: str, write: Write) -> None:
        """Record an event about a job."""
        job, event = self._known.job(uid), write.event or messages.event_of(write)
        if job is None or event is None:
            return
        resource: Any = self._kinds[job.kind].resource
        is_change = write.step in {Step.ADMIT, Step.EVICT, Step.RELEASE}
        self._context.tell(resource, job, event.reason, event.message, is_warning=event.is_warning, is_change=is_change)


def _object(write: Write) -> tuple[On, str, objects.Key]:
    """Name what is written to: jobs of two kinds may have one name."""
    return write.on, write.kind, write.key


def _custom(kind: type[resources.Resource], table: store.Table[Any]) -> writer.Target[Any]:
    return writer.Target(resource=kinds.custom(kind), decode=objects.custom(kind), table=table)
