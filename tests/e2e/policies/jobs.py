"""Jobs and RayClusters as tests of their policies write them, and a definition of RayCluster that takes any spec."""

from typing import Any

from autoscaler.api import keys
from tools.local.api import Api

Object = dict[str, Any]
JOBS = "/apis/batch/v1/namespaces/{}/jobs"
RAY_CLUSTERS = "/apis/ray.io/v1/namespaces/{}/rayclusters"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GATE = {"name": keys.ADMISSION_GATE}
OTHER = {"name": "example.com/other"}
RAY_JOB = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "r", "uid": "u", "controller": True}
RAY_CLUSTER = {**RAY_JOB, "kind": "RayCluster"}
ELSEWHERE = "example.com/elsewhere"
"""Who manages a job that is not ours to queue."""
LEGACY = "legacy-job"
"""A queued Job that ran before the policies were there, in namespace default."""
STARTED = {"startTime": "2026-11-16T06:00:00Z"}
ACTIVE = {"active": 1, "ready": 0}


def metadata(name: str, queue: str | None = None, owner: Object | None = None) -> Object:
    labels = {} if queue is None else {"labels": {keys.QUEUE_NAME: queue}}
    return {"name": name, **labels, **({"ownerReferences": [owner]} if owner else {})}


def template(gates: list[Object] | None = None, **spec: Any) -> Object:
    container = {"name": "main", "image": "app:1"}
    gated = {} if gates is None else {"schedulingGates": gates}
    return {"spec": {"restartPolicy": "Never", "containers": [container], **gated, **spec}}


def job(
    name: str,
    *,
    queue: str | None = "q",
    owner: Object | None = None,
    gates: list[Object] | None = None,
    **spec: Any,
) -> Object:
    head = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata(name, queue, owner)}
    return {**head, "spec": {"parallelism": 2, "completions": 2, "template": template(gates), **spec}}


def group(name: str, gates: list[Object] | None = None) -> Object:
    return {"groupName": name, "replicas": 1, "template": template(gates)}


def ray_cluster(
    name: str, *groups: Object, queue: str | None = "q", owner: Object | None = None, **spec: Any
) -> Object:
    head = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": metadata(name, queue, owner)}
    return {**head, "spec": {"headGroupSpec": {"template": template()}, "workerGroupSpecs": list(groups), **spec}}


def define_ray_clusters(api: Api) -> None:
    """Serve RayClusters, unless they are served already."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}}
    names = {"plural": "rayclusters", "singular": "raycluster", "kind": "RayCluster", "listKind": "RayClusterList"}
    versions = [{**served, "schema": {"openAPIV3Schema": schema}}]
    spec = {"group": "ray.io", "scope": "Namespaced", "names": names, "versions": versions}
    if not api.request("GET", f"{DEFINITIONS}/rayclusters.ray.io").ok:
        api.create(DEFINITIONS, {"metadata": {"name": "rayclusters.ray.io"}, "spec": spec})


def gates_of(body: Object) -> list[list[Object]]:
    """List the gates of each of a job's pod templates."""
    spec = body["spec"]
    groups = [spec] if "template" in spec else [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
    return [group["template"]["spec"].get("schedulingGates", []) for group in groups]
