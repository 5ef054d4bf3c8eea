"""Jobs with all that belongs to them, as decisions about one job read them. A test sets what matters to it."""

from collections.abc import Container, Iterable, Mapping
from typing import Any

import msgspec

from autoscaler.admission.jobs.batch_job import BatchJob
from autoscaler.admission.jobs.port import Finished, Job, WantedPods
from autoscaler.admission.state import pod_index
from autoscaler.admission.state.job_state import JobState, Memory
from autoscaler.admission.workloads.workload import Constraints, Workload
from autoscaler.api import keys
from autoscaler.api.manifests import Manifest
from autoscaler.api.resources.queues import ResourceFlavorSpec
from autoscaler.kube import objects
from tests.autoscaler.admission import builders

UID = "u-job-a"
"""The UID of the job, which builders give the Workload `a`, too."""
_SET = "set"


class _WithSets(BatchJob):
    """Jobs with several pod sets, which a label of their pods names."""

    def pod_set_of(self, pod: objects.Pod) -> str:
        return pod.meta.labels.get(_SET, "main")


KINDS = pod_index.PodKinds([_WithSets()])


def job(  # noqa: PLR0913  # each test sets what matters
    size: int | Mapping[str, int] = 1,
    *,
    cpu: int = 1,
    suspended: bool = False,
    queue: str | None = "door",
    finished: Finished | None = None,
    left_alone: str | None = None,
    problem: str | None = None,
    deleted: bool = False,
    replica_pods: int = 1,
    node_selector: Mapping[str, str] | None = None,
) -> Job:
    """A job with one pod set `main`, or with several by name."""
    sizes = size if isinstance(size, Mapping) else {"main": size}
    raw = {"metadata": builders.metadata("a", uid=UID, **builders.leaving(deleted=deleted)), "spec": {}}
    constraints = Constraints(node_selector=node_selector or {})
    return Job(
        meta=BatchJob().decode(msgspec.json.encode(raw)).meta,
        kind="Job",
        api_version="batch/v1",
        queue=queue,
        is_suspended=suspended,
        pod_sets=tuple(
            WantedPods(
                name=name,
                size=count,
                requests={"cpu": cpu * 1000},
                constraints=constraints,
                replica_pods=replica_pods,
            )
            for name, count in sizes.items()
        ),
        finished=finished,
        left_alone=left_alone,
        problem=problem,
    )


def pod(  # noqa: PLR0913  # each test sets what matters
    name: str,
    *,
    gated: bool = False,
    phase: str = "Running",
    ready: bool = True,
    ends_in: float | None = None,
    node: str = "node",
    index: int | None = None,
    set_name: str = "main",
    age: float = 100,
    opened_ago: float | None = None,
    rv: int = 1,
    gates: Iterable[str] = (),
    job_uid: str = UID,
) -> objects.Pod:
    """A pod of the job, UID `u-NAME`, which runs unless told otherwise; `ends_in`: it is being deleted."""
    more: Manifest = {"ownerReferences": [_owner(job_uid)], "labels": {_SET: set_name}}
    if ends_in is not None:
        more |= {"deletionTimestamp": builders.time(-ends_in), "deletionGracePeriodSeconds": 30}
    if index is not None:
        more["labels"][keys.JOB_COMPLETION_INDEX] = str(index)
    if opened_ago is not None:
        more["annotations"] = {keys.OPENED_AT: str(int(builders.NOW - opened_ago))}
    held = [*([keys.ADMISSION_GATE] if gated else []), *gates]
    condition = {"type": "Ready", "status": "True" if ready and phase == "Running" and not gated else "False"}
    manifest = {
        "metadata": builders.metadata(name, age=age, rv=rv, **more),
        "spec": {"schedulingGates": [{"name": each} for each in held], **({} if gated else {"nodeName": node})},
        "status": {"phase": "Pending" if gated else phase, "conditions": [condition]},
    }
    return objects.pod(msgspec.json.encode(manifest))


def state(  # noqa: PLR0913  # each test sets what matters
    of: Job | None = None,
    workload: Workload | None = None,
    *,
    slices: Iterable[Workload] = (),
    orphans: Iterable[Workload] = (),
    pods: Iterable[objects.Pod] = (),
    lost_nodes: Container[str] = (),
    flavors: Mapping[str, Mapping[str, Any]] | None = None,
    priority: int = 0,
    refused: Iterable[str] = (),
    touched: Iterable[str] = (),
    was_running: bool = False,
) -> JobState:
    """A job and everything that belongs to it."""
    there = pod_index.JobPods(kinds=KINDS)
    for each in pods:
        there.add(each)
    specs = {name: ResourceFlavorSpec.model_validate(spec) for name, spec in (flavors or {}).items()}
    return JobState(
        uid=UID,
        job=of,
        workload=workload,
        slices=tuple(slices),
        orphans=tuple(orphans),
        pods=there,
        priority=priority,
        flavors=specs,
        lost_nodes=lost_nodes,
        memory=Memory(refused=frozenset(refused), touched=frozenset(touched), was_running=was_running),
    )


def pods(count: int, *, first: int = 0, **more: Any) -> list[objects.Pod]:
    """So many pods, `p0` and on."""
    return [pod(f"p{number}", **more) for number in range(first, first + count)]


def uids(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"u-{name}" for name in names)


def _owner(job_uid: str) -> Manifest:
    return {"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": job_uid, "controller": True}
