"""Whatever gives a slice's quota back comes after a write to its Workload, by which one that counts the slice fails."""

import msgspec

from autoscaler.admission import decide
from autoscaler.admission.jobs.batch_job import BatchJob
from autoscaler.admission.jobs.port import Job
from autoscaler.admission.state.job_state import JobState, Policy
from autoscaler.admission.writes import Write
from autoscaler.api import keys
from autoscaler.control.writes import Verb
from tests.autoscaler.admission import builders
from tests.autoscaler.admission.builders import NOW, slice_of, workload

PARENT, SLICE = "a", "a-main-0"


def job(*, size: int = 1, finished: bool = False) -> Job:
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    manifest = {
        "metadata": builders.metadata("train", uid="u-job-a", labels={keys.QUEUE_NAME: "door"}),
        "spec": {"parallelism": size, "template": {"spec": {"containers": [container]}}},
        "status": {"conditions": [{"type": "Complete", "status": "True"}] if finished else []},
    }
    return BatchJob().decode(msgspec.json.encode(manifest))


def writes_of(there: Job | None, **parent: object) -> list[tuple[str, Verb]]:
    """Return what is written for a job whose Workload is granted 1 and has an admitted slice."""
    state = JobState(
        uid="u-job-a", job=there, workload=workload(PARENT, granted=1, **parent), slices=(slice_of(granted=1),)
    )
    decided: tuple[Write, ...] = decide.decide(state, now=NOW, policy=Policy()).writes
    return [(each.key.name, each.verb) for each in decided]


def test_a_slice_of_a_job_that_shrank_is_deleted_after_the_spec_says_so() -> None:
    assert (SLICE, Verb.DELETE) not in writes_of(job(size=1), count=2)
    assert (SLICE, Verb.DELETE) in writes_of(job(size=1), count=1)


def test_a_slice_of_a_job_that_is_gone_is_deleted_after_the_deletion_of_its_workload() -> None:
    assert writes_of(None, count=2) == [(PARENT, Verb.DELETE)]
    assert writes_of(None, count=2, deleted=True) == [(SLICE, Verb.DELETE)]


def test_a_slice_of_a_job_that_has_finished_is_deleted_after_the_workload_says_so() -> None:
    assert writes_of(job(finished=True), count=2) == [(PARENT, Verb.PATCH_STATUS)]
    assert writes_of(job(finished=True), count=2, finished=True) == [(SLICE, Verb.DELETE)]
