"""The stages of a job around its being admitted: made, waiting, evicted, finished, gone. Pure.

Quota is given back only when no pod of the job is open or recorded and no slice is left.
"""

from autoscaler.admission import writes
from autoscaler.admission.job_stages import manifests
from autoscaler.admission.jobs.port import Job
from autoscaler.admission.state.job_state import JobState
from autoscaler.admission.workloads import workload_status
from autoscaler.admission.workloads.workload import ConditionType, Workload
from autoscaler.admission.workloads.workload_status import Change
from autoscaler.admission.writes import Event, On, Step, Write
from autoscaler.api import keys
from autoscaler.api.manifests import Manifest
from autoscaler.control.writes import Verb
from autoscaler.kube import objects


def unknown(state: JobState, now: float) -> tuple[Write, ...]:
    """Delete slices that nobody needs; pods are left as they are."""
    del now
    return _without_slices(state, "its job has no Workload")


def new(state: JobState, now: float) -> tuple[Write, ...]:
    """Make the Workload of a job, and suspend a job that runs without one."""
    del now
    job = _required(state)
    if job.problem is not None:
        return suspension(state, "it cannot be queued")
    write = Write(
        step=Step.CREATE,
        on=On.WORKLOAD,
        verb=Verb.CREATE,
        key=_key(job),
        body=manifests.workload(job, state.priority),
        why=f"job {job.meta.key.name} waits in LocalQueue {job.queue}",
    )
    return (write, *_without_slices(state, "its Workload is gone"), *suspension(state, "it waits for quota"))


def waiting(state: JobState, now: float) -> tuple[Write, ...]:
    """Keep a waiting Workload as its job is, and the job suspended; one that cannot be queued keeps no place."""
    del now
    job, workload = _required(state), _workload(state)
    why = "it waits for quota" if workload.active else "spec.active of its Workload is false"
    planned = [*suspension(state, why), *_without_slices(state, "its job is not admitted")]
    if job.problem is not None:
        planned.append(writes.delete(On.WORKLOAD, Step.RELEASE, workload, f"its job cannot be queued: {job.problem}"))
    elif spec_differs(workload, job, state.priority):
        spec = _spec(job, state.priority)
        planned.append(writes.patch(On.WORKLOAD, Step.SPEC, workload, {"spec": spec}, "the job changed"))
    return tuple(planned)


def evicted(state: JobState, now: float) -> tuple[Write, ...]:
    """Suspend an evicted job; clear its admission once no pod runs and no slice is left."""
    workload = _workload(state)
    planned = [*suspension(state, "it was evicted"), *_without_slices(state, "its job was evicted")]
    if planned or _has_slices(state) or state.is_running(now):
        return tuple(planned)
    if workload.is_leaving:
        return (_released(workload),)
    return (_cleared(workload, now),)


def finished(state: JobState, now: float) -> tuple[Write, ...]:
    """Say that a job has ended, and give its quota back, once no pod of it runs and no slice is left."""
    workload, job = _workload(state), _required(state)
    if job.finished is None or (workload.is_finished and workload.admission is None):
        return ()
    message = job.finished.message or ("the job completed" if job.finished.succeeded else "the job failed")
    reason = "Succeeded" if job.finished.succeeded else "Failed"
    done = Change(type=ConditionType.FINISHED, holds=True, reason=reason, message=message)
    planned = _without_slices(state, "its job has finished")
    if planned and not workload.is_finished:  # first, so that no write under way counts a slice that is gone
        status: Manifest = {"conditions": workload_status.with_conditions(workload, (done,), now)}
        return (writes.patch_status(On.WORKLOAD, Step.TELL, workload, status, "the job has finished"),)
    if _has_slices(state) or state.is_running(now):
        return planned
    status = _nothing_granted(workload, now, reason="Finished", message="the job has finished", more=(done,))
    return (writes.patch_status(On.WORKLOAD, Step.FINISH, workload, status, "the job has finished"),)


def departing(state: JobState, now: float) -> tuple[Write, ...]:
    """Release the Workload of a job that is gone, once no pod of it is open or recorded and no slice is left.

    Its deletion is asked for first: a write that counts a slice may be under way, and must not succeed after the slice
    has given its quota back.
    """
    workload = _workload(state)
    if not workload.is_leaving:
        return (writes.delete(On.WORKLOAD, Step.RELEASE, workload, "its job is gone"),)
    planned = _without_slices(state, "its job is gone")
    if _has_slices(state):
        return planned
    if state.is_running(now):
        return _unrecord(state, workload)
    return (_released(workload),)


def resumption(state: JobState) -> tuple[Write, ...]:
    """Let an admitted job run."""
    job = _required(state)
    if not job.is_suspended:
        return ()
    told = None
    if state.memory.was_running:
        advice = f"set spec.active of Workload {_workload(state).meta.key.name} to false to keep it from running"
        told = Event(reason="Resumed", message=f"an admitted job is not suspended by hand: {advice}", is_warning=True)
    return (_suspend(job, is_suspended=False, why="it is admitted", told=told),)


def suspension(state: JobState, why: str) -> tuple[Write, ...]:
    """Suspend a job that must not run."""
    job = _required(state)
    if job.is_suspended:
        return ()
    told = Event(reason="Suspended", message=f"the job is suspended: {why}", is_warning=False)
    return (_suspend(job, is_suspended=True, why=why, told=told),)


def spec_differs(workload: Workload, job: Job, priority: int) -> bool:
    """Tell whether a waiting Workload asks for something else than its job."""
    want = {each.name: each.asked for each in job.pod_sets}
    there = {each.name: each for each in workload.pod_sets}
    return there != want or workload.queue != job.queue or workload.priority != priority


def is_as_wanted(state: JobState) -> bool:
    """Tell whether a Workload asks for what its job wants now, and the job can be queued."""
    job, workload = state.wanted, state.workload
    if job is None or workload is None or job.problem is not None:
        return False
    return not spec_differs(workload, job, state.priority)


def _spec(job: Job, priority: int) -> Manifest:
    pod_sets = [manifests.pod_set(each, each.size) for each in job.pod_sets]
    return {"queueName": job.queue, "priority": priority, "podSets": pod_sets}


def _without_slices(state: JobState, why: str) -> tuple[Write, ...]:
    there = [each for each in (*state.slices, *state.orphans) if not each.is_leaving]
    return tuple(writes.delete(On.WORKLOAD, Step.SLICE, each, why) for each in there)


def _has_slices(state: JobState) -> bool:
    """Tell whether a slice is left, if only one that is being deleted."""
    return bool(state.slices or state.orphans)


def _suspend(job: Job, *, is_suspended: bool, why: str, told: Event | None) -> Write:
    return Write(
        step=Step.SUSPEND,
        on=On.JOB,
        verb=Verb.PATCH,
        key=job.meta.key,
        kind=job.kind,
        uid=job.meta.uid,
        resource_version=job.meta.resource_version,
        body={"suspend": is_suspended},
        why=why,
        event=told,
    )


def _cleared(workload: Workload, now: float) -> Write:
    """Give an evicted job's quota back: it waits again."""
    old = workload.conditions[ConditionType.EVICTED]
    message = f"its pods are gone: {old.message}"
    gone = Change(type=ConditionType.EVICTED, holds=False, reason=old.reason, message=message)
    status = _nothing_granted(workload, now, reason="Evicted", message=f"evicted: {old.message}", more=(gone,))
    return writes.patch_status(On.WORKLOAD, Step.RELEASE, workload, status, "it was evicted, and no pod of it runs")


def _nothing_granted(
    workload: Workload, now: float, *, reason: str, message: str, more: tuple[Change, ...]
) -> Manifest:
    types = (ConditionType.QUOTA_RESERVED, ConditionType.ADMITTED, ConditionType.PODS_READY)
    changes = [Change(type=each, holds=False, reason=reason, message=message) for each in types]
    if workload.holds(ConditionType.RESIZE_REQUESTED):
        changes.append(Change(type=ConditionType.RESIZE_REQUESTED, holds=False, reason=reason, message=message))
    return {
        "admission": None,
        "claim": None,
        "opened": None,
        "withdrawn": None,
        "foldedSlices": None,
        "position": None,
        "estimatedWaitSeconds": None,
        "conditions": workload_status.with_conditions(workload, [*changes, *more], now),
    }


def _released(workload: Workload) -> Write:
    kept = [each for each in workload.meta.finalizers if each != keys.FINALIZER]
    body = {"metadata": {"finalizers": kept or None}}
    return writes.patch(On.WORKLOAD, Step.RELEASE, workload, body, "no pod of its job runs")


def _unrecord(state: JobState, workload: Workload) -> tuple[Write, ...]:
    """Take pods off the record that are still gated: their job is gone, and they must never be opened.

    A patch that opens one may be under way; so the pod is changed first, and what was decided on its old version fails.
    """
    waiting_pods = [
        pod
        for name in workload.opened
        for uid, pod in state.pods.of(name).gated.items()
        if uid in workload.opened[name]
    ]
    untouched = [pod for pod in waiting_pods if pod.meta.uid not in state.memory.touched]
    if untouched:
        return tuple(touch(pod, "its job is gone") for pod in untouched)
    if not waiting_pods:
        return ()
    dropped = {pod.meta.uid for pod in waiting_pods}
    left = {name: [uid for uid in uids if uid not in dropped] for name, uids in workload.opened.items()}
    status = {"opened": workload_status.pods(left) or None}
    return (writes.patch_status(On.WORKLOAD, Step.RECORD, workload, status, "gated pods of a job that is gone"),)


def touch(pod: objects.Pod, why: str, *, event: Event | None = None) -> Write:
    """Change a pod so that no patch decided on its old version succeeds any more."""
    version = pod.meta.resource_version  # so that the same words are a change, too
    body = {"metadata": {"annotations": {keys.NOT_OPENED: f"{why} (as of version {version})"}}}
    return writes.patch(On.POD, Step.TOUCH, pod, body, why, event=event)


def _key(job: Job) -> objects.Key:
    return objects.Key(job.meta.key.namespace, manifests.workload_name(job))


def _required(state: JobState) -> Job:
    if state.wanted is None:
        raise ValueError(f"job {state.uid} is not there")
    return state.wanted


def _workload(state: JobState) -> Workload:
    if state.workload is None:
        raise ValueError(f"job {state.uid} has no Workload")
    return state.workload
