"""Let work leave nodes whose instances will go: mark the node, then ask its pods to leave, as their budgets allow.

Which nodes, and which of their pods, is decided elsewhere and comes as disruptions; here it is carried out. Nothing is
killed: pods are evicted, so that disruption budgets hold, and those that must not be evicted stay.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Final

import structlog

from autoscaler import backoff, control
from autoscaler.api import keys
from autoscaler.api.manifests import Manifest
from autoscaler.capacity import disruption_taint
from autoscaler.capacity.plan import Disruption
from autoscaler.kube import kinds, objects, port, store, taints
from autoscaler.kube.writing import writer

log = structlog.get_logger()
AGAIN_SECONDS: Final = 5.0
"""When pods that could not be evicted are asked again."""
BACKOFF: Final = backoff.Backoff(first_seconds=4.0, longest_seconds=30.0)
"""What was asked for and refused, an eviction or a change of a group, is asked for again after this, however often a
busy cluster makes a plan meanwhile."""
AT_ONCE: Final = 20
"""So many nodes and pods are written to at a time: nobody else waits long for the next plan."""


class Drainer:
    """Empties nodes."""

    def __init__(self, context: control.ControllerContext, nodes: store.Table[objects.Node]) -> None:
        self._context = context
        self._nodes = nodes
        self._target = writer.Target(resource=kinds.NODES, decode=objects.node, table=nodes)
        self._retries = backoff.Retries(context.clock, BACKOFF)
        self._slots = asyncio.Semaphore(AT_ONCE)
        self.evictions: Counter[str] = Counter()
        """What became of evictions, for whoever measures."""
        self.held: set[str] = set()
        """The UIDs of pods that should leave, and that a disruption budget holds."""

    async def drain(self, going: Iterable[Disruption]) -> float | None:
        """Mark nodes and ask their pods to leave; return when to ask those again that could not."""
        drains = list(going)
        self.held &= {pod.meta.uid for drain in drains for pod in drain.evict}
        emptied = await asyncio.gather(*map(self._empty, drains))
        return None if all(emptied) else self._context.clock.now() + AGAIN_SECONDS

    async def _empty(self, drain: Disruption) -> bool:
        """Mark a node and ask its pods to leave; False if some must be asked again."""
        node = self._nodes.get(drain.node) if drain.node is not None else None
        if node is None:
            return True
        await self.mark(node, drain.reason, is_ending=drain.reason is disruption_taint.Reason.INTERRUPTED)
        return all(await asyncio.gather(*(self._ask(pod, drain) for pod in drain.evict)))

    async def _ask(self, pod: objects.Pod, drain: Disruption) -> bool:
        """Ask a pod to leave; one that could not is left for a while, unless there is no time."""
        if self._retries.holds(pod.meta.uid) and drain.reason is not disruption_taint.Reason.INTERRUPTED:
            return False
        async with self._slots:
            is_done = await self._evict(pod)
        self._retries.note(pod.meta.uid, is_done=is_done)
        return is_done

    async def mark(self, node: objects.Node, reason: str, *, is_ending: bool) -> None:
        """Keep new pods off a node, and load balancers off one whose instance ends soon.

        One that was only idle may be drained now; never the other way round.
        """
        must_exclude = is_ending and keys.EXCLUDED_FROM_LOAD_BALANCERS not in node.meta.labels
        label = keys.EXCLUDED_BY_US if must_exclude else None
        if disruption_taint.must_mark(node, reason):
            others = [taint for taint in node.taints if taint.key != keys.REMOVING]
            await self._set(node, [*others, objects.NodeTaint(keys.REMOVING, reason, "NoSchedule")], label)
        elif label is not None:
            await self._set(node, node.taints, label)

    async def unmark(self, node: objects.Node) -> None:
        """Let pods and load balancers onto a node again."""
        is_ours = node.meta.labels.get(keys.EXCLUDED_FROM_LOAD_BALANCERS) == keys.EXCLUDED_BY_US
        await self._set(node, [taint for taint in node.taints if taint.key != keys.REMOVING], "" if is_ours else None)

    async def _set(self, node: objects.Node, wanted: Iterable[objects.NodeTaint], label: str | None) -> None:
        """Set taints, and the label for load balancers: empty takes it off, None leaves it as it is."""
        changes: Manifest = {"spec": {"taints": taints.written(wanted, node.tainted_at)}}
        if label is not None:
            changes["metadata"] = {"labels": {keys.EXCLUDED_FROM_LOAD_BALANCERS: label or None}}
        only_if = writer.Precondition.of(node)
        try:
            async with self._slots:
                await self._context.writer.patch(self._target, node.meta.key, changes, only_if=only_if)
        except port.KubeError as error:  # it changed or is gone, and that wakes us; or the next cycle tries again
            log.info("node_not_marked", node=node.meta.key.name, error=str(error))

    async def _evict(self, pod: objects.Pod) -> bool:
        """Ask a pod to leave; False if it must be asked again. One that must not be evicted stays."""
        if pod.meta.annotations.get(objects.SAFE_TO_EVICT) == "false":
            return True
        try:
            await self._context.writer.evict(pod.meta.key, only_if=writer.Precondition(uid=pod.meta.uid))
        except port.TooManyRequestsError:
            self.evictions["HeldByBudget"] += 1
            self.held.add(pod.meta.uid)
            return False
        except (port.NotFoundError, port.ConflictError):
            return True
        except port.KubeError as error:
            self.evictions["Failed"] += 1
            log.info("pod_not_evicted", pod=pod.meta.key, error=str(error))
            return False
        self.evictions["Evicted"] += 1
        log.info("pod_evicted", pod=pod.meta.key, node=pod.node_name)
        return True
