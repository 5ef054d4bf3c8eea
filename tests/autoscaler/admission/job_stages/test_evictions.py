"""When an admitted job must give its quota back for a reason of its own."""

from typing import Any

import pytest

from autoscaler.admission import decide
from autoscaler.admission.job_stages import evictions
from autoscaler.admission.state.job_state import JobState, Policy
from autoscaler.admission.writes import Step
from autoscaler.api.resources.workloads import FLAVORS_TRIED_MAX
from tests.autoscaler.admission import builders, states

pytestmark = pytest.mark.accept("E18", part="when a job must give its quota back, and how it is told")
NOW = builders.NOW
POLICY = Policy(pods_ready_timeout_seconds=600.0)
READY = [builders.condition("PodsReady")]


def reason(state: JobState, policy: Policy = POLICY) -> str | None:
    found = evictions.due(state, NOW, policy)
    return found.reason if found is not None else None


def test_nothing_is_due_for_a_job_that_is_as_it_was_admitted() -> None:
    assert reason(states.state(states.job(), builders.workload(granted=1), pods=states.pods(1))) is None


@pytest.mark.parametrize(
    ("of", "workload", "want"),
    [
        (states.job(), builders.workload(granted=1, active=False), "Deactivated"),
        (states.job(queue="other"), builders.workload(granted=1), "QueueChanged"),
        (states.job(cpu=2), builders.workload(granted=1), "PodTemplateChanged"),
        (states.job(node_selector={"zone": "a"}), builders.workload(granted=1), "PodTemplateChanged"),
    ],
)
def test_a_job_that_is_not_as_it_was_admitted_is_evicted(of: Any, workload: Any, want: str) -> None:
    state = states.state(of, workload, pods=states.pods(1))
    assert reason(state) == want
    (write,) = decide.decide(state, now=NOW, policy=POLICY).writes
    assert write.step is Step.EVICT
    assert set(write.body) == {"conditions"}  # nothing else is changed meanwhile
    (said,) = [each for each in write.body["conditions"] if each["type"] == "Evicted"]
    assert (said["status"], said["reason"]) == ("True", want)
    assert write.event is not None
    assert write.event.is_warning


def test_an_admitted_job_that_could_not_be_queued_as_it_is_now_runs_on() -> None:
    state = states.state(states.job(problem="devices"), builders.workload(granted=1), pods=states.pods(1))
    assert reason(state) is None


def test_the_template_of_a_pod_set_without_quota_may_change() -> None:
    sets = [builders.pod_set("main", 1), builders.pod_set("more", 1, cpu=5)]
    workload = builders.workload(pod_sets=sets, granted={"main": 1})
    assert reason(states.state(states.job({"main": 1, "more": 1}), workload, pods=states.pods(1))) is None


@pytest.mark.parametrize(("size", "elastic", "want"), [(2, False, "Resized"), (1, False, None), (2, True, None)])
def test_growth_evicts_only_where_jobs_are_not_elastic(size: int, elastic: bool, want: str | None) -> None:  # noqa: FBT001
    policy = Policy(elastic=elastic, pods_ready_timeout_seconds=600.0)
    state = states.state(states.job(size), builders.workload(count=size, granted=1), pods=states.pods(1))
    assert reason(state, policy) == want
    if want:
        (write,) = decide.decide(state, now=NOW, policy=policy).writes
        assert write.body["firstAdmitted"] is None  # it waits for its whole size


def test_growth_of_one_pod_set_is_growth() -> None:
    sets = [builders.pod_set("main", 1), builders.pod_set("more", 2)]
    workload = builders.workload(pod_sets=sets, granted={"main": 1, "more": 1})
    state = states.state(states.job({"main": 1, "more": 2}), workload, pods=states.pods(1))
    assert reason(state, Policy(elastic=False, pods_ready_timeout_seconds=600.0)) == "Resized"


# Pods that do not start


def unstarted(*, admitted_ago: float = 700, pods: Any = (), **more: Any) -> JobState:
    workload = builders.workload(count=2, granted=2, admitted_ago=admitted_ago, **more)
    return states.state(states.job(2), workload, pods=pods)


PENDING = states.pod("p0", phase="Pending", opened_ago=700, age=9000)


@pytest.mark.parametrize(
    ("state", "want"),
    [
        (unstarted(pods=[PENDING]), "PodsReadyTimeout"),
        (unstarted(), "PodsReadyTimeout"),
        (unstarted(pods=[states.pod("p0", phase="Pending", age=700)]), "PodsReadyTimeout"),
        (unstarted(pods=[states.pod("p0", phase="Pending", opened_ago=600)], admitted_ago=600), "PodsReadyTimeout"),
        (unstarted(pods=[PENDING], admitted_ago=599), None),
        (unstarted(pods=[PENDING], conditions=READY), None),
        (unstarted(pods=[states.pod("p0", phase="Pending", opened_ago=500)]), None),
        (unstarted(pods=[states.pod("p0", ready=False)]), None),
        (unstarted(pods=[states.pod("p0", phase="Pending", opened_ago=700, ends_in=20)]), None),
    ],
    ids=[
        "late",
        "no pods",
        "never gated",
        "just late",
        "admitted lately",
        "ready once",
        "opened lately",
        "started",
        "ends",
    ],
)
def test_a_job_whose_pods_did_not_start_in_time_is_evicted(state: JobState, want: str | None) -> None:
    assert reason(state) == want


def test_a_job_of_no_pods_is_not_evicted() -> None:
    workload = builders.workload(count=0, granted=0, admitted_ago=700)
    assert reason(states.state(states.job(0), workload)) is None


def test_it_is_tried_again_later_on_another_flavor() -> None:
    before = {"requeue": {"count": 2, "at": builders.time(900), "flavorsTried": ["other"]}}
    (write,) = decide.decide(unstarted(pods=[PENDING], status=before), now=NOW, policy=POLICY).writes
    assert write.body["requeue"] == {
        "count": 3,
        "at": builders.time(-240),
        "flavorsTried": ["other", "spot"],
    }
    assert "2 pods" not in write.why
    assert "within 10 minutes: 1 of its pods wait, such as p0" in write.why


def test_the_first_attempt_that_fails_is_noted_and_the_first_late_pod_named() -> None:
    pods = [states.pod(name, phase="Pending", opened_ago=9000) for name in ("p1", "p0")]
    policy = Policy(pods_ready_timeout_seconds=7200.0)
    (write,) = decide.decide(unstarted(pods=pods, admitted_ago=9000), now=NOW, policy=policy).writes
    assert write.body["requeue"] == {"count": 1, "at": builders.time(-60), "flavorsTried": ["spot"]}
    assert write.why == "its pods did not start within 120 minutes: 2 of its pods wait, such as p0"


def test_so_many_flavors_are_remembered_at_most() -> None:
    tried = [f"f{number}" for number in range(FLAVORS_TRIED_MAX)]
    before = {"requeue": {"count": 1, "at": builders.time(900), "flavorsTried": tried}}
    (write,) = decide.decide(unstarted(pods=[PENDING], status=before), now=NOW, policy=POLICY).writes
    assert len(write.body["requeue"]["flavorsTried"]) == FLAVORS_TRIED_MAX


def test_pauses_grow_to_an_hour() -> None:
    assert [evictions.REQUEUE.pause(count) for count in (1, 2, 7, 20)] == [60.0, 120.0, 3600.0, 3600.0]
