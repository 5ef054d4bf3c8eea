"""Capacity: pods that no node has room for become instances, and idle instances become nothing.

Every cycle keeps the books, takes one snapshot, plans on it without I/O, and carries the plan out: what failed is taken
back, groups grow, and instances that are of no use, doomed or idle go.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

import structlog

from autoscaler import backoff, clock, control
from autoscaler.api import resources
from autoscaler.api.node_groups import NodeGroupKey
from autoscaler.api.resources.machines import MachineSpec
from autoscaler.capacity import (
    accounting,
    availability,
    bookkeeping,
    claims,
    clouds,
    daemons,
    decide,
    demand,
    departures,
    draining,
    experience,
    farewells,
    foreign,
    interruptions,
    learning,
    model,
    node_index,
    offers,
    opening,
    pod_index,
    publisher,
    publishing,
    renewer,
    shortages,
    supply,
    telling,
    volumes,
)
from autoscaler.capacity.custom import MACHINES, POOLS, SCOPES
from autoscaler.capacity.plan import Launch, Plan
from autoscaler.capacity.snapshot import Ceilings, Snapshot
from autoscaler.cloud import port as cloud
from autoscaler.cloud.prices import Prices
from autoscaler.kube import kinds, objects, store

log = structlog.get_logger()
AGAIN_SECONDS: Final = 5.0
"""After a launch or a record that was not done: when the plan is made again."""
BOOKS_SECONDS: Final = 60.0
"""While instances run, what they use is looked at this often: a budget may be reached by time alone."""
LAUNCH_WINDOW_SECONDS: Final = 60.0
EVENTS_MAX: Final = 200
"""So many pods are told of one plan; all others look the same."""


class Controller:
    """Scales the node groups of one cluster."""

    def __init__(
        self,
        context: control.ControllerContext,
        *,
        open_cloud: clouds.Open,
        ceilings: Ceilings | None = None,
        policy: model.Policy | None = None,
        prices: Prices | None = None,
        open_news: interruptions.Open | None = None,
    ) -> None:
        self._context = context
        self._ceilings = ceilings or Ceilings()
        self._policy = policy or model.Policy()
        self._prices = prices or Prices()
        self._pods: store.Table[objects.Pod] = context.watch(kinds.PODS, objects.pod)
        self._nodes: store.Table[objects.Node] = context.watch(kinds.NODES, objects.node)
        self._pod_index = pod_index.PodIndex(self._pods)
        self._node_index = node_index.NodeIndex(self._nodes)
        self._namespaces: store.Table[objects.Simple] = context.watch(kinds.NAMESPACES, objects.simple)
        self._pools = context.watch(POOLS, objects.custom(resources.InstancePool))
        self._scopes = context.watch(SCOPES, objects.custom(resources.Scope))
        self._machines = context.watch(MACHINES, objects.custom(resources.Machine))
        self._daemons: store.Table[daemons.DaemonSet] = context.watch(kinds.DAEMON_SETS, daemons.decode)
        self._volumes: store.Table[volumes.Volume] = context.watch(kinds.VOLUMES, volumes.volume)
        self._volume_claims: store.Table[volumes.Claim] = context.watch(kinds.CLAIMS, volumes.claim)
        self._clouds = clouds.Clouds(context, open_cloud)
        self._books = bookkeeping.Bookkeeper(context, self._clouds, pods=self._pods, nodes=self._nodes)
        self._news = interruptions.News(context, self._clouds, open_news) if open_news is not None else None
        self._resting = backoff.Retries(context.clock, draining.BACKOFF)
        self._departures = departures.Departures(
            context, known=self._clouds, nodes=self._nodes, pools=self._pools, resting=self._resting
        )
        self._claims = claims.Claims(context, nodes=self._nodes, pods=self._pods)
        self._renewer = renewer.Renewer()
        self._publisher = publisher.Publisher(
            context, pools=self._pools, scopes=self._scopes, known=self._clouds, waiting=self._count_waiting
        )
        self._opener = opening.Opener(context, self._pods)
        self._foreign = foreign.Foreign(context)
        self._farewells = farewells.Farewells(context, pools=self._pools, nodes=self._nodes, pods=self._pods)
        self._wake_at: float | None = None
        self._generations: dict[tuple[str, objects.Key], tuple[int, bool] | None] = {}
        self._experience: dict[experience.Waiting, experience.Experience] = {}
        self._learned: learning.Known = {}
        self._shortages = shortages.Shortages(context, self._clouds, self._set_desired, self._resting)
        self._launched: deque[float] = deque()
        self._told: dict[str, str] = {}

    async def reconcile(self, dirty: control.Dirty) -> float | None:
        """Plan and act once; return when time alone will change the plan."""
        if dirty and not self._is_news(dirty) and self._wake_at is not None:
            return self._wake_at
        self._wake_at = None  # if this fails, what was news still is
        self._wake_at = await self._reconcile()
        return self._wake_at

    def _is_news(self, dirty: control.Dirty) -> bool:
        """Tell whether anything changed but status, and Instance objects, which we ourselves write."""
        own = {POOLS.kind: self._pools.get, SCOPES.kind: self._scopes.get, MACHINES.kind: self._machines.get}
        news = any(kind not in own and kind != bookkeeping.INSTANCES.kind for kind, _ in dirty)
        for kind, get in own.items():
            for key in [key for each, key in dirty if each == kind]:
                found = get(key)
                generation = (found.meta.generation, found.meta.deleted_at is None) if found is not None else None
                news = news or self._generations.get((kind, key)) != generation
                self._generations[kind, key] = generation
        return news

    async def _reconcile(self) -> float | None:
        if not self._clouds.is_read() or not self._foreign.is_known or self._farewells.have_left:
            return None  # each of them wakes us
        first = self._snapshot()
        is_taken_back = self._foreign.who is not None or await self._shortages.look(first)
        self._learned = learning.recall(self._learned, (each.resource for each in self._pools), first.groups)
        is_settled = await self._claims.settle()
        is_kept = await self._books.keep(self._snapshot()) and is_settled
        snapshot = self._snapshot()
        plan: Plan = await self._context.plan(decide.decide, snapshot, self._policy)
        self._learn(snapshot, plan)
        is_kept = await self._claims.claim(snapshot, plan.landed) and is_kept
        renewal = self._renewer.choose(snapshot, plan)
        launches = (*plan.launches, *renewal.surges)
        landed = await self._launch(launches)
        self._tell(plan, landed)
        opened = await self._opener.open(plan.openings)
        await self._publisher.publish(self._snapshot(), plan)
        now = self._context.clock.now()
        wakes = [availability.next_end(self._shortages.known, now), experience.next_lesson(self._experience, now)]
        wakes.append(accounting.month_end(now))  # what a month may take begins anew
        wakes += [renewal.wake_at, plan.wake_at, opened]
        if any(group.members for group in snapshot.groups):
            wakes.append(now + BOOKS_SECONDS)
        if self._foreign.who is None:
            needed, note = plan.needed | renewal.spares, self._shortages.note_useless
            wakes.append(await self._departures.carry_out(self._snapshot, needed, note, renewal.drains))
        wakes.append(await self._farewells.carry_out(self._snapshot()))
        if len(landed) < len(launches) or not is_kept or not is_taken_back:
            wakes.append(now + AGAIN_SECONDS)
        return clock.earliest(wakes)

    def _snapshot(self) -> Snapshot:
        pods, indexed = self._claims.pods(self._pod_index)
        pools = {each.meta.key.name: each.resource.spec for each in self._pools}
        now = self._context.clock.now()
        while self._launched and self._launched[0] < self._context.clock.monotonic() - LAUNCH_WINDOW_SECONDS:
            self._launched.popleft()
        return Snapshot(
            now=now,
            pods=pods,
            indexed=indexed,
            nodes=self._node_index.nodes(),
            by_provider=self._node_index.by_provider(),
            namespaces={each.meta.key.name: each.meta.labels for each in self._namespaces},
            pools=pools,
            scopes={each.meta.key.name: each.resource.spec for each in self._scopes},
            machines=_in_order(self._machines),
            groups=self._clouds.groups({name: spec.provider_account for name, spec in pools.items()}),
            types=self._clouds.types(),
            claim_zones=volumes.zones_of_claims(self._volume_claims, self._volumes.snapshot()),
            daemons=tuple(each.shape for each in self._daemons),
            unavailable=dict(self._shortages.known),
            ceilings=self._ceilings,
            launched=len(self._launched),
            experience=self._experience,
            learned=learning.amounts(self._learned),
            instances=self._books.instances(),
            records=self._books.indexed(),
            used=self._books.used(now, pools, self._prices),
            durations={**publishing.durations_of(each.resource for each in self._scopes), **self._books.durations},
            prices=self._prices,
            outages=self._clouds.outages(),
            outdated=self._clouds.outdated(),
            spent=self._claims.spent(),
            doomed=frozenset(self._news.doomed if self._news is not None else ()),
            launched_at=self._clouds.launched_at(),
            foreign=self._foreign.who,
            leaving=self._farewells.who(),
            dissolving=self._farewells.is_dissolving,
            closing=self._farewells.is_closing,
            home=self._context.namespace,
        )

    def _count_waiting(self) -> Counter[str]:
        """Count the pods that wait, by scope, without a plan."""
        snapshot = self._snapshot()
        counted: Counter[str] = Counter()
        for like, pods in demand.waiting(snapshot.indexed).items():
            counted[demand.scope_of(snapshot, like.namespace)] += len(pods)
        return counted

    def _learn(self, snapshot: Snapshot, plan: Plan) -> None:
        """Remember what nodes really offer, and where pods found no room although there should have been some."""
        if plan.landed or self._experience:
            groups = {
                node.meta.key.name: group.key
                for group in snapshot.groups
                for node in supply.nodes_of(snapshot, group).values()
            }
            taking = experience.taking(snapshot.pods.values(), groups, snapshot.now) if plan.landed else None
            self._experience = experience.learn(self._experience, plan.landed, groups, now=snapshot.now, taking=taking)
        self._learned = learning.learn(self._learned, snapshot)

    # Launches

    async def _launch(self, launches: Iterable[Launch]) -> dict[NodeGroupKey, Launch]:
        """Raise groups, one call for each; return those that were."""
        by_account: dict[str, list[Launch]] = {}
        for launch in launches:
            by_account.setdefault(self._clouds.account_of(launch.group) or "", []).append(launch)
        outcomes = await asyncio.gather(*(self._launch_in(name, these) for name, these in by_account.items()))
        return {launch.key: launch for landed in outcomes for launch in landed}

    async def _launch_in(self, account: str, launches: list[Launch]) -> list[Launch]:
        """Read an account's groups again, then raise them: somebody else may have changed them."""
        seen = self._clouds.seen.get(account)
        launches = [launch for launch in launches if not self._resting.holds(launch.group)]
        if seen is None or not launches:
            return []
        try:
            reading = await seen.view.reread([launch.group for launch in launches])
        except cloud.CloudError as error:
            log.warning("launches_not_sent", account=account, reason=error.reason, error=error.message)
            self._clouds.hurry()
            for launch in launches:
                self._resting.note(launch.group, is_done=False)
            return []
        raised = await asyncio.gather(*(self._raise(each, reading.groups.get(each.group)) for each in launches))
        return [launch for launch, is_raised in zip(launches, raised, strict=True) if is_raised]

    async def _raise(self, launch: Launch, group: cloud.NodeGroup | None) -> bool:
        if group is None or offers.size(group) != launch.before or launch.after > group.maximum:
            log.info("launch_outdated", group=launch.group, planned=(launch.before, launch.after))
            return False  # the plan is made again soon
        if not await self._set_desired(group, launch.after):
            return False
        self._launched.extend([self._context.clock.monotonic()] * (launch.after - launch.before))
        return True

    async def _set_desired(self, group: cloud.NodeGroup, desired: int) -> bool:
        seen = self._clouds.of(group.name)
        what = f"set desired of {group.name} from {group.desired} to {desired}"
        if seen is None or not self._context.may_act(what):
            return False
        outcome = await seen.view.set_desired(group.name, desired)
        self._clouds.hurry()
        error = outcome.error.message if outcome.error else None
        log.info(
            "desired_set", group=group.name, before=group.desired, after=desired, verdict=outcome.verdict, error=error
        )
        is_done = outcome.verdict is not cloud.Verdict.NOT_DONE
        self._resting.note(group.name, is_done=is_done)
        if not is_done and desired > group.desired:
            self._shortages.note_refused(group, outcome.error)
        return is_done

    # Telling

    def _tell(self, plan: Plan, landed: dict[NodeGroupKey, Launch]) -> None:
        waiting = {pod.meta.uid for hope in plan.hopes for pod in hope.pods}
        waiting |= {pod.meta.uid for despair in plan.despairs for pod in despair.pods}
        self._told = {uid: text for uid, text in self._told.items() if uid in waiting}
        for hope in plan.hopes:
            launches = [landed[key] for key in hope.groups if key in landed]
            if launches:
                log.info("scale_up", groups=[each.group for each in launches], pods=_named(hope.pods))
                self._tell_pods(hope.pods, telling.TRIGGERED, telling.triggered(launches))
        for despair in plan.despairs:
            message = telling.not_triggered(despair.rejections)
            untold = self._tell_pods(despair.pods, telling.NOT_TRIGGERED, message)
            if untold:
                log.info("no_scale_up", limits=telling.limits(despair.rejections), pods=_named(untold))

    def _tell_pods(self, pods: tuple[objects.Pod, ...], reason: str, message: str) -> list[objects.Pod]:
        """Tell pods what they were not told yet; what the API server does not take is told in a later cycle."""
        untold = [pod for pod in pods[:EVENTS_MAX] if self._told.get(pod.meta.uid) != reason]
        self._told |= {pod.meta.uid: reason for pod in pods}
        for pod in untold:
            self._context.tell(kinds.PODS, pod, reason, message, ended=partial(self._note_told, pod.meta.uid))
        return untold

    def _note_told(self, uid: str, is_told: bool) -> None:  # noqa: FBT001  # a callback's shape
        if not is_told:
            self._told.pop(uid, None)


def _named(pods: Sequence[objects.Pod]) -> list[objects.Key]:
    return [pod.meta.key for pod in pods[:EVENTS_MAX]]


def _in_order(machines: Iterable[objects.Custom[resources.Machine]]) -> dict[str, MachineSpec]:
    """Return machine groups that stay; those that are older have their nodes first."""
    staying = [each for each in machines if each.meta.deleted_at is None]
    staying.sort(key=lambda each: (each.meta.created_at, each.meta.key.name))
    return {each.meta.key.name: each.resource.spec for each in staying}
