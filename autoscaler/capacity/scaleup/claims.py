"""Keep instances of ephemeral pools for one pod each: set a node's taint to the pod's UID, then let the pod onto it.

Who gets what, what goes back and what is spent is decided in `ephemeral`; here it is carried out. The taint comes
first, since a toleration cannot be taken back: whoever dies in between leaves an instance that is kept for a pod, and
the next one lets the pod onto it.
"""

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Any, Final

import msgspec
import structlog

from autoscaler import backoff, control
from autoscaler.api import keys
from autoscaler.capacity.indexes import pod_index
from autoscaler.capacity.scaleup import ephemeral, supply
from autoscaler.capacity.snapshot import Stand, Standing
from autoscaler.kube import kinds, objects, port, store, taints, wire
from autoscaler.kube.writing import writer

log = structlog.get_logger()
HISTORY_SECONDS: Final = 5.0
"""How long to wait for the API server to tell what became of a pod."""
BACKOFF: Final = backoff.Backoff(first_seconds=1.0, longest_seconds=15.0)
_PLAIN: Final = msgspec.json.Decoder(dict[str, Any])


class Claims:
    """Gives instances to pods, one to one."""

    def __init__(
        self, context: control.ControllerContext, *, nodes: store.Table[objects.Node], pods: store.Table[objects.Pod]
    ) -> None:
        self._context = context
        self._nodes = nodes
        self._pods = pods
        self._node_target = writer.Target(resource=kinds.NODES, decode=objects.node, table=nodes)
        self._pod_target = writer.Target(resource=kinds.PODS, decode=objects.pod, table=pods)
        self._unbound: dict[str, objects.Pod] = {}
        """Pods that have instances, as they were when last seen without a node."""
        self._retries = backoff.Retries(context.clock, BACKOFF)
        """By the UIDs of pods that could not be let onto their instances, or of which nobody could tell."""
        self._never_bound: frozenset[str] = frozenset()
        """Pods that are gone, and of which it is known that they never had a node."""
        self._kept: list[objects.Node] = []
        self._kept_of: object = None
        self._seen: tuple[Stand, ...] = ()
        self._seen_of: tuple[object, object, object] = (None, None, None)

    # What plans read

    def stands(self) -> tuple[Stand, ...]:
        """Say where each instance stands, and about which pods that are gone somebody can still be asked."""
        return ephemeral.doubted(self._stands(), self._unbound)

    def pods(self, index: pod_index.PodIndex, stands: Iterable[Stand]) -> tuple[pod_index.Pods, pod_index.IndexedPods]:
        """Return all pods; one that has an instance and cannot go there yet counts as nominated to it.

        Or another instance would be started for it.
        """
        promised = [each for each in ephemeral.promised(stands) if supply.is_usable(each.node)]
        there, indexed = self._pods.snapshot(), index.snapshot()
        if not promised:
            return there, indexed
        nominated = [msgspec.structs.replace(each.pod, nominated_node=each.node.meta.key.name) for each in promised]
        return {**there, **{pod.meta.key: pod for pod in nominated}}, indexed.nominated(nominated)

    # What is done

    async def carry_out(self, plan: ephemeral.Plan) -> bool:
        """Finish what was begun, then give away what is free; False: not all was done, and it must be tried again."""
        self._remember()
        corrected = [self._keep_for(each.node, each.kept_for) for each in plan.corrected]
        begun = [self._find_out(plan.asked), *corrected, *(self._tolerate(each.pod) for each in plan.let_on)]
        is_settled = all(await asyncio.gather(*begun))
        return all(await asyncio.gather(*(self._claim(each) for each in plan.given))) and is_settled

    def _stands(self) -> tuple[Stand, ...]:
        """Say where each instance stands by what is seen; reckoned anew only when something has changed."""
        nodes, pods = self._nodes.snapshot(), self._pods.snapshot()
        if nodes is not self._kept_of:
            self._kept = [node for node in nodes.values() if ephemeral.holder(node) is not None]
            self._kept_of = nodes
        of = (nodes, pods, self._never_bound)
        if any(old is not new for old, new in zip(self._seen_of, of, strict=True)):
            self._seen, self._seen_of = ephemeral.stands(self._kept, pods.values(), self._never_bound), of
        return self._seen

    def _remember(self) -> None:
        """Remember how pods looked that have an instance and no node yet, and forget those that have none."""
        seen = self._stands()
        holders = {each.holder for each in seen}
        self._never_bound = self._never_bound if self._never_bound <= holders else self._never_bound & holders
        held = {each.holder: each.pod for each in seen if each.standing is Standing.HELD and each.pod is not None}
        self._unbound = {uid: pod for uid, pod in self._unbound.items() if uid in holders} | held

    async def _claim(self, each: ephemeral.Claim) -> bool:
        pod = self._pods.get(each.pod.meta.key)
        if pod is None or pod.meta.uid != each.pod.meta.uid or pod.node_name:
            return True  # it needs none any more
        self._unbound[pod.meta.uid] = pod
        if not await self._keep_for(each.node, pod.meta.uid):
            return False
        log.info("instance_claimed", node=each.node.meta.key.name, pod=pod.meta.key)
        return await self._tolerate(pod)

    async def _keep_for(self, node: objects.Node, value: str) -> bool:
        """Change whom an instance is kept for, if nobody else has done so meanwhile."""
        now = self._nodes.get(node.meta.key)
        if now is None or now.meta.uid != node.meta.uid or ephemeral.holder(now) != ephemeral.holder(node):
            return False
        kept = [taint._replace(value=value) if taint.key == keys.RESERVED_FOR else taint for taint in now.taints]
        changes = {"spec": {"taints": taints.written(kept, now.tainted_at)}}
        only_if = writer.Precondition.of(now)
        try:
            await self._context.writer.patch(self._node_target, node.meta.key, changes, only_if=only_if)
        except port.KubeError as error:
            log.info("instance_not_kept", node=node.meta.key.name, kept_for=value, error=str(error))
            return False
        return True

    async def _tolerate(self, pod: objects.Pod) -> bool:
        """Let a pod onto the instance that is kept for it.

        The list is written as a whole, and what we keep of pods is not all of it: so it is read before.
        """
        if self._retries.holds(pod.meta.uid):
            return False
        is_done = await self._add_toleration(pod)
        self._retries.note(pod.meta.uid, is_done=is_done)
        return is_done

    async def _add_toleration(self, pod: objects.Pod) -> bool:
        own = {"key": keys.RESERVED_FOR, "operator": "Equal", "value": pod.meta.uid, "effect": "NoSchedule"}
        try:
            there = await self._read(pod)
            if there is None:
                return True  # gone, and that wakes us
            only_if = writer.Precondition(uid=pod.meta.uid, resource_version=int(there["metadata"]["resourceVersion"]))
            changes = {"spec": {"tolerations": [*there["spec"].get("tolerations", ()), own]}}
            await self._context.writer.patch(self._pod_target, pod.meta.key, changes, only_if=only_if)
        except port.KubeError as error:
            log.info("pod_not_let_on", pod=pod.meta.key, error=str(error))
            return False
        return True

    async def _read(self, pod: objects.Pod) -> dict[str, Any] | None:
        query = {"fieldSelector": f"metadata.name={pod.meta.key.name}"}
        path = kinds.PODS.collection(pod.meta.key.namespace)
        answer = await self._context.api.send(port.Request(method="GET", path=path, query=query))
        found = [_PLAIN.decode(item) for item in wire.LISTING.decode(port.required(answer)).items]
        return next((each for each in found if each["metadata"]["uid"] == pod.meta.uid), None)

    # Pods that are gone

    async def _find_out(self, pods: Iterable[objects.Pod]) -> bool:
        """Ask what became of pods that are gone and had an instance; False: somebody must be asked again."""
        doubted = {pod.meta.uid: pod for pod in pods}
        asked = {uid: pod for uid, pod in doubted.items() if not self._retries.holds(uid)}
        answers = await asyncio.gather(*map(self._had_node, asked.values()))
        for uid, had_node in zip(asked, answers, strict=True):
            self._retries.note(uid, is_done=had_node is not None)
            if had_node is not None:  # the next plan is to know
                self._unbound.pop(uid, None)
                self._context.wake(kinds.PODS.kind, asked[uid].meta.key)
        if False in answers:
            self._never_bound |= {uid for uid, had_node in zip(asked, answers, strict=True) if had_node is False}
        return None not in answers and len(asked) == len(doubted)

    async def _had_node(self, pod: objects.Pod) -> bool | None:
        """Read again what became of a pod since we last saw it without a node; None: the API server does not answer.

        What our table says is not enough: it does not show a node that a pod had for a moment only.
        """
        query = {
            "fieldSelector": f"metadata.name={pod.meta.key.name}",
            "resourceVersion": str(pod.meta.resource_version),
            "timeoutSeconds": str(int(HISTORY_SECONDS)),
        }
        try:
            async with (
                asyncio.timeout(HISTORY_SECONDS),
                contextlib.aclosing(
                    self._context.api.watch(kinds.PODS.collection(pod.meta.key.namespace), query)
                ) as batches,
            ):
                async for batch in batches:
                    for line in batch:
                        if (told := _had_node(line, pod.meta.uid)) is not None:
                            return told
        except (port.ExpiredError, port.NotFoundError, msgspec.MsgspecError, ValueError):
            return True  # nobody remembers, or nobody can read it: it may have had one
        except (port.KubeError, TimeoutError) as error:
            log.info("pod_history_not_read", pod=pod.meta.key, error=str(error))
        return None


def _had_node(line: bytes, uid: str) -> bool | None:
    """Tell what an event says of a pod: True, it has a node; False, it is gone and never had one; None, nothing yet."""
    event = wire.EVENT.decode(line)
    if event.type == "ERROR":
        return True  # its history is lost
    if event.type == "BOOKMARK":
        return None
    pod = objects.pod(event.object)
    if pod.meta.uid != uid:
        return None
    if pod.node_name:
        return True
    return False if event.type == "DELETED" else None
