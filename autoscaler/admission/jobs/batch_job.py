"""Jobs of Kubernetes itself (batch/v1): one pod set, resized by parallelism."""

from typing import Final

import msgspec

from autoscaler.admission.jobs import belonging, templates
from autoscaler.admission.jobs.port import Finished, Job
from autoscaler.api import keys
from autoscaler.api.manifests import Manifest
from autoscaler.api.policies.jobs import queued
from autoscaler.kube import kinds, objects, wire

POD_SET: Final = "main"
INDEXED: Final = "Indexed"
_ENDS: Final = {"Complete": True, "Failed": False}
"""The conditions that end a Job, and whether it succeeded; FailureTarget and SuccessCriteriaMet come before, while pods
still run."""


class BatchJob:
    """The kind `Job`."""

    resource: Final = kinds.JOBS

    def decode(self, raw: bytes | msgspec.Raw) -> Job:
        """Read a Job."""
        read = _DECODER.decode(raw)
        meta, template = objects.meta(read.metadata), read.spec.template.spec
        return Job(
            meta=meta,
            kind=self.resource.kind,
            api_version=self.resource.api_version,
            queue=belonging.queue_of(meta),
            is_suspended=read.spec.suspend,
            pod_sets=(templates.wanted(POD_SET, template, size=_size(read)),),
            priority_class=template.priority_class_name,
            finished=_finished(read.status),
            left_alone=_left_alone(meta, read.spec),
            problem=templates.problem(POD_SET, template),
        )

    def pod_set_of(self, pod: objects.Pod) -> str:  # noqa: ARG002  # all pods of a Job are alike
        """Return the one pod set that Jobs have."""
        return POD_SET

    def place_of(self, pod: objects.Pod) -> int | None:
        """Return the completion index of a pod of an Indexed Job."""
        index = pod.meta.labels.get(keys.JOB_COMPLETION_INDEX, "")
        return int(index) if index.isdecimal() else None

    def suspension(self, *, is_suspended: bool) -> Manifest:
        """Write the merge patch that suspends a Job, or resumes it."""
        return {"spec": {"suspend": is_suspended}}


def count_below(indexes: str, end: int) -> int:
    """Count the indexes below an end in a list like `1,3-5,7`."""
    total = 0
    for interval in filter(None, indexes.split(",")):
        first, _, last = interval.partition("-")
        total += max(0, min(end, int(last or first) + 1) - int(first))
    return total


# As the API server sends them


class _Struct(msgspec.Struct, rename="camel", gc=False, frozen=True):
    pass


class _Spec(_Struct, frozen=True):
    parallelism: int = 1
    completions: int | None = None
    completion_mode: str = ""
    suspend: bool = False
    managed_by: str = queued.JOB_CONTROLLER
    template: templates.Template = templates.Template()


class _Condition(_Struct, frozen=True):
    type: str
    status: str
    message: str = ""


class _Status(_Struct, frozen=True):
    active: int = 0
    succeeded: int = 0
    completed_indexes: str = ""
    failed_indexes: str = ""
    conditions: tuple[_Condition, ...] = ()


class _Job(_Struct, frozen=True):
    metadata: wire.ObjectMeta
    spec: _Spec = _Spec()
    status: _Status = _Status()


_DECODER: Final = msgspec.json.Decoder(_Job)


def _size(job: _Job) -> int:
    """Return how many pods the Job controller wants to run now."""
    spec, status = job.spec, job.status
    if spec.completions is None:
        return status.active if status.succeeded else spec.parallelism
    return max(0, min(spec.parallelism, spec.completions - _done(job, spec.completions)))


def _done(job: _Job, completions: int) -> int:
    """Count what need not run again; `succeeded` of an Indexed Job is stale after its completions were lowered."""
    status = job.status
    if job.spec.completion_mode != INDEXED:
        return status.succeeded
    return count_below(status.completed_indexes, completions) + count_below(status.failed_indexes, completions)


def _finished(status: _Status) -> Finished | None:
    end = next((each for each in status.conditions if each.type in _ENDS and each.status == "True"), None)
    return Finished(succeeded=_ENDS[end.type], message=end.message) if end is not None else None


def _left_alone(meta: objects.Meta, spec: _Spec) -> str | None:
    is_usual = spec.managed_by == queued.JOB_CONTROLLER
    return belonging.run_by_another(meta) if is_usual else f"managed by {spec.managed_by}"
