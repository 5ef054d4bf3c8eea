"""Smallest jobs of each kind, and their pods; a test sets what matters to it."""

from typing import Any

import msgspec

from autoscaler.admission.jobs.batch_job import BatchJob
from autoscaler.admission.jobs.port import Job
from autoscaler.admission.jobs.ray_cluster import RayCluster
from autoscaler.api.manifests import Manifest
from autoscaler.kube import objects

CLAIM = [{"name": "gpu", "resourceClaimName": "gpu"}]


def template(*, cpu: str | None = None, **spec: Any) -> Manifest:
    """Build a pod template of one container."""
    resources = {"requests": {"cpu": cpu}} if cpu is not None else {}
    return {
        "metadata": {"creationTimestamp": None},
        "spec": {"containers": [{"name": "c", "resources": resources}], **spec},
    }


def owner(kind: str, api_version: str = "ray.io/v1", *, is_controller: bool = True) -> list[Manifest]:
    """Build the references of an object that belongs to another."""
    return [{"apiVersion": api_version, "kind": kind, "name": "train", "uid": "u", "controller": is_controller}]


def batch_job(
    spec: Manifest | None = None, status: Manifest | None = None, *, pods: Manifest | None = None, **metadata: Any
) -> Job:
    """Read a Job; `pods` is its template."""
    body = {
        "metadata": {"name": "train", "namespace": "team", "uid": "j", **metadata},
        "spec": {"template": pods if pods is not None else template(), **(spec or {})},
        "status": status or {},
    }
    return BatchJob().decode(msgspec.json.encode(body))


def group(name: str = "workers", **spec: Any) -> Manifest:
    """Build a worker group as its definition defaults it."""
    defaults = {"replicas": 0, "minReplicas": 0, "maxReplicas": 2**31 - 1, "numOfHosts": 1, "template": template()}
    return {"groupName": name, **defaults, **spec}


def ray_cluster(*groups: Manifest, head: Manifest | None = None, spec: Manifest | None = None, **metadata: Any) -> Job:
    """Read a RayCluster; `head` is the head's template."""
    body = {
        "metadata": {"name": "tune", "namespace": "team", "uid": "r", **metadata},
        "spec": {
            "headGroupSpec": {"template": head if head is not None else template()},
            "workerGroupSpecs": list(groups),
            **(spec or {}),
        },
    }
    return RayCluster().decode(msgspec.json.encode(body))


def pod(**labels: str) -> objects.Pod:
    """Read a pod with labels."""
    return objects.pod(msgspec.json.encode({"metadata": {"name": "p", "labels": labels}, "spec": {}}))
