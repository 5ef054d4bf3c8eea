"""A Job is as large as its controller wants it to be, and is queued unless somebody else decides when it runs."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.admission.jobs import batch_job
from autoscaler.admission.jobs.port import Finished
from tests.autoscaler.admission.jobs import manifests

SMALL = st.integers(min_value=0, max_value=30)
INDEXES = st.sets(st.integers(min_value=0, max_value=40))


def size(spec: dict[str, Any], status: dict[str, Any] | None = None) -> int:
    (main,) = manifests.batch_job(spec, status).pod_sets
    return main.size


def written(indexes: set[int]) -> str:
    """Write indexes as the Job controller does: runs of three and more by their ends."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    texts = [f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs]
    return ",".join(texts)


@given(parallelism=SMALL, completions=SMALL, succeeded=SMALL)
def test_no_more_pods_are_wanted_than_run_at_once_or_have_to_succeed(
    parallelism: int, completions: int, succeeded: int
) -> None:
    want = min(parallelism, max(0, completions - succeeded))
    assert size({"parallelism": parallelism, "completions": completions}, {"succeeded": succeeded}) == want


@pytest.mark.accept("E21", part="an Indexed Job's size follows its indexes, not its stale count")
@given(parallelism=SMALL, completions=SMALL, ended=INDEXES, stale=SMALL, data=st.data())
def test_an_indexed_job_wants_its_indexes_that_have_not_ended(
    parallelism: int, completions: int, ended: set[int], stale: int, data: st.DataObject
) -> None:
    failed = data.draw(st.sets(st.sampled_from(sorted(ended)))) if ended else set()
    status = {
        "succeeded": stale,
        "completedIndexes": written(ended - failed),
        "failedIndexes": written(failed),
    }
    want = min(parallelism, len(set(range(completions)) - ended))
    spec = {"parallelism": parallelism, "completions": completions, "completionMode": "Indexed"}
    assert size(spec, status) == want


@given(indexes=INDEXES, end=SMALL)
def test_indexes_are_counted_below_the_end(indexes: set[int], end: int) -> None:
    want = len([index for index in indexes if index < end])
    assert batch_job.count_below(written(indexes), end) == want


def test_a_million_indexes_are_counted_by_their_ends() -> None:
    assert batch_job.count_below("1,3-5,7-1000000", 2_000_000) == 999_998


@pytest.mark.parametrize(
    ("spec", "status", "want"),
    [
        pytest.param({"parallelism": 4}, {"active": 2}, 4, id="until a pod has succeeded, all that may run at once"),
        pytest.param({"parallelism": 4}, {"active": 2, "succeeded": 1}, 2, id="then those that still run"),
        pytest.param({"parallelism": 4}, {"succeeded": 1}, 0, id="and none is started again"),
        pytest.param({}, {}, 1, id="parallelism is 1 unless it is set"),
        pytest.param({"parallelism": 0}, {}, 0, id="and may be 0"),
        pytest.param(
            {"parallelism": 4, "completions": 4, "completionMode": "NonIndexed"},
            {"succeeded": 3, "completedIndexes": ""},
            1,
            id="only Indexed Jobs are counted by index",
        ),
    ],
)
def test_size(spec: dict[str, Any], status: dict[str, Any], want: int) -> None:
    assert size(spec, status) == want


@pytest.mark.parametrize(
    ("conditions", "want"),
    [
        pytest.param({"Complete": "True"}, Finished(succeeded=True, message="why"), id="complete"),
        pytest.param({"Failed": "True"}, Finished(succeeded=False, message="why"), id="failed"),
        pytest.param({"FailureTarget": "True", "SuccessCriteriaMet": "True"}, None, id="pods still run"),
        pytest.param({"Complete": "False", "Suspended": "True"}, None, id="suspended"),
        pytest.param(
            {"FailureTarget": "True", "Failed": "True"}, Finished(succeeded=False, message="why"), id="the last counts"
        ),
    ],
)
def test_finished(conditions: dict[str, str], want: Finished | None) -> None:
    listed = [{"type": kind, "status": status, "message": "why"} for kind, status in conditions.items()]
    assert manifests.batch_job(status={"conditions": listed}).finished == want


@pytest.mark.parametrize(
    ("spec", "owners", "want"),
    [
        pytest.param({}, [], None, id="nobody else"),
        pytest.param({}, manifests.owner("CronJob", "batch/v1"), None, id="a CronJob only makes it"),
        pytest.param({}, manifests.owner("RayJob"), "owned by RayJob train", id="what submits a RayJob"),
        pytest.param({}, manifests.owner("JobSet", "jobset.x-k8s.io/v1alpha2"), "owned by JobSet train", id="a JobSet"),
        pytest.param({}, manifests.owner("JobSet", "example.com/v1"), None, id="an operator that nobody knows"),
        pytest.param({}, manifests.owner("RayJob", is_controller=False), None, id="an owner that is no controller"),
        pytest.param({"managedBy": "kubernetes.io/job-controller"}, [], None, id="the Job controller by name"),
        pytest.param(
            {"managedBy": "kueue.x-k8s.io/multikueue"}, [], "managed by kueue.x-k8s.io/multikueue", id="another cluster"
        ),
    ],
)
@pytest.mark.accept("E19", part="Jobs that others run are left alone with a reason")
def test_a_job_that_somebody_else_runs_is_left_alone(
    spec: dict[str, Any], owners: list[dict[str, Any]], want: str | None
) -> None:
    assert manifests.batch_job(spec, ownerReferences=owners).left_alone == want


def test_what_decisions_read() -> None:
    pods = manifests.template(cpu="2", priorityClassName="high", nodeSelector={"zone": "a"})
    got = manifests.batch_job({"suspend": True}, pods=pods, labels={"sluice.dev/queue-name": "door"})
    (main,) = got.pod_sets
    assert (got.kind, got.api_version, got.queue, got.is_suspended) == ("Job", "batch/v1", "door", True)
    assert (got.priority_class, got.problem) == ("high", None)
    assert (main.name, main.requests, main.constraints.node_selector) == ("main", {"cpu": 2000}, {"zone": "a"})


@pytest.mark.parametrize("labels", [{}, {"sluice.dev/queue-name": ""}])
def test_a_job_without_a_queue_is_not_ours(labels: dict[str, str]) -> None:
    got = manifests.batch_job(labels=labels)
    assert (got.queue, got.is_suspended, got.finished) == (None, False, None)


def test_devices_by_claim_are_a_problem() -> None:
    got = manifests.batch_job(pods=manifests.template(resourceClaims=manifests.CLAIM))
    assert got.problem is not None
    assert "the pods of main ask for devices by resource claims" in got.problem


@pytest.mark.parametrize(("index", "want"), [("10", 10), ("0", 0), ("mine", None), (None, None)])
def test_the_place_of_a_pod_is_its_completion_index(index: str | None, want: int | None) -> None:
    labels = {"batch.kubernetes.io/job-completion-index": index} if index is not None else {}
    pod = manifests.pod(**labels)
    assert (batch_job.BatchJob().place_of(pod), batch_job.BatchJob().pod_set_of(pod)) == (want, "main")


@pytest.mark.parametrize("want", [True, False])
def test_suspension(*, want: bool) -> None:
    assert batch_job.BatchJob().suspension(is_suspended=want) == {"spec": {"suspend": want}}
