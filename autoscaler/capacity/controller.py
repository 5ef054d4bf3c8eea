"""Capacity: pods that no node has room for become instances, and idle instances become nothing.

Every cycle takes one snapshot, plans on it without I/O, carries the plan out and tells of it. Clouds are asked beside
the cycle, and what became of it is seen by a later one.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeVar

import structlog

from autoscaler import backoff, clock, control
from autoscaler.api import keys
from autoscaler.capacity import continuity, decide, model, planned, watched
from autoscaler.capacity.accounts import (
    account_reader,
    cloud_calls,
    interruptions,
    launch_failures,
    unavailable_offerings,
)
from autoscaler.capacity.custom import MACHINES, POOLS, SCOPES
from autoscaler.capacity.plan import Launch, Plan
from autoscaler.capacity.records import accounting, instance_writer
from autoscaler.capacity.reporting import measures, other_autoscaler, pod_events, pool_status, status_writer
from autoscaler.capacity.scaledown import drainer, pool_finalizer, scope_finalizer, terminator
from autoscaler.capacity.scaleup import (
    claims,
    demand,
    ephemeral,
    learned_allocatable,
    missed_placements,
    supply,
    ungating,
    unhelpful,
)
from autoscaler.capacity.snapshot import Ceilings, Snapshot
from autoscaler.cloud.prices import Prices
from autoscaler.control import plans
from autoscaler.kube import objects

log = structlog.get_logger()
K = TypeVar("K")
AGAIN_SECONDS: Final = 5.0
"""After a launch or a record that was not done: when the plan is made again."""
TOGETHER_SECONDS: Final = 1.0
"""Writes that are held back make no cycles of their own more often than this: those of many objects go together."""
BOOKS_SECONDS: Final = 60.0
"""While instances run, what they use is looked at this often: a budget may be reached by time alone."""


class Controller:
    """Scales the node groups of one cluster."""

    def __init__(
        self,
        context: control.ControllerContext,
        *,
        open_cloud: account_reader.Open,
        ceilings: Ceilings | None = None,
        policy: model.Policy | None = None,
        prices: Prices | None = None,
        open_news: interruptions.Open | None = None,
    ) -> None:
        self._context = context
        self._ceilings = ceilings or Ceilings()
        self._policy = policy or model.Policy()
        self._prices = prices or Prices()
        calm = dataclasses.replace(context, writer=context.writer.calmly(context.clock))  # each cycle plans all anew
        self._writes = calm.writer
        self._watched = watched.Watched(context)
        self._accounts = account_reader.AccountReader(context, open_cloud)
        pods, nodes, pools = self._watched.pods, self._watched.nodes, self._watched.pools
        afresh = self._watched.afresh()
        self._books = instance_writer.InstanceWriter(calm, self._accounts, pods=pods, nodes=nodes, beside=afresh)
        self._notices = interruptions.Notices(context, nodes)
        self._calls = cloud_calls.Calls(context, self._accounts, backoff.Retries(context.clock, drainer.BACKOFF))
        self._terminator = terminator.Terminator(calm, calls=self._calls, nodes=nodes, pools=pools)
        self._claims = claims.Claims(calm, nodes=nodes, pods=pods)
        self._last = Plan()  # the plan before, so that only what is new is logged
        self._publisher = self._publishing(calm)
        self._opener = ungating.Ungater(calm, pods)
        self._other_autoscaler = other_autoscaler.OtherAutoscaler(context, pools)
        self._continuity = continuity.Continuity(context, (pods, nodes))
        self._pool_finalizer = pool_finalizer.PoolFinalizer(calm, self._watched)
        self._scope_finalizer = scope_finalizer.ScopeFinalizer(calm, self._watched)
        self._wake_at: float | None = None
        self._seen: dict[tuple[str, objects.Key], tuple[object, ...] | None] = {}  # but for what we write
        self._missed_placements: dict[missed_placements.Waiting, missed_placements.MissedPlacement] = {}
        self._learned: learned_allocatable.Known = {}
        self._unhelpful: unhelpful.Known = {}
        self._launch_failures = launch_failures.LaunchFailures(self._accounts)
        self._pod_events = pod_events.PodEvents(context)
        self._measures = self._measured(open_news)

    def _publishing(self, context: control.ControllerContext) -> status_writer.StatusWriter:
        return status_writer.StatusWriter(
            context,
            pools=self._watched.pools,
            scopes=self._watched.scopes,
            known=self._accounts,
            waiting=self._count_waiting,
        )

    def _measured(self, open_news: interruptions.Open | None) -> measures.Measures:
        news = None
        if open_news is not None:
            news = interruptions.News(self._context, self._accounts, self._notices, open_news)
        return measures.Measures(
            self._context,
            self._accounts,
            evictions=self._terminator.evictions,
            queue_failures=lambda: news.failures if news is not None else None,
            waiting=lambda: measures.waiting_pods(self._snapshot()),
        )

    async def reconcile(self, dirty: control.Dirty) -> float | None:
        """Plan and act once; return when time alone will change the plan."""
        if dirty and not self._is_news(dirty) and self._wake_at is not None:
            return self._wake_at
        self._wake_at = None  # if this fails, what was news still is
        self._wake_at = await self._reconcile()
        return self._wake_at

    def _is_news(self, dirty: control.Dirty) -> bool:
        """Tell whether anything changed but status, and Instance objects, which we ourselves write."""
        own = {
            POOLS.kind: self._watched.pools.get,
            SCOPES.kind: self._watched.scopes.get,
            MACHINES.kind: self._watched.machines.get,
        }
        news = any(kind not in own and kind != instance_writer.INSTANCES.kind for kind, _ in dirty)
        for kind, get in own.items():
            for key in [key for each, key in dirty if each == kind]:
                found = get(key)
                seen = _told_by(found.meta) if found is not None else None
                news = news or self._seen.get((kind, key)) != seen
                self._seen[kind, key] = seen
        return news

    async def _reconcile(self) -> float | None:
        if not self._accounts.is_read() or not self._other_autoscaler.is_tried or self._pool_finalizer.have_left:
            return None  # each of them wakes us
        # 1. Observe: one snapshot, with what became of the calls that were in flight.
        outcomes = self._calls.outcomes()
        self._launch_failures.recall((each.resource for each in self._watched.pools), self._context.clock.now())
        snapshot = self._launch_failures.observe(self._snapshot(), outcomes)
        # 2. Decide.
        seen = self._books.look(snapshot)
        plan: Plan = await self._context.plan(decide.decide, snapshot, self._policy, self._last.memory, seen)
        self._learn(snapshot, plan)
        # 3. Act: clouds are asked beside the cycle; what ends is recorded first.
        self._calls.resize(plan.resizes)
        self._launch(plan)
        kept = [await self._books.write(plan.records), await self._claims.carry_out(plan.claims)]
        wakes = [await self._opener.open(plan.openings), await self._terminator.carry_out(plan)]
        wakes.append(await self._pool_finalizer.carry_out(snapshot, plan.teardown))
        wakes.append(await self._scope_finalizer.carry_out(snapshot, plan.scopes))
        # 4. Report: statuses say what is true now, with the records that were just written.
        self._tell(outcomes)
        self._measures.observe(snapshot, plan, outcomes)
        _log_changes(self._last, plan)
        self._last = plan
        after = self._recorded(snapshot)
        reported = decide.report(after, plan, self._publisher.stated(), self._pod_events.told())
        wakes.append(self._pod_events.tell(reported))
        await self._publisher.publish(after, reported)
        return clock.earliest((*wakes, *self._wakes(snapshot, plan, is_kept=all(kept))))

    def _wakes(self, snapshot: Snapshot, plan: Plan, *, is_kept: bool) -> Iterator[float | None]:
        """Yield when time alone changes something."""
        now = self._context.clock.now()
        yield plan.wake_at
        yield self._launch_failures.next_at()
        yield unavailable_offerings.next_end(snapshot.unavailable, now)
        yield missed_placements.next_lesson(self._missed_placements, now)
        yield unhelpful.next_end(self._unhelpful) if self._unhelpful == snapshot.unhelpful else now
        yield learned_allocatable.next_retry(self._learned, now) if plan.unserved else None
        held_until = clock.on_wall(self._context.clock, self._writes.next_at())  # nothing else may happen until then
        yield None if held_until is None else max(held_until, now + TOGETHER_SECONDS)
        yield accounting.month_end(now)  # what a month may take begins anew
        if any(group.members for group in snapshot.groups):
            yield now + min(BOOKS_SECONDS, self._books.pause())
        if plan.launches or plan.resizes or not is_kept:
            yield now + AGAIN_SECONDS

    async def planned(self) -> plans.Planned:
        """Say what would be done now."""
        if not self._accounts.is_read() or not self._other_autoscaler.is_tried:
            return plans.Planned(unknown=("everything: not all provider accounts have been read yet",))
        if self._pool_finalizer.have_left:
            return plans.Planned()
        snapshot = self._launch_failures.added(self._snapshot())
        records, stated, told = self._books.sight(snapshot), self._publisher.stated(), self._pod_events.told()
        commands = await self._context.plan(
            planned.commands, snapshot, self._policy, self._last.memory, records, stated, told
        )
        old = ("what has changed in AWS since the pause began: nobody reads it meanwhile",)
        return plans.Planned(commands=commands, unknown=old if self._context.is_paused() else ())

    def _snapshot(self) -> Snapshot:
        stands = self._claims.stands()
        pods, indexed = self._claims.pods(self._watched.pod_index, stands)
        pools = {each.meta.key.name: each.resource.spec for each in self._watched.pools}
        now = self._context.clock.now()
        freed = ephemeral.vacated(stands)
        groups = self._accounts.groups({name: spec.provider_account for name, spec in pools.items()})
        written = [each.resource for each in self._watched.pools]
        self._learned = learned_allocatable.recall(self._learned, written, groups, now)
        self._unhelpful = unhelpful.recall(self._unhelpful, written, groups, now)
        snapshot = Snapshot(
            now=now,
            settled_at=self._continuity.settled_at(),
            pods=pods,
            indexed=indexed,
            nodes=_with(self._watched.node_index.nodes(), {node.meta.key: node for node in freed}),
            by_provider=_with(self._watched.node_index.by_provider(), {node.provider_id: node for node in freed}),
            namespaces={each.meta.key.name: each.meta.labels for each in self._watched.namespaces},
            pools=pools,
            scopes={each.meta.key.name: each.resource.spec for each in self._watched.scopes},
            machines=self._watched.machines_in_order(),
            groups=self._calls.applied(groups),
            types=self._accounts.types(),
            storage=self._watched.storage(),
            daemons=tuple(each.shape for each in self._watched.daemons),
            ceilings=self._ceilings,
            launched=self._calls.launched(),
            missed=self._missed_placements,
            durations=pool_status.durations_of(each.resource for each in self._watched.scopes),
            prices=self._prices,
            other_autoscaler=self._other_autoscaler.holds(),
            autoscalers_unseen=self._other_autoscaler.unseen(),
            stands=stands,
            spent=ephemeral.spent(stands),
            home=self._context.namespace,
        )
        snapshot = self._scope_finalizer.observe(self._pool_finalizer.observe(snapshot))
        observed = self._recorded(self._with_accounts(snapshot))
        self._learned = learned_allocatable.learn(self._learned, observed)
        return dataclasses.replace(observed, learned=self._learned)

    def _with_accounts(self, snapshot: Snapshot) -> Snapshot:
        """Add what is known of instances and of the accounts they are in."""
        return dataclasses.replace(
            snapshot,
            outages=self._accounts.outages(),
            outdated=self._accounts.outdated(),
            doomed=self._notices.doomed(),
            maintained=self._notices.maintained(),
            at_risk=self._notices.at_risk(),
            launched_at=self._accounts.launched_at(),
            unread=self._accounts.unread(),
            half_read=self._accounts.half_read(),
            unsure=self._accounts.unsure(),
            marked=self._terminator.marked(),
            held=self._terminator.held(),
            silent={**self._accounts.silent(), **self._calls.silent()},
        )

    def _recorded(self, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot with the records as they are now; the same one if none has changed since it was made."""
        instances = self._books.instances()
        if snapshot.instances is instances and snapshot.unhelpful == self._unhelpful:
            return snapshot
        return dataclasses.replace(
            snapshot,
            instances=instances,
            lives=self._books.lives(),
            records=self._books.indexed(),
            used=self._books.used(snapshot.now, snapshot.pools, self._prices),
            durations={**snapshot.durations, **self._books.durations},
            unhelpful=self._unhelpful,
        )

    def _count_waiting(self) -> Counter[str]:
        """Count the pods that wait, by scope, without a plan."""
        snapshot = self._snapshot()
        counted: Counter[str] = Counter()
        for like, pods in demand.waiting(snapshot.indexed).items():
            counted[demand.scope_of(snapshot, like.namespace)] += len(pods)
        return counted

    def _learn(self, snapshot: Snapshot, plan: Plan) -> None:
        """Remember what is tried, and where pods found no room although there should have been some."""
        if plan.landed or self._missed_placements:
            groups = {
                node.meta.key.name: group.key
                for group in snapshot.groups
                for node in supply.nodes_of(snapshot, group).values()
            }
            taking = missed_placements.taking(snapshot.pods.values(), groups, snapshot.now) if plan.landed else {}
            self._missed_placements = missed_placements.learn(
                self._missed_placements,
                ephemeral.without_unclaimed(plan.landed, snapshot.nodes),
                groups,
                now=snapshot.now,
                settled_at=snapshot.settled_at,
                taking=taking,
                working=snapshot.indexed.working,
            )
            self._unhelpful = unhelpful.learn(self._unhelpful, self._missed_placements, taking, snapshot)
        if plan.retries:
            self._learned = learned_allocatable.tried(self._learned, snapshot, plan.retries)

    def _launch(self, plan: Plan) -> None:
        """Have groups raised."""
        for launch in self._calls.launch(plan.launches):
            if not launch.pods:
                log.info("renewal_surges", group=launch.group, before=launch.before, after=launch.after)

    def _tell(self, outcomes: Iterable[cloud_calls.Outcome]) -> None:
        """Have pods told for which instances were asked for; and pools of instances of no use."""
        for outcome in outcomes:
            self._terminator.tell(outcome)
            if outcome.is_done and isinstance(outcome.command, Launch) and outcome.command.pods:
                self._pod_events.launched(outcome.command)


def _told_by(meta: objects.Meta) -> tuple[object, ...]:
    """Return what changes with anything that is planned on: another object of that name may have the same generation.

    Neither what a label says nor that somebody took our finalizer off counts in the generation.
    """
    is_held = keys.FINALIZER in meta.finalizers
    return meta.uid, meta.generation, meta.deleted_at is None, is_held, meta.labels.get(keys.SCOPE)


def _with(nodes: Mapping[K, objects.Node], changed: Mapping[K, objects.Node]) -> Mapping[K, objects.Node]:
    return {**nodes, **changed} if changed else nodes


def _log_changes(before: Plan, plan: Plan) -> None:
    """Log what the last plan did not say yet."""
    if plan.away and not before.away:
        log.warning("lost_nodes_kept", away=plan.away, why="too many at once: is the control plane cut off?")
    for node in plan.memory.begun.keys() - before.memory.begun.keys():
        log.info("renewal_drains", node=node)
    for node in plan.memory.postponed.keys() - before.memory.postponed.keys():
        until = plan.memory.postponed[node]
        log.warning("renewal_postponed", node=node, reason="its pods did not leave in time", until=until)
    for pool, why in plan.waits.items():
        if before.waits.get(pool) != why:
            log.info("renewal_waits", pool=pool, reason=why)
