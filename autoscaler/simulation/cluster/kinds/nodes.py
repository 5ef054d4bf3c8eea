"""What the API server does to a new node: it takes no pods until its kubelet says that it is ready."""

from typing import Final

from autoscaler.api.manifests import Manifest
from autoscaler.simulation.cluster.store import Store

NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"


def begin(body: Manifest, _store: Store, _now: float) -> Manifest:
    """Keep off pods, as the node's admission does; its status may come along with it."""
    spec = body.get("spec") or {}
    taints = list(spec.get("taints") or ())
    if not any(taint["key"] == NOT_READY and taint["effect"] == "NoSchedule" for taint in taints):
        taints.append({"key": NOT_READY, "effect": "NoSchedule"})
    return {**body, "spec": {**spec, "taints": taints}}
