"""The objects and patches that admission writes. Pure."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from autoscaler.admission.jobs.port import Job, WantedPods
from autoscaler.admission.workloads.workload import WORKLOADS, Assignment, Constraints, PodSet, Workload
from autoscaler.api import keys
from autoscaler.api.manifests import Manifest
from autoscaler.api.resources.queues import ResourceFlavorSpec
from autoscaler.kube import objects, shapes

_NAME_MAX: Final = 150
"""How much of a job's name a Workload's has, so that there is room for the pod set and ordinal of a slice."""
_HASH_LENGTH: Final = 10


def workload_name(job: Job) -> str:
    """Name the Workload of a job: another job of that name has another."""
    digest = hashlib.sha256(job.meta.uid.encode()).hexdigest()[:_HASH_LENGTH]
    return f"{job.kind.lower()}-{job.meta.key.name[:_NAME_MAX].rstrip('-.')}-{digest}"


def workload(job: Job, priority: int) -> Manifest:
    """Make the Workload of a job."""
    return {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "metadata": {
            "namespace": job.meta.key.namespace,
            "name": workload_name(job),
            "labels": {keys.JOB_UID: job.meta.uid},
            "annotations": {keys.QUEUED_AT: str(int(job.meta.created_at))},
            "finalizers": [keys.FINALIZER],
            "ownerReferences": [_owner(job.api_version, job.kind, job.meta)],
        },
        "spec": {
            "queueName": job.queue,
            "priority": priority,
            "podSets": [pod_set(each, each.size) for each in job.pod_sets],
        },
    }


def slice_name(parent: Workload, pod_set_name: str, ordinal: int) -> str:
    """Name a slice."""
    return f"{parent.meta.key.name}-{pod_set_name}-{ordinal}"


def slice_of(parent: Workload, wanted: WantedPods, ordinal: int) -> Manifest:
    """Make a slice: one more replica of a pod set."""
    return {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "metadata": {
            "namespace": parent.meta.key.namespace,
            "name": slice_name(parent, wanted.name, ordinal),
            "labels": {keys.JOB_UID: parent.job_uid},
            "ownerReferences": [_owner(WORKLOADS.api_version, WORKLOADS.kind, parent.meta)],
        },
        "spec": {
            "queueName": parent.queue,
            "priority": parent.priority,
            "podSets": [pod_set(wanted, wanted.replica_pods)],
        },
    }


def pod_set(wanted: WantedPods | PodSet, count: int) -> Manifest:
    """Write a pod set of so many pods."""
    requests = {name: amount(name, value) for name, value in wanted.requests.items()}
    written: Manifest = {"name": wanted.name, "count": count, "requests": requests}
    return written | _constraints(wanted.constraints)


def amount(resource: str, value: int) -> str:
    """Write an amount so that reading it gives the same."""
    return f"{value}m" if resource == shapes.CPU else str(value)


def opened(pod: objects.Pod, job_uid: str, assigned: Assignment, queue: str, now: float) -> "Opening":
    """Begin to write the patch that opens a pod's gate."""
    return Opening(
        gates=objects.other_gates(pod, keys.ADMISSION_GATE),
        stamps={
            keys.JOB_UID: job_uid,
            keys.POD_SET: assigned.name,
            keys.CLUSTER_QUEUE: queue,
            keys.FLAVORS: ",".join(f"{name}={flavor}" for name, flavor in sorted(assigned.flavors.items())),
            keys.OPENED_AT: str(int(now)),
        },
        tolerations=[_plain(each) for each in pod.shape.tolerations],
    )


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """The patch that opens a pod's gate, without what the flavors add."""

    gates: list[dict[str, str]] | None
    stamps: Mapping[str, str]
    tolerations: list[Manifest]

    def on(self, flavors: Iterable[ResourceFlavorSpec]) -> Manifest:
        """Write the patch: the pod is bound to the flavors' nodes, and tolerates what they tolerate."""
        chosen = list(flavors)
        spec: dict[str, Any] = {"schedulingGates": self.gates}
        labels = {key: value for flavor in chosen for key, value in flavor.node_labels.items()}
        if labels:
            spec["nodeSelector"] = labels
        more = [
            each.model_dump(mode="json", by_alias=True, exclude_none=True) for f in chosen for each in f.tolerations
        ]
        added = [each for each in more if each not in self.tolerations]
        if added:
            spec["tolerations"] = [*self.tolerations, *added]
        return {"metadata": {"annotations": dict(self.stamps)}, "spec": spec}


def _owner(api_version: str, kind: str, meta: objects.Meta) -> Manifest:
    return {"apiVersion": api_version, "kind": kind, "name": meta.key.name, "uid": meta.uid, "controller": True}


def _constraints(constraints: Constraints) -> Manifest:
    written: Manifest = {}
    if constraints.node_selector:
        written["nodeSelector"] = dict(constraints.node_selector)
    if constraints.affinity is not None:
        written["affinity"] = _plain(constraints.affinity)
    if constraints.tolerations:
        written["tolerations"] = [_plain(each) for each in constraints.tolerations]
    return written


def _plain(value: msgspec.Struct) -> Manifest:
    """Write what was read, without what was absent."""
    written: Manifest = msgspec.to_builtins(value)
    return written
