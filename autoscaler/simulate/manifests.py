"""The objects of a simulated day: what work, workers and nodes look like to the API server. Pure."""

from collections.abc import Mapping
from typing import Any

from autoscaler.api import keys, version
from autoscaler.api.manifests import Manifest
from autoscaler.api.settings.node_groups import NodeGroupSpec
from autoscaler.simulate.observation.observing import WORK
from autoscaler.simulate.trace import Guest, Queue, QueuedJob, Work
from autoscaler.simulation import kubelet

CONTAINER = "work"


def endpoint(name: str, queue: Queue) -> str:
    """Return where the length of a queue is asked."""
    return f"https://queues.{queue.namespace}.svc/{name}/length"


def pod(name: str, work: str, of: Work, takes_seconds: float) -> Manifest:
    """Write a pod that runs for a while and ends."""
    metadata = {
        "name": name,
        "namespace": of.namespace,
        "labels": {WORK: work},
        "annotations": {kubelet.RUN_FOR: f"{takes_seconds:.3f}s"},
    }
    return {"metadata": metadata, "spec": {**_spec(of), "restartPolicy": "Never"}}


def guest(name: str, work: str, of: Guest, takes_seconds: float) -> Manifest:
    """Write a pod that asks for a machine, runs for a while and ends. What it requests is the machine's."""
    metadata = {
        "name": name,
        "namespace": of.namespace,
        "labels": {WORK: work, keys.MACHINE_GROUP: of.group, keys.MACHINE_TYPE: of.type},
        "annotations": {kubelet.RUN_FOR: f"{takes_seconds:.3f}s"},
    }
    return {"metadata": metadata, "spec": {"containers": [_container()], "restartPolicy": "Never"}}


def job(name: str, work: str, of: QueuedJob, takes_seconds: float) -> Manifest:
    """Write a Job that waits for quota; each of its pods runs for a while and ends."""
    priority = {} if of.priority_class is None else {"priorityClassName": of.priority_class}
    template = {
        "metadata": {"labels": {WORK: work}, "annotations": {kubelet.RUN_FOR: f"{takes_seconds:.3f}s"}},
        "spec": {**_spec(of), "restartPolicy": "Never", **priority},
    }
    return {
        "metadata": {"name": name, "namespace": of.namespace, "labels": {WORK: work, keys.QUEUE_NAME: of.queue}},
        "spec": {
            "parallelism": of.parallelism,
            "completions": of.completions or of.parallelism,
            "template": template,
        },
    }


def deployment(name: str, queue: Queue) -> Manifest:
    """Write the Deployment whose template a queue's workers are copies of; it runs nothing itself."""
    labels = {"app": name}
    return {
        "metadata": {"name": name, "namespace": queue.namespace},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": {**labels, WORK: name}}, "spec": _spec(queue)},
        },
    }


def worker_pool(name: str, queue: Queue) -> Manifest:
    """Write the WorkerPool of a queue."""
    return {
        "apiVersion": version.GROUP_VERSION,
        "kind": "WorkerPool",
        "metadata": {"name": name, "namespace": queue.namespace},
        "spec": {
            "poolCapacity": queue.pool_capacity,
            "queue": {"interval": queue.interval, "source": {"endpoint": endpoint(name, queue)}},
            "workerSpec": {
                "idleTimeoutMinutes": queue.idle_timeout_minutes,
                "podTemplate": {"source": {"kind": "Deployment", "name": name}, "containerName": CONTAINER},
            },
        },
    }


def node(name: str, spec: NodeGroupSpec, allocatable: Mapping[str, int], provider_id: str) -> Manifest:
    """Write the node that an instance becomes."""
    room = {what: f"{amount}m" if what == "cpu" else str(amount) for what, amount in allocatable.items()}
    taints = [taint.model_dump(mode="json", by_alias=True, exclude_none=True) for taint in spec.taints]
    return {
        "metadata": {"name": name, "labels": {**spec.labels, keys.HOSTNAME: name}},
        "spec": {"providerID": provider_id, **({"taints": taints} if taints else {})},
        "status": {"capacity": room, "allocatable": room},
    }


def _spec(work: Work) -> dict[str, Any]:
    gpus = work.requests.get(keys.GPU_RESOURCE)
    limits = {} if gpus is None else {"limits": {keys.GPU_RESOURCE: gpus}}  # Kubernetes wants one for such resources
    tolerations = [
        each.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True) for each in work.tolerations
    ]
    return {
        "containers": [_container(resources={"requests": dict(work.requests), **limits})],
        **({"nodeSelector": dict(work.node_selector)} if work.node_selector else {}),
        **({"tolerations": tolerations} if tolerations else {}),
    }


def _container(resources: Manifest | None = None) -> Manifest:
    return {"name": CONTAINER, "image": "example.com/work:1", "resources": resources or {}}
