"""Machines that go: those of no use, those that the provider takes away, and those that are idle.

What goes is decided in `replacing` and `removal`; here it is carried out. Nothing that may have work is ended on what
was true a moment ago: a node is marked first, and its pods are read again from the API server before its machine ends.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final

import structlog

from autoscaler import control
from autoscaler.api import keys
from autoscaler.api.resources.pools import InstancePool
from autoscaler.capacity import clouds, interruptions, lives, removal, replacing, supply, work
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.kube import events, kinds, objects, port, store, wire, writer

log = structlog.get_logger()
SETTLE_SECONDS: Final = 5.0
"""Between marking a node and looking whether it is still empty: what was on its way there has arrived by then."""
TICK_SECONDS: Final = 0.001
AGAIN_SECONDS: Final = 5.0
"""When pods that could not be evicted are asked again."""
POOLS: Final = kinds.custom(InstancePool)
_IDLE: Final = frozenset(str(reason) for reason in removal.Reason)


class Departures:
    """Ends machines."""

    def __init__(
        self,
        footing: control.Footing,
        *,
        known: clouds.Clouds,
        nodes: store.Table[objects.Node],
        pods: store.Table[objects.Pod],
        pools: store.Table[objects.Custom[InstancePool]],
        news: interruptions.News | None,
    ) -> None:
        self._footing = footing
        self._clouds = known
        self._nodes = nodes
        self._pods = pods
        self._pools = pools
        self._news = news
        self._node_target = writer.Target(resource=kinds.NODES, decode=objects.node, table=nodes)
        self._idle: dict[str, float] = {}
        self._marked: dict[str, float] = {}
        """Nodes that were marked for removal, and when by the clock that never goes back."""

    async def carry_out(
        self, take: Callable[[], Snapshot], needed: frozenset[str], useless: Callable[[replacing.Replacement], None]
    ) -> float | None:
        """End what must go; return when time alone would make more go. `useless` hears of machines of no use."""
        wakes = [await self._replace(take(), useless), await self._drain(), await self._remove(take(), needed)]
        return min((at for at in wakes if at is not None), default=None)

    # Machines that are of no use, or will be gone

    async def _replace(self, snapshot: Snapshot, useless: Callable[[replacing.Replacement], None]) -> float | None:
        """End machines that never became nodes, or whose nodes were lost."""
        choice = replacing.choose(snapshot)
        for each in choice.replacements:
            await self._end_useless(each)
            useless(each)
        return choice.wake_at

    async def _end_useless(self, each: replacing.Replacement) -> None:
        seen = self._clouds.of(each.group)
        if seen is None or not self._footing.may_act(f"end {each.instance} of {each.group}: {each.reason}"):
            return
        outcome = await seen.view.terminate(each.group, each.instance, decrement=each.decrement)
        self._clouds.hurry()
        error = outcome.error.message if outcome.error else None
        log.warning(
            "useless_machine_ended", instance=each.instance, reason=each.reason, verdict=outcome.verdict, error=error
        )
        self._tell_pool(each)

    def _tell_pool(self, each: replacing.Replacement) -> None:
        pool = self._pools.get(objects.Key("", each.key.pool))
        if pool is not None:
            regarding = events.Regarding(resource=POOLS, key=pool.meta.key, uid=pool.meta.uid)
            message = f"a machine of {each.group} was ended: {each.reason}"
            self._footing.recorder.record(
                events.Event(regarding=regarding, type=events.EventType.WARNING, reason=each.reason, message=message)
            )

    async def _drain(self) -> float | None:
        """Let the work of machines that will be taken away go elsewhere, before it is lost with them."""
        doomed = self._news.doomed if self._news is not None else {}
        nodes = [node for node in self._nodes if lives.instance_id(node.provider_id) in doomed]
        by_node = supply.pods_by_node(self._pods) if nodes else {}
        left = 0
        for node in nodes:
            if not _is_marked(node):
                await self._set_taints(
                    node, [*node.taints, objects.NodeTaint(keys.REMOVING, supply.INTERRUPTED, "NoSchedule")]
                )
            staying = [pod for pod in by_node.get(node.meta.key.name, ()) if work.is_work(pod)]
            left += sum([not await self._evict(pod) for pod in staying if pod.meta.deleted_at is None])
        return self._footing.clock.now() + AGAIN_SECONDS if left else None

    async def _evict(self, pod: objects.Pod) -> bool:
        """Ask a pod to leave; False if it must be asked again. One that must not be evicted stays."""
        if pod.meta.annotations.get(objects.SAFE_TO_EVICT) == "false":
            return True
        try:
            await self._footing.writer.evict(pod.meta.key, only_if=writer.Precondition(uid=pod.meta.uid))
        except port.TooManyRequestsError:
            return False  # a disruption budget holds it
        except (port.NotFoundError, port.ConflictError):
            return True
        except port.KubeError as error:
            log.info("pod_not_evicted", pod=pod.meta.key, error=str(error))
            return False
        log.info("pod_evicted", pod=pod.meta.key, node=pod.node_name)
        return True

    # Removals

    async def _remove(self, snapshot: Snapshot, needed: frozenset[str]) -> float | None:
        """Mark idle machines, end those that stayed empty, and let go of those that did not."""
        self._idle = removal.idle_since(snapshot, self._idle)
        choice = removal.choose(snapshot, self._idle, needed)
        chosen = {each.node.name: each for each in choice.removals}
        members = {one.provider_id for group in snapshot.groups for one in group.members}
        await self._spare(chosen, members)
        for name, each in chosen.items():
            if name not in self._marked:
                await self._mark(each)
        due = [each for name, each in chosen.items() if self._settled(name)]
        await asyncio.gather(*(self._end(each) for each in due))
        ago = self._footing.clock.monotonic() - self._footing.clock.now()
        settled = [at + SETTLE_SECONDS - ago for name, at in self._marked.items() if not self._settled(name)]
        return min((at for at in (choice.wake_at, *settled) if at is not None), default=None)

    def _settled(self, name: str) -> bool:
        return self._footing.clock.monotonic() >= self._marked.get(name, float("inf")) + SETTLE_SECONDS - TICK_SECONDS

    async def _spare(self, chosen: dict[str, removal.Removal], members: set[str]) -> None:
        """Take our mark off nodes that are not to go: a pod came, they are needed, or who marked them is gone.

        A node whose machine ends already keeps it: nothing may go there any more.
        """
        marked = [each for each in self._nodes if _is_marked(each, _IDLE) and each.provider_id in members]
        for node in [each for each in marked if each.meta.key.name not in chosen]:
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
        self._marked[each.node.name] = self._footing.clock.monotonic()
        log.info("node_marked", node=each.node.name, reason=each.reason, idle_since=each.idle_since)

    async def _set_taints(self, node: objects.Node, taints: Iterable[objects.NodeTaint]) -> None:
        changes = {"spec": {"taints": [_taint(taint) for taint in taints] or None}}
        try:
            await self._footing.writer.patch(
                self._node_target, node.meta.key, changes, only_if=writer.Precondition.of(node)
            )
        except port.KubeError as error:  # it changed or is gone, and that wakes us; or the next cycle tries again
            log.info("node_not_marked", node=node.meta.key.name, error=str(error))

    async def _end(self, each: removal.Removal) -> None:
        """End a machine, if the API server itself says that nothing works on its node."""
        node = self._nodes.get(each.node)
        try:
            if node is None or not _is_marked(node) or await self._has_work(each.node.name):
                return
        except port.KubeError as unread:
            log.warning("node_not_looked_at", node=each.node.name, error=str(unread))
            return
        seen = self._clouds.of(each.group)
        if seen is None or not self._footing.may_act(f"end {each.instance} of {each.group}"):
            return
        outcome = await seen.view.terminate(each.group, each.instance, decrement=each.decrement)
        self._clouds.hurry()
        error = outcome.error.message if outcome.error else None
        log.info("machine_ended", node=each.node.name, instance=each.instance, verdict=outcome.verdict, error=error)

    async def _has_work(self, node: str) -> bool:
        query = {"fieldSelector": f"spec.nodeName={node}"}
        request = port.Request(method="GET", path=kinds.PODS.collection(), query=query)
        page = wire.LISTING.decode(port.required(await self._footing.api.send(request)))
        return any(work.is_work(objects.pod(item)) for item in page.items)


def _is_marked(node: objects.Node, reasons: Collection[str] | None = None) -> bool:
    """Tell whether a node carries our mark, for one of these reasons if any are given."""
    marks = [taint.value for taint in node.taints if taint.key == keys.REMOVING]
    return bool(marks) and (reasons is None or any(mark in reasons or not mark for mark in marks))


def _taint(taint: objects.NodeTaint) -> dict[str, Any]:
    value = {"value": taint.value} if taint.value else {}
    return {"key": taint.key, "effect": taint.effect, **value}
