"""The node lifecycle controller: taints follow a node's condition, and pods that do not tolerate them are deleted."""

from collections.abc import Iterator
from typing import Final

from autoscaler import clock
from autoscaler.api.manifests import Manifest
from autoscaler.kube import kinds
from autoscaler.simulation import tolerations
from autoscaler.simulation.cluster.kinds import conditions, nodes
from autoscaler.simulation.cluster.server import Server
from autoscaler.simulation.cluster.store import Change, Key
from autoscaler.simulation.cluster.verbs.deletes import Options
from autoscaler.simulation.cluster.verbs.writes import STATUS, Manner
from autoscaler.simulation.controllers import pods_by_node
from autoscaler.simulation.controllers.pending import Pending

DELAY_SECONDS: Final = 0.1
_MANNER: Final = Manner(user="system:serviceaccount:kube-system:node-controller")
_OURS: Final = frozenset({nodes.NOT_READY, nodes.UNREACHABLE, nodes.UNSCHEDULABLE})
Victim = tuple[Key, str]
"""A pod and its uid: another pod of that name is another pod."""


def run(server: Server) -> None:
    """Keep taints and evict by them from now on."""
    _Lifecycle(server)


class _Lifecycle:
    def __init__(self, server: Server) -> None:
        self._server = server
        self._pods = pods_by_node.index(server.store)
        self._pending: Pending[Key] = Pending(self._look, delay_seconds=DELAY_SECONDS)
        self._doomed: Pending[Victim] = Pending(self._evict, delay_seconds=0.0)
        server.store.collection(kinds.NODES).listeners.append(self._on_node)
        server.store.collection(kinds.PODS).listeners.append(self._on_pod)

    def _on_node(self, change: Change) -> None:
        if change.after is not None:
            self._pending.add(change.key)

    def _on_pod(self, change: Change) -> None:
        """A pod that lands on a tainted node is as doomed as one that was there."""
        if change.after is None:
            return
        name = change.after.object["spec"].get("nodeName")
        if name and (change.before is None or not change.before.object["spec"].get("nodeName")):
            self._pending.add(Key("", name))

    def _look(self, key: Key) -> None:
        entry = self._server.store.find(kinds.NODES, key)
        if entry is None:
            return
        wanted = _taints(entry.object, self._server.clock.now())
        if wanted != (entry.object["spec"].get("taints") or []):
            self._server.writes.update(kinds.NODES, key, lambda node: _tainted(node, wanted), manner=_MANNER)
        executing = [taint for taint in wanted if taint["effect"] == "NoExecute"]
        for pod in self._pods.get(key.name, ()) if executing else ():
            self._doom(pod, executing)

    def _doom(self, key: Key, taints: list[Manifest]) -> None:
        entry = self._server.store.find(kinds.PODS, key)
        if entry is None or "deletionTimestamp" in entry.object["metadata"]:
            return
        seconds = tolerations.seconds(entry.object["spec"].get("tolerations") or (), taints)
        if seconds is not None:
            self._doomed.later((key, entry.uid), seconds)

    def _evict(self, victim: Victim) -> None:
        """Look again before deleting: the node may have recovered."""
        key, uid = victim
        entry = self._server.store.find(kinds.PODS, key)
        if entry is None or entry.uid != uid or "deletionTimestamp" in entry.object["metadata"]:
            return
        node = self._server.store.find(kinds.NODES, Key("", entry.object["spec"]["nodeName"]))
        taints = list(_executing(node.object)) if node else []
        left = tolerations.seconds_left(entry.object["spec"].get("tolerations") or (), taints, self._server.clock.now())
        if left is None:
            return
        if left > 0:
            self._doomed.later(victim, left)
            return
        now = clock.to_rfc3339(self._server.clock.now())
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "lastTransitionTime": now,
            "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
        }
        self._server.writes.update(
            kinds.PODS, key, lambda pod: conditions.put(pod, condition), manner=_MANNER, subresource=STATUS
        )
        self._server.deletes.delete(kinds.PODS, key, Options(uid=uid), _MANNER)


def _executing(node: Manifest) -> Iterator[Manifest]:
    return (taint for taint in node["spec"].get("taints") or () if taint["effect"] == "NoExecute")


def _taints(node: Manifest, now: float) -> list[Manifest]:
    """Return the node's taints as they should be: others' as they are, ours by its condition."""
    present = node["spec"].get("taints") or []
    kept = [taint for taint in present if taint["key"] not in _OURS]
    wanted = [
        *(_by_condition(conditions.status(node, "Ready"))),
        *((("NoSchedule", nodes.UNSCHEDULABLE),) if node["spec"].get("unschedulable") else ()),
    ]
    for effect, key in wanted:
        old = next((taint for taint in present if (taint["key"], taint["effect"]) == (key, effect)), None)
        kept.append(old or {"key": key, "effect": effect, "timeAdded": clock.to_rfc3339(now)})
    return kept if sorted(map(str, kept)) != sorted(map(str, present)) else present


def _by_condition(ready: str | None) -> tuple[tuple[str, str], ...]:
    match ready:
        case "True":
            return ()
        case "False" | None:
            key = nodes.NOT_READY
        case _:
            key = nodes.UNREACHABLE
    return (("NoSchedule", key), ("NoExecute", key)) if ready is not None else (("NoSchedule", key),)


def _tainted(node: Manifest, taints: list[Manifest]) -> Manifest:
    spec = {name: value for name, value in node["spec"].items() if name != "taints"}
    return {**node, "spec": {**spec, "taints": taints} if taints else spec}
