"""Which jobs are queued, which of them are at rest, and which gates their pod templates carry: in Python and in CEL.

A job is queued when it has the label sluice.dev/queue-name, and the name in it is not empty. What a RayJob, RayService
or JobSet runs is not ours to suspend, label or no label: they suspend, resume and replace their jobs themselves. Nor is
a job whose `managedBy` names somebody else, who makes its pods, perhaps in another cluster.
"""

from dataclasses import dataclass
from typing import Final

from autoscaler.api import keys
from autoscaler.api.manifests import Manifest

GATE: Final = keys.ADMISSION_GATE
_RUN_BY: Final = (("ray.io/", "RayJob"), ("ray.io/", "RayService"), ("jobset.x-k8s.io/", "JobSet"))
"""Who runs jobs: how the apiVersion begins, and the kind."""
JOB_CONTROLLER: Final = "kubernetes.io/job-controller"
"""The value of a Job's `managedBy` that means the same as none."""
KUBERAY: Final = "ray.io/kuberay-operator"
"""The value of a RayCluster's `managedBy` that means the same as none."""
_MANAGERS: Final = ("", JOB_CONTROLLER, KUBERAY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of job that may be queued."""

    group: str
    version: str
    plural: str
    name: str
    """How policies about it are called."""
    called: str
    """How people call one of it."""


JOB: Final = Kind(group="batch", version="v1", plural="jobs", name="job", called="Job")
RAY_CLUSTER: Final = Kind(group="ray.io", version="v1", plural="rayclusters", name="ray-cluster", called="RayCluster")


# In Python


def queue_of(job: Manifest | None) -> str:
    """Name the LocalQueue that a job waits in; empty where it is not queued."""
    metadata, spec = (job or {}).get("metadata") or {}, (job or {}).get("spec") or {}
    is_run_by_owner = any(_is_left_alone(owner) for owner in metadata.get("ownerReferences") or ())
    if is_run_by_owner or (spec.get("managedBy") or "") not in _MANAGERS:
        return ""
    return str((metadata.get("labels") or {}).get(keys.QUEUE_NAME, ""))


def is_suspended(job: Manifest) -> bool:
    """Tell whether a job is asked to have no pods."""
    return bool((job.get("spec") or {}).get("suspend", False))


def is_at_rest(job: Manifest) -> bool:
    """Tell whether a batch Job has no pods and gets none: only then may its pod template be changed."""
    status = job.get("status") or {}
    is_stopped = any(
        condition["type"] == "Suspended" and condition["status"] == "True"
        for condition in status.get("conditions") or ()
    )
    return is_suspended(job) and status.get("active", 0) == 0 and (is_stopped or "startTime" not in status)


def gates_of(pod_spec: Manifest) -> list[str]:
    """Name the gates of a pod's spec, in their order."""
    return [gate["name"] for gate in pod_spec.get("schedulingGates") or ()]


def with_gates(pod_spec: Manifest, gates: list[str]) -> Manifest:
    """Return a pod's spec with these gates."""
    return {**pod_spec, "schedulingGates": [{"name": name} for name in gates]}


def runs_jobs(api_version: str, kind: str) -> bool:
    """Tell whether controllers of a kind suspend and resume their jobs themselves."""
    return any(api_version.startswith(group) and kind == each for group, each in _RUN_BY)


def _is_left_alone(owner: Manifest) -> bool:
    return bool(runs_jobs(owner["apiVersion"], owner["kind"]) and owner.get("controller", False))


# The same in CEL, about the object in a variable


def queue(job: str) -> str:
    """Write the name of a job's LocalQueue."""
    runs_jobs = " || ".join(f"o.apiVersion.startsWith('{group}') && o.kind == '{kind}'" for group, kind in _RUN_BY)
    left_alone = f"({runs_jobs}) && o.?controller.orValue(false)"
    managers = ", ".join(f"'{each}'" for each in _MANAGERS)
    return (
        f"({job}.metadata.?ownerReferences.orValue([]).exists(o, {left_alone})"
        f" || !({job}.?spec.?managedBy.orValue('') in [{managers}]) ? ''"
        f" : {job}.metadata.?labels[?'{keys.QUEUE_NAME}'].orValue(''))"
    )


def suspended(job: str) -> str:
    """Write whether a job is asked to have no pods."""
    return f"{job}.?spec.?suspend.orValue(false)"


def at_rest(job: str) -> str:
    """Write whether a batch Job has no pods and gets none."""
    is_stopped = f"{job}.?status.?conditions.orValue([]).exists(c, c.type == 'Suspended' && c.status == 'True')"
    return (
        f"({suspended(job)} && {job}.?status.?active.orValue(0) == 0"
        f" && ({is_stopped} || !{job}.?status.?startTime.hasValue()))"
    )


def gates(pod_spec: str) -> str:
    """Write the names of a pod spec's gates, in their order."""
    return f"{pod_spec}.?schedulingGates.orValue([]).map(g, g.name)"


def set_gates(path: str, names: str) -> str:
    """Write the change that gives the pod spec at a path, which is CEL itself, these gates and no others."""
    return f"JSONPatch{{op: 'add', path: {path} + '/schedulingGates', value: {names}.map(n, {{'name': string(n)}})}}"
