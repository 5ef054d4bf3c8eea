"""Batch Jobs in a queue, from their creation to their end: the real Job controller, scheduler and policies."""

import pytest

from autoscaler.api import keys
from tests.e2e import waiting
from tests.e2e.admission import ground
from tests.e2e.admission.ground import Ground, Object, gates_of, name_of, uid_of

ONCE_ADMITTED = [True, False]
"""Made suspended, admitted, and never suspended again."""


@pytest.mark.accept("E7", part="a Job waits suspended, is admitted within quota, and its gates open")
@pytest.mark.accept("E16", part="a Job and the next one, replayed at every resourceVersion")
def test_a_job_waits_until_the_quota_that_another_uses_is_free(site: Ground) -> None:
    queue = site.add_queue("2")
    first = site.make_job("first", queue, pods=2)
    assert first["spec"]["suspend"]
    site.wait_for_grant(first, main=2)
    running = site.wait_for_running(first, 2)
    assert not any(gates_of(pod) for pod in running)

    second = site.make_job("second", queue, run_for="1s")
    later = site.make_job("later", site.add_queue("1"))
    site.wait_for_grant(later, main=1)  # so the second was looked at
    assert site.granted(second) == {}
    assert site.get("jobs", "second")["spec"]["suspend"]
    assert site.pods(second) == []

    for pod in running:
        site.end(pod)
    site.wait_for_condition(first, "Finished", status="True")
    assert site.granted(first) == {}
    site.wait_for_condition(second, "Finished", status="True")
    assert {pod["status"]["phase"] for pod in site.pods(second)} == {"Succeeded"}


# Resizes


@pytest.mark.accept("E1", part="a Job of the real controller that grows and shrinks")
@pytest.mark.accept("E4", part="a Job of the real controller")
@pytest.mark.accept("E5", part="a Job of the real controller: at once")
def test_a_job_grows_as_far_as_quota_goes_and_shrinks_while_it_runs(site: Ground) -> None:
    queue = site.add_queue("3")
    job = site.make_job("job", queue, pods=1, completions=9)
    site.wait_for_grant(job, main=1)
    before = {uid_of(pod) for pod in site.wait_for_running(job, 1)}
    site.wait_for_usage(queue, usual="1")

    site.change("jobs", "job", parallelism=5)
    site.wait_for_grant(job, main=3)
    assert before < {uid_of(pod) for pod in site.wait_for_running(job, 3)}
    said = "main: 3 of 5 pods are granted, 2 wait for quota"
    site.wait_for_condition(job, "ResizeRequested", status="True", reason="ScalingUp", message=said)
    assert len(site.slices(job)) == 2
    site.wait_for_usage(queue, usual="3")

    other = site.make_job("other", queue, pods=2)
    site.change("jobs", "job", parallelism=1)
    site.wait_for_grant(job, main=1)
    site.wait_for_grant(other, main=2)
    site.wait_for_running(job, 1)
    site.wait_for_condition(job, "ResizeRequested", status="False")
    assert site.suspensions(job) == ONCE_ADMITTED


@pytest.mark.accept("E14", part="pods of a real Job that succeeded make room for the next, one in, one out")
def test_a_job_with_more_completions_than_places_runs_to_its_end(site: Ground) -> None:
    queue = site.add_queue("2")
    job = site.make_job("job", queue, pods=2, completions=6, run_for="200ms")
    site.wait_for_condition(job, "Finished", status="True", reason="Succeeded")
    assert [pod["status"]["phase"] for pod in site.pods(job)] == ["Succeeded"] * 6
    assert site.suspensions(job) == ONCE_ADMITTED
    site.wait_for_usage(queue, usual="0")


@pytest.mark.accept("E14", part="a pod of a real Job that terminates keeps its place until it is gone")
def test_a_pod_that_terminates_keeps_its_place_from_the_next(site: Ground) -> None:
    job = site.make_job("job", site.add_queue("1"), completions=9)
    site.wait_for_grant(job, main=1)
    [old] = site.wait_for_running(job, 1)
    site.hold(old)
    site.change("jobs", "job", parallelism=0)
    site.wait_for_grant(job, main=0)
    site.change("jobs", "job", parallelism=1)
    site.wait_for_grant(job, main=1)
    waiting.eventually(lambda: len(site.pods(job)) == 2)
    site.await_handled()
    assert site.open_pods(job) == []
    site.hold(old, is_held=False)
    [new] = site.wait_for_running(job, 1)
    assert uid_of(new) != uid_of(old)
    assert site.suspensions(job) == ONCE_ADMITTED


def indexes(site: Ground, job: Object) -> list[str]:
    """Return the indexes of a Job's pods that may run."""
    return sorted(pod["metadata"]["labels"][keys.JOB_COMPLETION_INDEX] for pod in site.open_pods(job))


@pytest.mark.accept("E21", part="an Indexed Job of the real controller")
def test_an_indexed_job_is_counted_by_its_indexes_and_served_in_their_order(site: Ground) -> None:
    queue = site.add_queue("3")
    job = site.make_job("job", queue, pods=2, completionMode="Indexed", backoffLimitPerIndex=0)
    site.wait_for_grant(job, main=2)
    site.change("jobs", "job", parallelism=6, completions=6)
    site.wait_for_grant(job, main=3)
    running = site.wait_for_running(job, 3)
    assert indexes(site, job) == ["0", "1", "2"]

    for pod in running:
        if pod["metadata"]["labels"][keys.JOB_COMPLETION_INDEX] == "1":
            site.end(pod, "Failed")
    waiting.eventually(lambda: indexes(site, job) == ["0", "2", "3"])
    site.wait_for_running(job, 3)

    site.change("jobs", "job", parallelism=3, completions=3)
    site.wait_for_grant(job, main=2)  # of three indexes one is done for good, though it did not succeed
    waiting.eventually(lambda: indexes(site, job) == ["0", "2"])
    other = site.make_job("other", queue)
    site.wait_for_grant(other, main=1)
    for pod in site.wait_for_running(job, 2):
        site.end(pod)
    site.wait_for_condition(job, "Finished", status="True", reason="Failed")
    assert site.suspensions(job) == ONCE_ADMITTED
    site.wait_for_usage(queue, usual="1")


@pytest.mark.accept("E16", part="quota that is lowered below what is used")
def test_nothing_is_admitted_or_taken_away_while_more_is_used_than_there_is(site: Ground) -> None:
    queue = site.add_queue("3")
    job = site.make_job("job", queue, pods=3, completions=9)
    site.wait_for_grant(job, main=3)
    before = {uid_of(pod) for pod in site.wait_for_running(job, 3)}
    site.set_quota(queue, "2")
    next_one = site.make_job("next", queue)
    site.change("jobs", "job", parallelism=4)
    assert len(waiting.eventually(lambda: site.slices(job))) == 1
    site.await_handled()
    assert {uid_of(pod) for pod in site.wait_for_running(job, 3)} == before
    assert site.granted(next_one) == {}

    site.change("jobs", "job", parallelism=2)
    site.wait_for_grant(job, main=2)
    site.await_handled()
    assert site.granted(next_one) == {}, "two of two are used"
    site.change("jobs", "job", parallelism=1)
    site.wait_for_grant(next_one, main=1)
    assert site.suspensions(job) == ONCE_ADMITTED
    site.wait_for_usage(queue, usual="2")


# People's hands


@pytest.mark.accept("E20", part="spec.active of a Workload, set by an editor")
def test_a_job_that_is_not_active_gives_its_quota_back_until_it_is_again(site: Ground) -> None:
    queue = site.add_queue("2")
    job = site.make_job("job", queue, pods=2)
    site.wait_for_grant(job, main=2)
    running = site.wait_for_running(job, 2)
    other = site.make_job("other", queue, pods=2)
    site.hold(running[0])
    site.change_workload(job, active=False)
    waiting.eventually(lambda: [uid_of(pod) for pod in site.pods(job)] == [uid_of(running[0])])
    site.await_handled()
    assert site.granted(other) == {}, "a pod of the first is still there"
    site.hold(site.pods(job)[0], is_held=False)
    site.wait_for_grant(other, main=2)
    assert site.granted(job) == {}
    site.wait_for_condition(job, "QuotaReserved", status="False", reason="Inactive")

    site.change_workload(job, active=True)
    for pod in site.wait_for_running(other, 2):
        site.end(pod)
    site.wait_for_grant(job, main=2)
    site.wait_for_running(job, 2)
    assert site.suspensions(job) == [*ONCE_ADMITTED, *ONCE_ADMITTED]


@pytest.mark.accept("E20", part="a Job that is suspended or unsuspended by hand")
def test_only_admission_suspends_and_resumes_queued_jobs(site: Ground) -> None:
    queue = site.add_queue("1")
    runs = site.make_job("runs", queue)
    site.wait_for_grant(runs, main=1)
    site.wait_for_running(runs, 1)
    site.change("jobs", "runs", suspend=True)
    site.wait_for_event("Job", runs, "Resumed", f"set spec.active of Workload {name_of(site.workload(runs))} to false")
    site.wait_for_running(runs, 1)
    assert site.suspensions(runs) == [*ONCE_ADMITTED, *ONCE_ADMITTED]

    waits = site.make_job("waits", queue)
    site.wait_for_condition(waits, "QuotaReserved", status="False", reason="NoRoom")
    site.change("jobs", "waits", suspend=False)
    site.wait_for_event("Job", waits, "Suspended", "it waits for quota")
    waiting.eventually(lambda: site.get("jobs", "waits")["spec"]["suspend"])
    assert site.suspensions(waits) == [True, False, True]
    assert site.open_pods(waits) == []
    assert site.granted(waits) == {}


@pytest.mark.accept("E15", part="a Job is deleted and its pods are not")
@pytest.mark.accept("E20", part="pods that outlive their Job keep its quota, and gated ones are told")
def test_pods_that_outlive_their_job_keep_its_quota_and_gated_ones_never_run(site: Ground) -> None:
    queue = site.add_queue("2")
    job = site.make_job("job", queue, pods=2, completions=9)
    site.wait_for_grant(job, main=2)
    site.change("jobs", "job", parallelism=3)
    waiting.eventually(lambda: len(site.pods(job)) == 3)
    running = site.wait_for_running(job, 2)
    [gated] = [pod for pod in site.pods(job) if gates_of(pod)]
    other = site.make_job("other", queue)
    site.api.request("DELETE", site.path("jobs", "job"), {"propagationPolicy": "Orphan"}).required()
    waiting.eventually(lambda: not site.pods(job))  # nobody owns them
    site.await_handled()
    assert site.granted(other) == {}
    site.wait_for_usage(queue, usual="2")

    for pod in running:
        site.end(pod)
    site.wait_for_grant(other, main=1)
    site.wait_for_running(other, 1)
    site.wait_for_event("Pod", gated, "NeverAdmitted", "its gate sluice.dev/admission will not be opened")
    assert gates_of(site.get("pods", name_of(gated))) == {keys.ADMISSION_GATE}
    site.wait_for_usage(queue, usual="1")


@pytest.mark.accept("E20", part="queues that are deleted while they are used")
def test_queues_in_use_stay_until_nobody_uses_them_and_admit_nobody(site: Ground) -> None:
    queue = site.add_queue("2")
    job = site.make_job("job", queue)
    site.wait_for_grant(job, main=1)
    [pod] = site.wait_for_running(job, 1)
    paths = (f"{ground.CUSTOM}/clusterqueues/{queue}", site.path("localqueues", queue))
    waiting.eventually(lambda: all(site.api.get(path)["metadata"].get("finalizers") for path in paths))
    for path in paths:
        site.api.delete(path)
    late = site.make_job("late", queue)

    def users() -> list[str]:
        found = [each for path in paths for each in site.api.get(path).get("status", {}).get("conditions", ())]
        return [each["message"] for each in found if each["type"] == "InUse"]

    want = f"Workloads: {site.namespace}/{name_of(site.workload(job))}"
    waiting.eventually(lambda: users() == [want, want])
    site.wait_for_condition(late, "QuotaReserved", status="False", reason="LocalQueueBeingDeleted")
    assert site.granted(late) == {}

    site.end(pod)
    waiting.eventually(lambda: not any(site.api.request("GET", path).ok for path in paths))
    assert site.granted(late) == {}
