"""Capacity: pods that no node has room for become machines, and idle machines become nothing.

Every cycle takes one snapshot, plans on it without I/O, and carries the plan out: first what failed is taken back, then
groups grow, then idle machines are marked and, a little later, ended. Nothing is ended on what was true a moment ago:
the node's pods are read again from the API server before each end.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any, Final

import structlog

from autoscaler import control
from autoscaler.api import keys, resources
from autoscaler.api.node_groups import NodeGroupKey
from autoscaler.capacity import (
    availability,
    bookkeeping,
    clouds,
    daemons,
    decide,
    foreign,
    model,
    offers,
    publishing,
    removal,
    telling,
)
from autoscaler.capacity.snapshot import Ceilings, Snapshot, Unavailable
from autoscaler.cloud import port as cloud
from autoscaler.cloud.prices import Prices
from autoscaler.kube import events, kinds, objects, port, store, wire, writer

log = structlog.get_logger()
SETTLE_SECONDS: Final = 5.0
"""Between marking a node and looking whether it is still empty: what was on its way there has arrived by then."""
AGAIN_SECONDS: Final = 5.0
"""After a launch that was not done: when the plan is made again."""
LAUNCH_WINDOW_SECONDS: Final = 60.0
EVENTS_MAX: Final = 200
"""So many pods are told of one plan; all others look the same."""
POOLS: Final = kinds.custom(resources.InstancePool)
SCOPES: Final = kinds.custom(resources.Scope)


class Controller:
    """Scales the node groups of one cluster."""

    def __init__(
        self,
        footing: control.Footing,
        *,
        open_cloud: clouds.Open,
        ceilings: Ceilings | None = None,
        policy: model.Policy | None = None,
        prices: Prices | None = None,
    ) -> None:
        self._footing = footing
        self._ceilings = ceilings or Ceilings()
        self._policy = policy or model.Policy()
        self._prices = prices or Prices()
        self._pods: store.Table[objects.Pod] = footing.watch(kinds.PODS, objects.pod)
        self._nodes: store.Table[objects.Node] = footing.watch(kinds.NODES, objects.node)
        self._namespaces: store.Table[objects.Simple] = footing.watch(kinds.NAMESPACES, objects.simple)
        self._pools = footing.watch(POOLS, objects.custom(resources.InstancePool))
        self._scopes = footing.watch(SCOPES, objects.custom(resources.Scope))
        self._daemons: store.Table[daemons.DaemonSet] = footing.watch(kinds.DAEMON_SETS, daemons.decode)
        self._clouds = clouds.Clouds(footing, open_cloud)
        self._books = bookkeeping.Bookkeeper(footing, self._clouds)
        self._node_target = writer.Target(resource=kinds.NODES, decode=objects.node, table=self._nodes)
        self._pool_target = writer.Target(
            resource=POOLS, decode=objects.custom(resources.InstancePool), table=self._pools
        )
        self._foreign = foreign.Foreign(footing)
        self._foreign_scaler: str | None = None
        self._unavailable: dict[NodeGroupKey, Unavailable] = {}
        self._noted: dict[cloud.GroupName, float] = {}
        """When the last failed launch of a group began that was taken note of."""
        self._launched: deque[float] = deque()
        self._idle: dict[str, float] = {}
        self._marked: dict[str, float] = {}
        """Nodes that were marked for removal, and when."""
        self._told: dict[str, str] = {}

    async def reconcile(self, dirty: control.Dirty) -> float | None:
        """Plan and act once; return when time alone will change the plan."""
        del dirty
        if not self._clouds.is_read():
            return None  # the reading wakes us
        self._foreign_scaler = await self._foreign.who()
        if self._foreign_scaler is None:
            await self._note_failures()
        await self._books.keep(self._snapshot())
        snapshot = self._snapshot()
        plan: decide.Plan = await self._footing.plan(decide.decide, snapshot, self._policy)
        landed = await self._launch(plan.launches)
        self._tell(plan, landed)
        await self._publish()
        now = self._footing.clock.now()
        wakes = [availability.next_end(self._unavailable, now), now + foreign.LOOK_SECONDS]
        if self._foreign_scaler is None:
            wakes.append(await self._remove(plan))
        if len(landed) < len(plan.launches):
            wakes.append(now + AGAIN_SECONDS)
        return min((at for at in wakes if at is not None), default=None)

    def _snapshot(self) -> Snapshot:
        nodes = self._nodes.snapshot()
        now = self._footing.clock.now()
        while self._launched and self._launched[0] < now - LAUNCH_WINDOW_SECONDS:
            self._launched.popleft()
        return Snapshot(
            now=now,
            pods=self._pods.snapshot(),
            nodes=nodes,
            by_provider={node.provider_id: node for node in nodes.values() if node.provider_id},
            namespaces={each.meta.key.name: each.meta.labels for each in self._namespaces},
            pools={each.meta.key.name: each.resource.spec for each in self._pools},
            scopes={each.meta.key.name: each.resource.spec for each in self._scopes},
            groups=self._clouds.groups(),
            types=self._clouds.types(),
            daemons=tuple(each.shape for each in self._daemons),
            unavailable=dict(self._unavailable),
            ceilings=self._ceilings,
            launched=len(self._launched),
            instances=self._books.instances(),
            durations=dict(self._books.durations),
            prices=self._prices,
            launched_at={one: life.launched_at for one, life in self._clouds.lives().items()},
            foreign=self._foreign_scaler,
        )

    # Launches

    async def _note_failures(self) -> None:
        """Leave offerings alone that the provider does not have, and take back what was asked of them."""
        now = self._footing.clock.now()
        self._unavailable = availability.current(self._unavailable, now)
        for seen in self._clouds.seen.values():
            reading = seen.view.reading
            for name, failures in reading.failures.items() if reading is not None else ():
                if failures and reading is not None and failures[0].started_at > self._noted.get(name, 0.0):
                    self._noted[name] = failures[0].started_at
                    await self._give_up(reading.groups[name], failures[0])

    async def _give_up(self, group: cloud.NodeGroup, failure: cloud.Activity) -> None:
        noted = availability.note(self._unavailable.get(group.key), failure, self._footing.clock.now())
        self._unavailable[group.key] = noted
        log.warning("launch_failed", group=group.name, reason=noted.reason, error=noted.message, until=noted.until)
        back = max(group.minimum, len(group.members))
        if group.desired > back:
            await self._set_desired(group, back)

    async def _launch(self, launches: Iterable[decide.Launch]) -> dict[NodeGroupKey, decide.Launch]:
        """Raise groups, one call for each; return those that were."""
        outcomes = await asyncio.gather(*(self._raise(each) for each in launches))
        return {launch.key: launch for launch in outcomes if launch is not None}

    async def _raise(self, launch: decide.Launch) -> decide.Launch | None:
        """Raise a group by what was planned, from what it has now: somebody else may have changed it."""
        seen = self._clouds.of(launch.group)
        if seen is None:
            return None
        try:
            reading = await seen.view.reread([launch.group])
        except cloud.CloudError as error:
            log.warning("launch_not_sent", group=launch.group, reason=error.reason, error=error.message)
            return None
        group = reading.groups.get(launch.group)
        if group is None or offers.size(group) != launch.before or launch.after > group.maximum:
            log.info("launch_outdated", group=launch.group, planned=(launch.before, launch.after))
            self._footing.wake(clouds.KIND, objects.Key("", launch.group))
            return None
        if not await self._set_desired(group, launch.after):
            return None
        self._launched.extend([self._footing.clock.now()] * (launch.after - launch.before))
        return launch

    async def _set_desired(self, group: cloud.NodeGroup, desired: int) -> bool:
        seen = self._clouds.of(group.name)
        what = f"set desired of {group.name} from {group.desired} to {desired}"
        if seen is None or not self._footing.may_act(what):
            return False
        outcome = await seen.view.set_desired(group.name, desired)
        self._clouds.hurry()
        error = outcome.error.message if outcome.error else None
        log.info(
            "desired_set", group=group.name, before=group.desired, after=desired, verdict=outcome.verdict, error=error
        )
        return outcome.verdict is not cloud.Verdict.NOT_DONE

    # Telling

    def _tell(self, plan: decide.Plan, landed: dict[NodeGroupKey, decide.Launch]) -> None:
        said: dict[str, str] = {}
        for hope in plan.hopes:
            launches = [landed[key] for key in hope.groups if key in landed]
            if launches:
                message = telling.triggered(launches)
                said |= self._tell_pods(hope.pods, telling.TRIGGERED, message, events.EventType.NORMAL)
        for despair in plan.despairs:
            message = telling.not_triggered(despair.rejections)
            said |= self._tell_pods(despair.pods, telling.NOT_TRIGGERED, message, events.EventType.NORMAL)
        waiting = {pod.meta.uid for hope in plan.hopes for pod in hope.pods}
        waiting |= {pod.meta.uid for despair in plan.despairs for pod in despair.pods}
        self._told = {uid: text for uid, text in self._told.items() if uid in waiting} | said

    def _tell_pods(
        self, pods: tuple[objects.Pod, ...], reason: str, message: str, kind: events.EventType
    ) -> dict[str, str]:
        """Tell pods what they were not told yet."""
        for pod in pods[:EVENTS_MAX]:
            if self._told.get(pod.meta.uid) != reason:
                regarding = events.Regarding(resource=kinds.PODS, key=pod.meta.key, uid=pod.meta.uid)
                self._footing.recorder.record(
                    events.Event(regarding=regarding, type=kind, reason=reason, message=message)
                )
        return {pod.meta.uid: reason for pod in pods}

    async def _publish(self) -> None:
        """Write what pools say about themselves, where it changed."""
        snapshot = self._snapshot()
        for pool in list(self._pools):
            problem = self._clouds.problem(pool.resource.spec.provider_account)
            changes = publishing.changes(pool.resource, snapshot, problem)
            if changes:
                await self._write_status(pool, changes)

    async def _write_status(self, pool: objects.Custom[resources.InstancePool], changes: Any) -> None:  # noqa: ANN401
        try:
            await self._footing.writer.patch(
                self._pool_target,
                pool.meta.key,
                {"status": changes},
                only_if=writer.Precondition.of(pool),
                subresource="status",
            )
        except port.KubeError as error:  # the next cycle tries again
            log.info("status_not_written", pool=pool.meta.key.name, error=str(error))

    # Removals

    async def _remove(self, plan: decide.Plan) -> float | None:
        """Mark idle machines, end those that stayed empty, and let go of those that did not."""
        snapshot = self._snapshot()
        self._idle = removal.idle_since(snapshot, self._idle)
        choice = removal.choose(snapshot, self._idle, plan.needed)
        chosen = {each.node.name: each for each in choice.removals}
        await self._spare(chosen)
        for name, each in chosen.items():
            if name not in self._marked:
                await self._mark(each)
        due = [each for name, each in chosen.items() if self._settled(name)]
        await asyncio.gather(*(self._end(each) for each in due))
        marked = [at + SETTLE_SECONDS for name, at in self._marked.items() if name in chosen]
        return min((at for at in (choice.wake_at, *marked) if at is not None), default=None)

    def _settled(self, name: str) -> bool:
        return self._footing.clock.now() >= self._marked.get(name, float("inf")) + SETTLE_SECONDS

    async def _spare(self, chosen: dict[str, removal.Removal]) -> None:
        """Take our mark off nodes that are not to go: a pod came, they are needed, or who marked them is gone."""
        for node in [each for each in self._nodes if _is_marked(each) and each.meta.key.name not in chosen]:
            self._marked.pop(node.meta.key.name, None)
            taints = [taint for taint in node.taints if taint.key != keys.REMOVING]
            await self._set_taints(node, taints)
            log.info("node_spared", node=node.meta.key.name)
        self._marked = {name: at for name, at in self._marked.items() if name in chosen}

    async def _mark(self, each: removal.Removal) -> None:
        node = self._nodes.get(each.node)
        if node is None or node.meta.uid != each.node_uid:
            return
        if not _is_marked(node):
            await self._set_taints(node, [*node.taints, objects.NodeTaint(keys.REMOVING, each.reason, "NoSchedule")])
        self._marked[each.node.name] = self._footing.clock.now()
        log.info("node_marked", node=each.node.name, reason=each.reason, idle_since=each.idle_since)

    async def _set_taints(self, node: objects.Node, taints: Iterable[objects.NodeTaint]) -> None:
        changes = {"spec": {"taints": [_taint(taint) for taint in taints] or None}}
        try:
            await self._footing.writer.patch(
                self._node_target, node.meta.key, changes, only_if=writer.Precondition.of(node)
            )
        except (port.ConflictError, port.NotFoundError):  # it changed or is gone: the change wakes us
            log.info("node_changed_meanwhile", node=node.meta.key.name)

    async def _end(self, each: removal.Removal) -> None:
        """End a machine, if the API server itself says that nothing works on its node."""
        node = self._nodes.get(each.node)
        if node is None or not _is_marked(node) or await self._has_work(each.node.name):
            return
        seen = self._clouds.of(each.group)
        if seen is None or not self._footing.may_act(f"end {each.instance} of {each.group}"):
            return
        outcome = await seen.view.terminate(each.group, each.instance, decrement=True)
        self._clouds.hurry()
        error = outcome.error.message if outcome.error else None
        log.info("machine_ended", node=each.node.name, instance=each.instance, verdict=outcome.verdict, error=error)

    async def _has_work(self, node: str) -> bool:
        query = {"fieldSelector": f"spec.nodeName={node}"}
        request = port.Request(method="GET", path=kinds.PODS.collection(), query=query)
        page = wire.LISTING.decode(port.required(await self._footing.api.send(request)))
        return any(removal.is_work(objects.pod(item)) for item in page.items)


def _is_marked(node: objects.Node) -> bool:
    return any(taint.key == keys.REMOVING for taint in node.taints)


def _taint(taint: objects.NodeTaint) -> dict[str, Any]:
    value = {"value": taint.value} if taint.value else {}
    return {"key": taint.key, "effect": taint.effect, **value}
