"""What the Job controller says of a Job: counts, when it started, and how it ended. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from autoscaler.api.manifests import Manifest
from autoscaler.simulation.cluster.kinds import conditions, jobs, pods
from autoscaler.simulation.controllers import job_pods

_SUSPENDED: Final = ("Suspended", "JobSuspended", "Job suspended")
_RESUMED: Final = ("Suspended", "JobResumed", "Job resumed")
_REACHED: Final = ("CompletionsReached", "Reached expected number of succeeded pods")
_EXCEEDED: Final = ("BackoffLimitExceeded", "Job has reached the specified backoff limit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How many pods of a Job have ended, and how."""

    succeeded: int
    failed: int
    completed: frozenset[int] = frozenset()
    """The indexes of an Indexed Job that are done."""


def tally(job: Manifest, ended: Sequence[Manifest]) -> Tally:
    """Add pods that ended to what was counted before."""
    status = job["status"]
    counted = [pod for pod in ended if job_pods.is_counted(job, pod)]
    good = [pod for pod in counted if job_pods.has_succeeded(pod)]
    failed = status.get("failed", 0) + len(counted) - len(good)
    if not jobs.is_indexed(job):
        return Tally(succeeded=status.get("succeeded", 0) + len(good), failed=failed)
    done = job_pods.read_indexes(status.get("completedIndexes", ""), job["spec"]["completions"])
    done.update(place for pod in good if (place := job_pods.index(pod)) is not None)
    return Tally(succeeded=len(done), failed=failed, completed=frozenset(done))


def wanted(job: Manifest, ended: Tally, active: int) -> int:
    """Return how many pods should run; without completions, none is started once one has succeeded."""
    spec = job["spec"]
    completions: int | None = spec.get("completions")
    parallelism: int = spec["parallelism"]
    if completions is None:
        return active if ended.succeeded else parallelism
    return max(0, min(parallelism, completions - ended.succeeded))


def is_finished(job: Manifest) -> bool:
    return any(conditions.status(job, name) == "True" for name in ("Complete", "Failed"))


def is_failing(job: Manifest, ended: Tally) -> bool:
    """Tell whether a Job is given up, or was before its last pods had stopped."""
    return bool(ended.failed > job["spec"]["backoffLimit"]) or conditions.status(job, "FailureTarget") == "True"


def after(job: Manifest, ended: Tally, present: Sequence[Manifest], now: str) -> Manifest:
    """Return a Job with its status as it is now."""
    active = [pod for pod in present if job_pods.is_active(pod)]
    terminating = sum(job_pods.is_terminating(pod) for pod in present)
    counts = {
        "active": len(active),
        "succeeded": ended.succeeded,
        "failed": ended.failed,
        "completedIndexes": job_pods.write_indexes(ended.completed),
    }
    status = {name: value for name, value in job["status"].items() if name not in counts}
    status |= {name: value for name, value in counts.items() if value}
    status |= {
        "ready": sum(pods.is_ready(pod) for pod in active),
        "terminating": terminating,
        "uncountedTerminatedPods": {},
    }
    if not job["spec"]["suspend"]:
        status.setdefault("startTime", now)
    counted = {**job, "status": status}
    if is_failing(job, ended):
        return _ended(counted, ("FailureTarget", "Failed"), _EXCEEDED, now, is_over=not terminating)
    if _is_complete(job, ended, len(active)):
        return _ended(counted, ("SuccessCriteriaMet", "Complete"), _REACHED, now, is_over=not terminating)
    return _suspended(counted, now)


def _is_complete(job: Manifest, ended: Tally, active: int) -> bool:
    completions = job["spec"].get("completions")
    return not active and ended.succeeded >= (1 if completions is None else completions)


def _ended(job: Manifest, types: tuple[str, str], why: tuple[str, str], now: str, *, is_over: bool) -> Manifest:
    """Say how a Job ends, and that it has ended once no pod of it is left."""
    for name in types if is_over else types[:1]:
        job = _with(job, (name, *why), "True", now)
    if is_over and types[1] == "Complete":
        job = {**job, "status": {**job["status"], "completionTime": now}}
    return job


def _suspended(job: Manifest, now: str) -> Manifest:
    """Say that a Job is suspended, or no longer; its time starts anew when it is resumed."""
    said = conditions.status(job, _SUSPENDED[0])
    if job["spec"]["suspend"] and said != "True":
        job = _with(job, _SUSPENDED, "True", now)
        return {**job, "status": {name: value for name, value in job["status"].items() if name != "startTime"}}
    if not job["spec"]["suspend"] and said == "True":
        return _with(job, _RESUMED, "False", now)
    return job


def _with(job: Manifest, condition: tuple[str, str, str], status: str, now: str) -> Manifest:
    name, reason, message = condition
    if conditions.status(job, name) == status:
        return job
    times = {"lastProbeTime": now, "lastTransitionTime": now}
    return conditions.put(job, {"type": name, "status": status, **times, "reason": reason, "message": message})
