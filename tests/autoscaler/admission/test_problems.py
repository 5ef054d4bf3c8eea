"""A job that cannot be queued keeps no place in a queue; one that is admitted runs on with what it has."""

import msgspec

from autoscaler.admission import decide
from autoscaler.admission.jobs.batch_job import BatchJob
from autoscaler.admission.jobs.port import Job
from autoscaler.admission.state.job_state import JobState, Policy
from autoscaler.admission.workloads.workload import Workload
from autoscaler.admission.writes import On
from autoscaler.api import keys
from autoscaler.control.writes import Verb
from tests.autoscaler.admission import builders
from tests.autoscaler.admission.builders import NOW, workload


def troubled(*, is_suspended: bool = True) -> Job:
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"containers": [container], "resourceClaims": [{"name": "device"}]}}
    manifest = {
        "metadata": builders.metadata("train", uid="u-job-a", labels={keys.QUEUE_NAME: "door"}),
        "spec": {"parallelism": 1, "suspend": is_suspended, "template": template},
    }
    job = BatchJob().decode(msgspec.json.encode(manifest))
    assert job.problem is not None
    return job


def decided(job: Job, there: Workload | None) -> list[tuple[On, Verb]]:
    state = JobState(uid="u-job-a", job=job, workload=there)
    return [(each.on, each.verb) for each in decide.decide(state, now=NOW, policy=Policy()).writes]


def test_it_gets_no_workload() -> None:
    assert decided(troubled(), None) == []


def test_it_gives_up_its_place_where_it_waits() -> None:
    assert decided(troubled(), workload()) == [(On.WORKLOAD, Verb.DELETE)]
    assert decided(troubled(), workload(deleted=True)) == [(On.WORKLOAD, Verb.PATCH)]


def test_it_runs_on_where_it_is_admitted() -> None:
    writes = decided(troubled(is_suspended=False), workload(granted=1))
    assert (On.JOB, Verb.PATCH) not in writes
    assert all(on is not On.POD for on, _ in writes)
