"""The pod garbage collector: pods of a node that is gone fail and go, some time after it."""

from typing import Final

from autoscaler import clock
from autoscaler.api.manifests import Manifest
from autoscaler.kube import kinds
from autoscaler.simulation.cluster.kinds import conditions, pods
from autoscaler.simulation.cluster.server import Server
from autoscaler.simulation.cluster.store import Change, Key
from autoscaler.simulation.cluster.verbs.deletes import Options
from autoscaler.simulation.cluster.verbs.writes import STATUS, Manner
from autoscaler.simulation.controllers import pods_by_node
from autoscaler.simulation.controllers.pending import Pending

DELAY_SECONDS: Final = 60.0
"""The real one looks every 20 s and gives a node 40 s to come back."""
_MANNER: Final = Manner(user="system:serviceaccount:kube-system:pod-garbage-collector")


def run(server: Server) -> None:
    """Collect pods of lost nodes from now on."""
    by_node = pods_by_node.index(server.store)

    def on_node(change: Change) -> None:
        if change.after is None:
            pending.add(change.key.name)

    def on_pod(change: Change) -> None:
        name = change.after.object["spec"].get("nodeName") if change.after and change.before is None else None
        if name and server.store.find(kinds.NODES, Key("", name)) is None:
            pending.add(name)

    def look(name: str) -> None:
        if server.store.find(kinds.NODES, Key("", name)) is not None:
            return
        for key in list(by_node.get(name, ())):
            _collect(server, key)

    pending: Pending[str] = Pending(look, delay_seconds=DELAY_SECONDS)
    server.store.collection(kinds.NODES).listeners.append(on_node)
    server.store.collection(kinds.PODS).listeners.append(on_pod)


def _collect(server: Server, key: Key) -> None:
    now = clock.to_rfc3339(server.clock.now())
    server.writes.update(kinds.PODS, key, lambda pod: _failed(pod, now), manner=_MANNER, subresource=STATUS)
    server.deletes.delete(kinds.PODS, key, Options(grace_seconds=0), _MANNER)


def _failed(pod: Manifest, now: str) -> Manifest:
    if pod["status"]["phase"] in pods.TERMINAL:
        return pod
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastTransitionTime": now,
        "reason": "DeletionByPodGC",
        "message": "PodGC: node no longer exists",
    }
    marked = conditions.put(pod, condition)
    return {**marked, "status": {**marked["status"], "phase": "Failed"}}
