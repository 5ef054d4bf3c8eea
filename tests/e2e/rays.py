"""RayClusters as small as they can be, and the pods that KubeRay's operator makes of them."""

import secrets
from collections.abc import Sequence
from typing import Any

from tools.local.api import Api

Object = dict[str, Any]
API = "/apis/ray.io/v1"
CLUSTER, NODE_TYPE, GROUP = "ray.io/cluster", "ray.io/node-type", "ray.io/group"
REPLICA_INDEX, REPLICA_NAME = "ray.io/worker-group-replica-index", "ray.io/worker-group-replica-name"
HOST_INDEX = "ray.io/replica-host-index"


def cluster(
    name: str,
    *groups: Object,
    gates: Sequence[str] = (),
    labels: Object | None = None,
    cpu: str = "250m",
    **spec: Any,
) -> Object:
    """Write a RayCluster with a head and these worker groups; the gates are those of the head."""
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"headGroupSpec": head(gates=gates, cpu=cpu), "workerGroupSpecs": list(groups), **spec},
    }


def head(*, gates: Sequence[str] = (), cpu: str = "250m", **pod: Any) -> Object:
    """Write the group of the head; what is given besides goes into its pod's spec."""
    return {"rayStartParams": {}, "template": template(gates=gates, cpu=cpu, **pod)}


def group(
    name: str = "small", replicas: int = 1, *, gates: Sequence[str] = (), cpu: str = "250m", **fields: Any
) -> Object:
    """Write a worker group."""
    return {
        "groupName": name,
        "replicas": replicas,
        "minReplicas": 0,
        "maxReplicas": 100,
        "rayStartParams": {},
        "template": template(gates=gates, cpu=cpu),
        **fields,
    }


def template(*, gates: Sequence[str] = (), cpu: str = "250m", **pod: Any) -> Object:
    """Write the template of pods with one container; no request is below that of the operator's init container."""
    requests = {"cpu": cpu, "memory": "256Mi"}
    spec: Object = {"containers": [{"name": "ray", "image": "ray:1", "resources": {"requests": requests}}], **pod}
    if gates:
        spec["schedulingGates"] = [{"name": gate} for gate in gates]
    return {"spec": spec}


def node(name: str, **labels: str) -> Object:
    """Write a large node, played by KWOK."""
    room = {"cpu": "64", "memory": "256Gi", "pods": "1000"}
    return {
        "metadata": {"name": name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "status": {"capacity": room, "allocatable": room},
    }


def pods(api: Api, namespace: str, cluster: str, group: str | None = None) -> list[Object]:
    """Return the pods of a RayCluster, or of one of its groups, those that terminate included."""
    selector = f"{CLUSTER}={cluster}" + (f",{GROUP}={group}" if group else "")
    return list(api.get(f"/api/v1/namespaces/{namespace}/pods", {"labelSelector": selector})["items"])


def unique(prefix: str) -> str:
    return f"{prefix}-{secrets.token_hex(3)}"
