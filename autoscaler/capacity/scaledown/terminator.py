"""Carry out what goes: mark nodes, let their work leave, end instances, and take marks off that have no reason.

What goes is decided in `node_repair`, `drain_plan` and `emptiness`. Nothing that may have work is ended on what was
true a moment ago: a node is marked first, and its pods are read again from the API server before its instance ends.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

import structlog

from autoscaler import backoff, clock, control
from autoscaler.api.resources.pools import InstancePool
from autoscaler.capacity import disruption_taint, work
from autoscaler.capacity.accounts import cloud_calls
from autoscaler.capacity.custom import POOLS
from autoscaler.capacity.plan import Disruption, Plan
from autoscaler.capacity.records import instance_records
from autoscaler.capacity.scaledown import attached_volumes, drainer, emptiness
from autoscaler.kube import objects, port, store
from autoscaler.kube.reading import listing

log = structlog.get_logger()
TICK_SECONDS: Final = 0.001
VOLUMES_ATTACHED: Final = "VolumesAttached"
NAMED_MAX: Final = 3
"""So many volumes are told by name."""
AGAIN_SECONDS: Final = emptiness.SETTLE_SECONDS
"""When to look again after what was marked, and at what should have ended by then."""


class Terminator:
    """Ends instances."""

    def __init__(
        self,
        context: control.ControllerContext,
        *,
        calls: cloud_calls.Calls,
        nodes: store.Table[objects.Node],
        pools: store.Table[objects.Custom[InstancePool]],
    ) -> None:
        self._context = context
        self._calls = calls
        self._nodes = nodes
        self._by_provider = nodes.index(_provider_ids)
        self._pools = pools
        self._drainer = drainer.Drainer(context, nodes)
        self._volumes = attached_volumes.AttachedVolumes(context)
        self._marked: dict[str, float] = {}
        """Idle nodes that were marked, and when by the clock that never goes back."""
        self._unread = backoff.Retries(context.clock, drainer.BACKOFF)
        """Nodes whose pods or volumes could not be read before their instances end."""
        self._sparing: set[str] = set()
        """Nodes whose mark is being taken off: their instances must not end."""

    def marked(self) -> dict[str, float]:
        """Return the idle nodes that were marked, and when."""
        ago = self._context.clock.monotonic() - self._context.clock.now()
        return {name: at - ago for name, at in self._marked.items()}

    def held(self) -> frozenset[str]:
        """Return the UIDs of pods that should leave, and that a disruption budget holds."""
        return frozenset(self._drainer.held)

    def evictions(self) -> Mapping[str, int]:
        """Return what became of evictions."""
        return self._drainer.evictions

    async def carry_out(self, plan: Plan) -> float | None:
        """Do what the plan says; return when to go on if nothing changes before."""
        now = self._context.clock.now()
        useless = [each for each in plan.disruptions if each.is_useless]
        drained = [each for each in plan.disruptions if not each.instance]
        idle = {each.node_name: each for each in plan.disruptions if each.instance and not each.is_useless}
        await asyncio.gather(*map(self._spare, plan.spared))
        drained_at = await self._drainer.drain(drained)
        there = {
            node.meta.key.name for node in disruption_taint.marked(self._nodes.snapshot())
        }  # somebody may take it off
        self._marked = {name: at for name, at in self._marked.items() if name in idle and name in there}
        unmarked = [each for name, each in idle.items() if name not in self._marked]
        await asyncio.gather(*map(self._mark, unmarked))
        readable = {name for name in idle.keys() & there if not self._unread.holds(name)}
        due = [each for name, each in idle.items() if name in readable and each.wait_until <= now + TICK_SECONDS]
        self._calls.end((*useless, *due), self._may_end)
        again = now + AGAIN_SECONDS if useless or due or unmarked else None
        return clock.earliest((drained_at, again))

    async def _spare(self, node: objects.Node) -> None:
        """Take our mark off a node, unless its instance is about to end."""
        name = node.meta.key.name
        if self._calls.is_ending(instance_records.instance_id(node.provider_id)):
            return
        self._sparing.add(name)
        try:
            await self._drainer.unmark(node)
        finally:
            self._sparing.discard(name)
        log.info("node_spared", node=name)

    async def _mark(self, each: Disruption) -> None:
        node = self._nodes.get(objects.Key("", each.node_name))
        if node is None or node.meta.uid != each.node_uid:
            return
        await self._drainer.mark(node, each.reason, is_ending=True)
        self._marked[each.node_name] = self._context.clock.monotonic()
        log.info("node_marked", node=each.node_name, reason=each.reason, idle_since=each.since)

    # Ends

    async def _may_end(self, each: Disruption) -> bool:
        """Tell whether an instance may end: the API server itself says that nothing works on its node."""
        node = self._nodes.get(objects.Key("", each.node_name))
        if each.is_useless:
            return node is None or not node.ready
        try:
            if node is None or await self._volumes.hold(node, each, self._marked.get(each.node_name)):
                return False
            is_empty = self._is_going(node) and not await self._has_work(node)
        except port.KubeError as unread:
            log.warning("node_not_looked_at", node=each.node_name, error=str(unread))
            self._unread.note(each.node_name, is_done=False)
            return False
        self._unread.note(each.node_name, is_done=True)
        return is_empty and self._is_going(self._nodes.get(objects.Key("", each.node_name)))

    def _is_going(self, node: objects.Node | None) -> bool:
        return node is not None and disruption_taint.of(node) is not None and node.meta.key.name not in self._sparing

    async def _has_work(self, node: objects.Node | None) -> bool:
        """Tell whether anything works on an instance, whatever nodes it has."""
        same = list(self._by_provider.get(node.provider_id if node is not None else ""))
        found = [await listing.pods_on(self._context.api, key.name) for key in same]
        return any(work.is_work(pod) for pods in found for pod in pods)

    def tell(self, outcome: cloud_calls.Outcome) -> None:
        """Tell a pool of an instance that was of no use, or that was ended with volumes attached."""
        each = outcome.command
        if not isinstance(each, Disruption):
            return
        volumes = self._volumes.left_on(each.node_name) if outcome.is_done else ()
        if each.is_useless:
            self._tell_pool(each, each.reason, f"an instance of {each.group} was ended: {each.reason}")
        elif volumes:
            text = f"{each.node_name} was ended with volumes attached: {', '.join(volumes[:NAMED_MAX])}"
            self._tell_pool(each, VOLUMES_ATTACHED, f"{text}; pods that need them may wait for minutes")

    def _tell_pool(self, each: Disruption, reason: str, message: str) -> None:
        pool = self._pools.get(objects.Key("", each.pool))
        if pool is not None:
            self._context.tell(POOLS, pool, reason, message, is_warning=True)


def _provider_ids(node: objects.Node) -> tuple[str, ...]:
    return (node.provider_id,)
