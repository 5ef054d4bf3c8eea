"""Instances that go: those of no use, those that the provider takes away, and those that are idle.

What goes is decided in `replacing`, `drains` and `removal`; here it is carried out. Nothing that may have work is ended
on what was true a moment ago: a node is marked first, and its pods are read again from the API server before its
instance ends.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final

import structlog

from autoscaler import backoff, clock, control
from autoscaler.api.resources.pools import InstancePool
from autoscaler.capacity import clouds, draining, drains, marks, removal, replacing, work
from autoscaler.capacity.custom import POOLS
from autoscaler.capacity.plan import Disruption
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.cloud import port as cloud
from autoscaler.kube import listing, objects, port, store

log = structlog.get_logger()
SETTLE_SECONDS: Final = 5.0
"""Between marking a node and looking whether it is still empty: what was on its way there has arrived by then."""
TICK_SECONDS: Final = 0.001


class Departures:
    """Ends instances."""

    def __init__(
        self,
        context: control.ControllerContext,
        *,
        known: clouds.Clouds,
        nodes: store.Table[objects.Node],
        pools: store.Table[objects.Custom[InstancePool]],
        resting: backoff.Retries,
    ) -> None:
        self._context = context
        self._resting = resting
        self._clouds = known
        self._nodes = nodes
        self._pools = pools
        self._drainer = draining.Drainer(context, nodes)
        self._away = 0
        self._idle: dict[str, float] = {}
        self._nodeless: dict[str, float] = {}
        self._marked: dict[str, float] = {}
        """Nodes that were marked for removal, and when by the clock that never goes back."""

    async def carry_out(
        self,
        take: Callable[[], Snapshot],
        needed: frozenset[str],
        useless: Callable[[Disruption], None],
        renewed: tuple[Disruption, ...] = (),
    ) -> float | None:
        """End what must go; return when time alone would make more go. `useless` hears of instances of no use."""
        wakes = [await self._replace(take(), useless)]
        snapshot = take()
        going = (*drains.choose(snapshot), *renewed)
        wakes += [await self._drainer.drain(going), await self._remove(snapshot, needed, going)]
        return clock.earliest(wakes)

    # Instances that are of no use, or will be gone

    async def _replace(self, snapshot: Snapshot, useless: Callable[[Disruption], None]) -> float | None:
        """End instances that never became nodes, or whose nodes were lost."""
        self._nodeless = replacing.nodeless_since(snapshot, self._nodeless)
        choice = replacing.choose(snapshot, self._nodeless)
        if choice.away and not self._away:
            log.warning("lost_nodes_kept", away=choice.away, why="too many at once: is the control plane cut off?")
        self._away = choice.away
        for each in [each for each in choice.replacements if not self._resting.holds(each.instance)]:
            await self._end_useless(each)
            useless(each)
        return choice.wake_at

    async def _end_useless(self, each: Disruption) -> None:
        ended = await self._terminate(each)
        if ended is not None:
            log.warning("useless_instance_ended", **ended)
            self._tell_pool(each)

    def _tell_pool(self, each: Disruption) -> None:
        pool = self._pools.get(objects.Key("", each.pool))
        if pool is not None:
            message = f"an instance of {each.group} was ended: {each.reason}"
            self._context.tell(POOLS, pool, each.reason, message, is_warning=True)

    # Removals

    async def _remove(self, snapshot: Snapshot, needed: frozenset[str], going: tuple[Disruption, ...]) -> float | None:
        """Mark idle instances, end those that stayed empty, and let go of those that did not."""
        self._idle = removal.idle_since(snapshot, self._idle)
        choice = removal.choose(snapshot, self._idle, needed)
        chosen = {each.node_name: each for each in choice.removals}
        await self._spare({*chosen, *(drain.node_name for drain in going)}, snapshot.groups)
        marked = {node.meta.key.name for node in marks.marked(self._nodes.snapshot())}  # somebody may take it off
        self._marked = {name: at for name, at in self._marked.items() if name in chosen and name in marked}
        for name, each in chosen.items():
            if name not in self._marked:
                await self._mark(each)
        due = [each for name, each in chosen.items() if self._settled(name) and not self._resting.holds(each.instance)]
        await asyncio.gather(*(self._end(each) for each in due))
        ago = self._context.clock.monotonic() - self._context.clock.now()
        settled = [at + SETTLE_SECONDS - ago for name, at in self._marked.items() if not self._settled(name)]
        return clock.earliest((choice.wake_at, *settled))

    def _settled(self, name: str) -> bool:
        return self._context.clock.monotonic() >= self._marked.get(name, float("inf")) + SETTLE_SECONDS - TICK_SECONDS

    async def _spare(self, going: set[str], groups: Iterable[cloud.NodeGroup]) -> None:
        """Take our mark off nodes that are not to go: a pod came, they are needed, or who marked them is gone.

        A node whose instance ends already keeps it: nothing may go there any more.
        """
        marked = [node for node in marks.marked(self._nodes.snapshot()) if node.meta.key.name not in going]
        spared = [node for node in marked if marks.of(node) != marks.Reason.INTERRUPTED]
        members = {one.provider_id for group in groups for one in group.members} if spared else ()
        unsure = self._clouds.unsure() if spared else ()  # whether they are outdated
        for node in [each for each in spared if each.provider_id in members]:
            if node.provider_id in unsure and draining.is_marked(node, {marks.Reason.REPLACED}):
                continue
            await self._drainer.unmark(node)
            log.info("node_spared", node=node.meta.key.name)

    async def _mark(self, each: Disruption) -> None:
        node = self._nodes.get(objects.Key("", each.node_name))
        if node is None or node.meta.uid != each.node_uid:
            return
        await self._drainer.mark(node, each.reason)
        self._marked[each.node_name] = self._context.clock.monotonic()
        log.info("node_marked", node=each.node_name, reason=each.reason, idle_since=each.since)

    async def _end(self, each: Disruption) -> None:
        """End an instance, if the API server itself says that nothing works on its node."""
        node = self._nodes.get(objects.Key("", each.node_name))
        try:
            if node is None or not draining.is_marked(node) or await self._has_work(node.provider_id):
                return
        except port.KubeError as unread:
            log.warning("node_not_looked_at", node=each.node_name, error=str(unread))
            return
        ended = await self._terminate(each)
        if ended is not None:
            log.info("instance_ended", node=each.node_name, **ended)

    async def _has_work(self, provider_id: str) -> bool:
        """Tell whether anything works on an instance, whatever nodes it has."""
        names = [node.meta.key.name for node in self._nodes if node.provider_id == provider_id]
        found = [await listing.pods_on(self._context.api, name) for name in names]
        return any(work.is_work(pod) for pods in found for pod in pods)

    async def _terminate(self, each: Disruption) -> dict[str, Any] | None:
        """End an instance, and leave it for a moment if that was not done; return what to log. None: we may not act."""
        seen = self._clouds.of(each.group)
        if seen is None or not self._context.may_act(f"end {each.instance} of {each.group}: {each.reason}"):
            return None
        outcome = await seen.view.terminate(each.group, each.instance, decrement=each.decrement)
        self._resting.note(each.instance, is_done=outcome.verdict is not cloud.Verdict.NOT_DONE)
        self._clouds.hurry()
        error = outcome.error.message if outcome.error else None
        return {"instance": each.instance, "reason": each.reason, "verdict": outcome.verdict, "error": error}
