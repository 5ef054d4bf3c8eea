"""The simulated kube-scheduler: binds pods to nodes, or says on the pod why it cannot.

Among pods that wait, the higher priority is first, then the older. There is no preemption: a pod that does not fit
waits, whatever its priority. Host ports have no say.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from autoscaler import clock
from autoscaler.api.manifests import Manifest
from autoscaler.kube import kinds
from autoscaler.simulation.cluster import SimulatedCluster
from autoscaler.simulation.cluster.kinds import conditions, pods
from autoscaler.simulation.cluster.store import Change, Entry, Key
from autoscaler.simulation.cluster.verbs.writes import STATUS, Manner
from autoscaler.simulation.scheduling import fitting, model, neighbours, scoring, volumes
from autoscaler.simulation.scheduling.model import Placed, Shape

ATTEMPT_SECONDS: Final = 0.01
"""From a pod's creation to the scheduler's first look at it."""
RETRY_SECONDS: Final = 1.0
"""From a change that may help to another look at the pods that wait, as the real one backs off."""
_MANNER: Final = Manner(user="system:kube-scheduler")


class Scheduler:
    """Schedules the pods of a cluster from its making on."""

    def __init__(self, cluster: SimulatedCluster, *, name: str = pods.DEFAULT_SCHEDULER) -> None:
        self._server = cluster.server
        self._name = name
        self._shapes = model.Shapes()
        self._nodes: dict[str, model.Node] = {}
        self._placed: dict[Key, Placed] = {}
        self._repelling: dict[Key, Placed] = {}
        self._active: dict[Key, Shape] = {}
        self._parked: dict[Key, Shape] = {}
        self._lookers: set[Key] = set()
        """Those parked whom another pod's arrival may help."""
        self._timer: asyncio.TimerHandle | None = None
        self._retry: asyncio.TimerHandle | None = None
        store = self._server.store
        self._volumes = volumes.Volumes(store)
        for kind in volumes.KINDS:
            store.collection(kind).listeners.append(lambda _: self._try_parked())
        store.collection(kinds.NODES).listeners.append(self._on_node)
        store.collection(kinds.PODS).listeners.append(self._on_pod)

    def _on_node(self, change: Change) -> None:
        name = change.key.name
        if change.after is None:
            self._nodes.pop(name, None)
            return
        old, node = self._nodes.get(name), model.node_of(change.after.object)
        if old is not None and _is_same_to_pods(old, node):
            return
        for pod in self._placed.values() if old is None else old.pods.values():
            if pod.node == name:
                node.take(pod)
        self._nodes[name] = node
        self._try_parked()

    def _on_pod(self, change: Change) -> None:
        before, after, key = change.before, change.after, change.key
        if after is None or _is_over(after.object):
            self._forget(key)
            return
        body = after.object
        if body["spec"].get("nodeName"):
            self._place(key, body)
        elif before is None or _says_more(before, after):
            self._enlist(key, body)

    def _enlist(self, key: Key, pod: Manifest) -> None:
        spec = pod["spec"]
        self._unlist(key)
        if spec.get("schedulerName") != self._name or spec.get("schedulingGates"):
            return
        if "deletionTimestamp" not in pod["metadata"]:
            self._active[key] = self._shapes.of(pod)
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(ATTEMPT_SECONDS, self._pass)

    def _place(self, key: Key, pod: Manifest) -> None:
        self._unlist(key)
        old = self._placed.get(key)
        is_leaving = "deletionTimestamp" in pod["metadata"]
        if old is not None:
            old.is_leaving = is_leaving
            return
        placed = Placed(key=key, shape=self._shapes.of(pod), node=pod["spec"]["nodeName"], is_leaving=is_leaving)
        self._placed[key] = placed
        if placed.shape.anti_affinity_terms:
            self._repelling[key] = placed
        if placed.node in self._nodes:
            self._nodes[placed.node].take(placed)
        self._try_parked(only_looking=True)

    def _forget(self, key: Key) -> None:
        self._unlist(key)
        placed = self._placed.pop(key, None)
        if placed is None:
            return
        self._repelling.pop(key, None)
        if placed.node in self._nodes:
            self._nodes[placed.node].free(placed)
        self._try_parked()

    def _unlist(self, key: Key) -> None:
        self._active.pop(key, None)
        self._parked.pop(key, None)
        self._lookers.discard(key)

    def _try_parked(self, *, only_looking: bool = False) -> None:
        """Look again soon at pods that wait; a pod that only took room helps those alone that want neighbours."""
        if only_looking and not self._lookers:
            return
        if self._parked and self._retry is None:
            self._retry = asyncio.get_running_loop().call_later(RETRY_SECONDS, self._unpark)

    def _unpark(self) -> None:
        self._retry = None
        self._active.update(self._parked)
        self._parked.clear()
        self._lookers.clear()
        self._pass()

    def _pass(self) -> None:
        """Try each waiting pod once. Binding only takes room, so what failed for a shape fails for the rest of it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        failed: dict[Shape, fitting.Diagnosis] = {}
        waiting, self._active = sorted(self._active.items(), key=self._order), {}
        for key, shape in waiting:
            diagnosis = failed.get(shape) or self._diagnose(shape)
            if diagnosis.feasible:
                self._bind(key, scoring.best(shape, diagnosis.feasible).name)
                continue
            if not shape.looks_at_pods:
                failed[shape] = diagnosis
            self._park(key, shape, diagnosis.message())

    def _diagnose(self, shape: Shape) -> fitting.Diagnosis:
        rules = None
        if shape.looks_at_pods or self._repelling:
            rules = neighbours.Rules(shape, self._neighbours())
        return fitting.diagnose(shape, self._nodes.values(), rules, self._volumes if shape.claims else None)

    def _neighbours(self) -> neighbours.Pods:
        return neighbours.Pods(
            nodes=self._nodes,
            all=self._placed.values(),
            repelling=self._repelling.values(),
            namespace_labels=self._namespace_labels,
        )

    def _namespace_labels(self, name: str) -> Mapping[str, str]:
        entry = self._server.store.find(kinds.NAMESPACES, Key("", name))
        labels: Mapping[str, str] = entry.object["metadata"].get("labels", {}) if entry else {}
        return labels

    def _bind(self, key: Key, node: str) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        self._server.bind(key, {"metadata": {"name": key.name}, "target": target}, _MANNER)

    def _park(self, key: Key, shape: Shape, message: str) -> None:
        self._parked[key] = shape
        if shape.looks_at_pods:
            self._lookers.add(key)
        now = clock.to_rfc3339(self._server.clock.now())

        def said(pod: Manifest) -> Manifest:
            condition = {
                "type": "PodScheduled",
                "observedGeneration": pod["metadata"]["generation"],
                "status": "False",
                "lastTransitionTime": now,
                "reason": "Unschedulable",
                "message": message,
            }
            return conditions.put(pod, condition)

        self._server.writes.update(kinds.PODS, key, said, manner=_MANNER, subresource=STATUS)

    def _order(self, item: tuple[Key, Shape]) -> tuple[int, str, Key]:
        body = self._server.store.collection(kinds.PODS).entries[item[0]].object
        return -body["spec"].get("priority", 0), body["metadata"]["creationTimestamp"], item[0]


def _is_over(pod: Manifest) -> bool:
    return pod["status"].get("phase") in pods.TERMINAL


def _says_more(before: Entry, after: Entry) -> bool:
    """Tell whether an update may change where a pod can run, rather than what is said about it."""
    old, new = before.object, after.object
    return bool(old["spec"] != new["spec"] or old["metadata"].get("labels") != new["metadata"].get("labels"))


def _is_same_to_pods(old: model.Node, new: model.Node) -> bool:
    return (old.labels, old.taints, old.is_unschedulable, old.allocatable) == (
        new.labels,
        new.taints,
        new.is_unschedulable,
        new.allocatable,
    )
