"""When an admitted job must give its quota back for a reason of its own, and how it is told so. Pure.

Whom others displace is decided in `quota`. An evicted job keeps its quota until its pods are gone.
"""

from dataclasses import dataclass
from typing import Final

from autoscaler import backoff
from autoscaler.admission import writes
from autoscaler.admission.jobs.port import Job
from autoscaler.admission.state.job_state import JobState, Policy
from autoscaler.admission.workloads import workload_status
from autoscaler.admission.workloads.workload import Admission, ConditionType, Requeue, Workload
from autoscaler.admission.workloads.workload_status import Change
from autoscaler.admission.writes import Event, On, Step, Write
from autoscaler.api import keys
from autoscaler.api.manifests import Manifest
from autoscaler.api.resources.workloads import FLAVORS_TRIED_MAX
from autoscaler.kube import objects

REQUEUE: Final = backoff.Backoff(first_seconds=60.0, longest_seconds=3600.0)
"""How long a job waits before it is tried again whose pods did not start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """Why a job gives its quota back."""

    reason: str
    message: str
    is_failure: bool = False
    """Its pods did not start: it is tried on other flavors, and later."""
    is_for_growth: bool = False
    """It waits for its whole new size, not for what it was first admitted with."""


def due(state: JobState, now: float, policy: Policy) -> Eviction | None:
    """Return why an admitted job must give its quota back; None if it need not."""
    job, workload = state.wanted, state.workload
    if job is None or workload is None or workload.admission is None:
        return None
    changed = _changed(job, workload)
    if changed is not None:
        return changed
    if not policy.elastic and any(each.size > workload.admission.count(each.name) for each in job.pod_sets):
        message = "the job has grown, and the feature gate elasticJobs is off"
        return Eviction(reason="Resized", message=message, is_for_growth=True)
    return _unstarted(state, workload, now, policy)


def _changed(job: Job, workload: Workload) -> Eviction | None:
    """Return what changed about a job that its quota was not given for."""
    if not workload.active:
        return Eviction(reason="Deactivated", message="spec.active is false")
    if job.queue != workload.queue:
        return Eviction(reason="QueueChanged", message=f"its queue is now {job.queue}")
    changed = _changed_template(workload, job)
    if changed is not None:
        message = f"the pod template of {changed} asks for other resources or nodes than were admitted"
        return Eviction(reason="PodTemplateChanged", message=message)
    return None


def evict(state: JobState, eviction: Eviction, now: float) -> Write:
    """Tell a job to give its quota back."""
    workload = state.workload
    if workload is None or workload.admission is None:
        raise ValueError(f"job {state.uid} has no quota")
    change = Change(type=ConditionType.EVICTED, holds=True, reason=eviction.reason, message=eviction.message)
    status: Manifest = {"conditions": workload_status.with_conditions(workload, (change,), now)}
    if eviction.is_failure:
        status["requeue"] = workload_status.requeue(_next_attempt(workload, workload.admission, now))
    if eviction.is_for_growth:
        status["firstAdmitted"] = None
    told = Event(reason="Evicted", message=f"the job is suspended: {eviction.message}", is_warning=True)
    return writes.patch_status(On.WORKLOAD, Step.EVICT, workload, status, eviction.message, event=told)


def starts_at(workload: Workload) -> float:
    """Return since when the pods of an admitted job may start."""
    return workload.conditions[ConditionType.ADMITTED].since


def opened_at(pod: objects.Pod) -> float:
    """Return when a pod's gate was opened; that of one that never had one, when it was made."""
    written = pod.meta.annotations.get(keys.OPENED_AT, "")
    return float(written) if written.isdigit() else pod.meta.created_at


def _changed_template(workload: Workload, job: Job) -> str | None:
    """Return a pod set that asks for something else than was admitted; one that has no quota is not one."""
    for wanted in job.pod_sets:
        there = workload.pod_set(wanted.name)
        granted = workload.admission.count(wanted.name) if workload.admission is not None else 0
        if there is None or granted == 0:
            continue
        if there.requests != wanted.requests or there.constraints != wanted.constraints:
            return wanted.name
    return None


def _unstarted(state: JobState, workload: Workload, now: float, policy: Policy) -> Eviction | None:
    """Return whether the pods did not start in time; once they were Ready, they may fail without that."""
    patience = policy.pods_ready_timeout_seconds
    if workload.holds(ConditionType.PODS_READY) or now < starts_at(workload) + patience:
        return None
    late = [
        pod
        for each in state.pods.pod_sets.values()
        for pod in each.unstarted.values()
        if opened_at(pod) + patience <= now
    ]
    has_none = not any(each.open for each in state.pods.pod_sets.values())
    granted = sum(each.count for each in workload.admission.assignments) if workload.admission is not None else 0
    if not late and not (has_none and granted):
        return None
    waits = f"{len(late)} of its pods wait, such as {min(late, key=_name).meta.key.name}" if late else "it has no pods"
    message = f"its pods did not start within {patience / 60:.0f} minutes: {waits}"
    return Eviction(reason="PodsReadyTimeout", message=message, is_failure=True)


def _next_attempt(workload: Workload, admission: Admission, now: float) -> Requeue:
    before = workload.requeue
    count = before.count + 1 if before is not None else 1
    used = {flavor for each in admission.assignments for flavor in each.flavors.values()}
    tried = {*(before.flavors_tried if before is not None else ()), *used}
    return Requeue(count=count, at=now + REQUEUE.pause(count), flavors_tried=tuple(sorted(tried))[:FLAVORS_TRIED_MAX])


def _name(pod: objects.Pod) -> str:
    return pod.meta.key.name
