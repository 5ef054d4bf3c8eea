"""The stages of a job around its being admitted."""

from typing import Any

import pytest

from autoscaler.admission import decide
from autoscaler.admission.job_stages import lifecycle
from autoscaler.admission.jobs.port import Finished
from autoscaler.admission.state.job_state import JobState, Policy, Stage
from autoscaler.admission.writes import On, Step, Write
from autoscaler.api import keys
from autoscaler.control.writes import Verb
from tests.autoscaler.admission import builders, states

pytestmark = pytest.mark.accept("E14", part="when quota is given back")
NOW = builders.NOW
DONE = Finished(succeeded=True, message="")
FINALIZER = {"finalizers": [keys.FINALIZER]}


def decided(state: JobState) -> tuple[Write, ...]:
    return decide.decide(state, now=NOW, policy=Policy()).writes


def steps(state: JobState) -> list[Step]:
    return [each.step for each in decided(state)]


def says(write: Write) -> dict[str, tuple[str, str]]:
    """Return what a status says: status and reason of each condition."""
    return {each["type"]: (each["status"], each["reason"]) for each in write.body["conditions"]}


# Where a job stands


@pytest.mark.parametrize(
    ("of", "workload", "want"),
    [
        (None, None, Stage.UNKNOWN),
        (states.job(finished=DONE), None, Stage.UNKNOWN),
        (states.job(queue=None), None, Stage.UNKNOWN),
        (states.job(), None, Stage.NEW),
        (states.job(), builders.workload(), Stage.WAITING),
        (states.job(), builders.workload(granted=1), Stage.ADMITTED),
        (states.job(), builders.workload(granted=1, evicted=True), Stage.EVICTED),
        (states.job(), builders.workload(granted=1, deleted=True), Stage.EVICTED),
        (states.job(finished=DONE), builders.workload(granted=1, evicted=True), Stage.FINISHED),
        (None, builders.workload(granted=1), Stage.DEPARTING),
        (states.job(deleted=True), builders.workload(), Stage.DEPARTING),
        (states.job(queue=None), builders.workload(), Stage.DEPARTING),
        (states.job(left_alone="owned by RayJob x"), builders.workload(), Stage.DEPARTING),
        (states.job(finished=DONE, deleted=True), builders.workload(), Stage.DEPARTING),
    ],
)
def test_a_job_stands_where_it_and_its_workload_say(of: Any, workload: Any, want: Stage) -> None:
    assert states.state(of, workload).stage is want


# New and waiting


def test_a_new_job_gets_a_workload() -> None:
    (write,) = decided(states.state(states.job(3, suspended=True), priority=5))
    assert (write.step, write.verb, write.on) == (Step.CREATE, Verb.CREATE, On.WORKLOAD)
    metadata = write.body["metadata"]
    assert metadata["finalizers"] == [keys.FINALIZER]
    assert metadata["labels"] == {keys.JOB_UID: states.UID}
    assert metadata["annotations"] == {keys.QUEUED_AT: str(int(NOW - 100))}
    assert [each["uid"] for each in metadata["ownerReferences"]] == [states.UID]
    assert write.body["spec"] == {
        "queueName": "door",
        "priority": 5,
        "podSets": [{"name": "main", "count": 3, "requests": {"cpu": "1000m"}}],
    }


def test_a_new_job_that_runs_is_suspended_and_slices_of_an_earlier_workload_go() -> None:
    state = states.state(states.job(), orphans=[builders.slice_of(parent_uid="u-gone")])
    create, delete, suspend = decided(state)
    assert (create.step, delete.verb, suspend.on, suspend.body) == (
        Step.CREATE,
        Verb.DELETE,
        On.JOB,
        {"suspend": True},
    )


def test_a_job_that_cannot_be_queued_gets_no_workload_and_is_suspended() -> None:
    assert steps(states.state(states.job(problem="devices"))) == [Step.SUSPEND]
    assert steps(states.state(states.job(problem="devices", suspended=True))) == []


@pytest.mark.parametrize(
    ("of", "priority"),
    [
        (states.job(2, suspended=True), 0),
        (states.job(1, cpu=2, suspended=True), 0),
        (states.job(1, suspended=True, queue="other"), 0),
        (states.job(1, suspended=True, node_selector={"zone": "a"}), 0),
        (states.job({"main": 1, "more": 1}, suspended=True), 0),
        (states.job(1, suspended=True), 3),
    ],
    ids=["size", "requests", "queue", "nodes", "pod sets", "priority"],
)
def test_a_waiting_workload_follows_its_job(of: Any, priority: int) -> None:
    state = states.state(of, builders.workload(), priority=priority)
    (write,) = decided(state)
    assert (write.step, write.verb) == (Step.SPEC, Verb.PATCH)
    assert write.body["spec"]["queueName"] == of.queue
    assert write.body["spec"]["priority"] == priority
    assert [each["name"] for each in write.body["spec"]["podSets"]] == [each.name for each in of.pod_sets]
    assert not lifecycle.is_as_wanted(state)


def test_a_waiting_workload_that_is_as_its_job_is_left_alone() -> None:
    state = states.state(states.job(suspended=True), builders.workload())
    assert decided(state) == ()
    assert lifecycle.is_as_wanted(state)


def test_a_job_that_cannot_be_queued_gives_up_its_place() -> None:
    state = states.state(states.job(3, suspended=True, problem="devices"), builders.workload())
    assert [(each.step, each.verb) for each in decided(state)] == [(Step.RELEASE, Verb.DELETE)]


@pytest.mark.parametrize("of", [None, states.job(problem="devices", suspended=True)])
def test_what_has_no_job_or_a_problem_is_not_admitted(of: Any) -> None:
    assert not lifecycle.is_as_wanted(states.state(of, builders.workload()))


def test_a_waiting_job_that_was_resumed_by_hand_is_suspended_again_and_loses_its_slices() -> None:
    suspend, delete = decided(states.state(states.job(), builders.workload(), slices=[builders.slice_of()]))
    assert (suspend.on, suspend.body, delete.verb) == (On.JOB, {"suspend": True}, Verb.DELETE)
    assert suspend.event is not None
    assert (suspend.event.reason, suspend.event.is_warning) == ("Suspended", False)


# Admitted


@pytest.mark.parametrize("was_running", [False, True])
def test_an_admitted_job_is_resumed_and_who_suspended_it_is_told(was_running: bool) -> None:  # noqa: FBT001
    settled = builders.workload(granted=1, conditions=[builders.condition("PodsReady")])
    state = states.state(states.job(suspended=True), settled, was_running=was_running)
    (write,) = [each for each in decided(state) if each.step is Step.SUSPEND]
    assert write.body == {"suspend": False}
    assert (write.event is not None) is was_running
    if write.event is not None:
        assert "set spec.active of Workload a to false" in write.event.message
        assert write.event.is_warning


def test_an_admitted_job_that_runs_is_left_alone() -> None:
    settled = builders.workload(granted=1, conditions=[builders.condition("PodsReady")])
    assert decided(states.state(states.job(), settled, pods=states.pods(1))) == ()


# Evicted


@pytest.mark.parametrize(
    ("active", "want"), [(True, "it waits for quota"), (False, "spec.active of its Workload is false")]
)
def test_a_job_that_is_suspended_again_is_told_why(active: bool, want: str) -> None:  # noqa: FBT001
    (write,) = decided(states.state(states.job(), builders.workload(active=active)))
    assert write.why.endswith(want)


def test_an_evicted_job_is_suspended_first_and_keeps_its_quota() -> None:
    workload = builders.workload(granted=1, evicted=True)
    suspend, delete = decided(states.state(states.job(), workload, slices=[builders.slice_of()]))
    assert (suspend.step, delete.step) == (Step.SUSPEND, Step.SLICE)
    assert steps(states.state(states.job(), workload)) == [Step.SUSPEND]  # its quota comes back later


RECORDED = {"opened": [{"name": "main", "uids": ["u-p0"]}]}


@pytest.mark.parametrize(
    "more",
    [
        {"pods": states.pods(1)},
        {"pods": states.pods(1, ends_in=20)},
        {"pods": states.pods(1, gated=True), "workload": builders.workload(granted=1, evicted=True, status=RECORDED)},
        {"slices": [builders.slice_of(deleted=True)]},
        {"orphans": [builders.slice_of(deleted=True)]},
    ],
    ids=["open", "ends", "recorded", "a slice", "a slice of an earlier Workload"],
)
def test_an_evicted_job_keeps_its_quota_while_anything_of_it_is_left(more: dict[str, Any]) -> None:
    workload = more.pop("workload", builders.workload(granted=1, evicted=True))
    assert decided(states.state(states.job(suspended=True), workload, **more)) == ()


def test_an_evicted_job_gives_its_quota_back_when_nothing_of_it_is_left() -> None:
    workload = builders.workload(granted=1, evicted=True, conditions=[builders.condition("ResizeRequested")])
    (write,) = decided(states.state(states.job(suspended=True), workload, pods=states.pods(1, gated=True)))
    assert (write.step, write.verb) == (Step.RELEASE, Verb.PATCH_STATUS)
    cleared = {"admission", "claim", "opened", "withdrawn", "foldedSlices", "position", "estimatedWaitSeconds"}
    assert {key for key, value in write.body.items() if value is None} == cleared
    said = says(write)
    assert {said[each][0] for each in ("QuotaReserved", "Admitted", "Evicted", "ResizeRequested")} == {"False"}
    assert said["Evicted"] == ("False", "Because")
    assert said["Admitted"] == ("False", "Evicted")
    assert "firstAdmitted" not in write.body


def test_a_job_that_was_evicted_says_why_and_nothing_of_a_resize_that_never_was() -> None:
    told = {**builders.condition("Evicted"), "message": "makes room"}
    (write,) = decided(states.state(states.job(suspended=True), builders.workload(granted=1, conditions=[told])))
    messages = {each["type"]: each["message"] for each in write.body["conditions"]}
    assert messages == {
        "QuotaReserved": "evicted: makes room",
        "Admitted": "evicted: makes room",
        "PodsReady": "evicted: makes room",
        "Evicted": "its pods are gone: makes room",
    }


def test_a_workload_that_is_being_deleted_is_let_go_when_nothing_is_left() -> None:
    workload = builders.workload(granted=1, deleted=True)
    (write,) = decided(states.state(states.job(suspended=True), workload))
    assert write.body == {"metadata": {"finalizers": None}}


# Finished


@pytest.mark.parametrize(
    ("finished", "want"),
    [(Finished(succeeded=True, message=""), "Succeeded"), (Finished(succeeded=False, message="no"), "Failed")],
)
def test_a_finished_job_gives_its_quota_back(finished: Finished, want: str) -> None:
    (write,) = decided(states.state(states.job(finished=finished), builders.workload(granted=1)))
    assert says(write)["Finished"] == ("True", want)
    assert write.body["admission"] is None


@pytest.mark.parametrize(
    ("finished", "want"),
    [
        (Finished(succeeded=True, message=""), "the job completed"),
        (Finished(succeeded=False, message=""), "the job failed"),
        (Finished(succeeded=False, message="too late"), "too late"),
    ],
)
def test_a_job_that_finished_while_it_waited_says_so(finished: Finished, want: str) -> None:
    (write,) = decided(states.state(states.job(finished=finished), builders.workload()))
    assert {each["type"]: each["message"] for each in write.body["conditions"]}["Finished"] == want


def test_a_finished_job_keeps_its_quota_while_a_pod_runs_and_slices_go_first() -> None:
    workload = builders.workload(granted=1)
    assert decided(states.state(states.job(finished=DONE), workload, pods=states.pods(1))) == ()
    (write,) = decided(states.state(states.job(finished=DONE), workload, slices=[builders.slice_of()]))
    assert write.step is Step.TELL
    assert says(write)["Finished"] == ("True", "Succeeded")
    said = builders.workload(granted=1, finished=True)
    assert steps(states.state(states.job(finished=DONE), said, slices=[builders.slice_of()])) == [Step.SLICE]
    assert decided(states.state(states.job(finished=DONE), said, slices=[builders.slice_of(deleted=True)])) == ()


def test_a_job_is_said_to_have_finished_once() -> None:
    assert decided(states.state(states.job(finished=DONE), builders.workload(finished=True))) == ()


# Gone


def test_the_workload_of_a_job_that_is_gone_is_deleted_then_let_go() -> None:
    (write,) = decided(states.state(None, builders.workload(granted=1, meta=FINALIZER)))
    assert (write.step, write.verb) == (Step.RELEASE, Verb.DELETE)
    (write,) = decided(states.state(None, builders.workload(granted=1, deleted=True)))
    assert (write.verb, write.body) == (Verb.PATCH, {"metadata": {"finalizers": None}})


def test_finalizers_of_others_stay() -> None:
    manifest = builders.workload_manifest(deleted=True)
    manifest["metadata"]["finalizers"] = [keys.FINALIZER, "example.com/theirs"]
    (write,) = decided(states.state(None, builders.decoded(manifest)))
    assert write.body == {"metadata": {"finalizers": ["example.com/theirs"]}}


def test_a_job_that_is_gone_keeps_its_quota_while_a_pod_runs() -> None:
    state = states.state(None, builders.workload(granted=1, deleted=True), pods=states.pods(1))
    assert decided(state) == ()
    assert decide.decide(state, now=NOW, policy=Policy()).wake_at is None
    ends = states.state(None, builders.workload(granted=1), pods=states.pods(1, ends_in=15))
    assert decide.decide(ends, now=NOW, policy=Policy()).wake_at == NOW + 15


def test_slices_of_a_job_that_is_gone_go_once_its_workload_is_being_deleted() -> None:
    state = states.state(None, builders.workload(granted=1), slices=[builders.slice_of()], pods=states.pods(1))
    assert steps(state) == [Step.RELEASE]
    leaving = builders.workload(granted=1, deleted=True)
    assert steps(states.state(None, leaving, slices=[builders.slice_of()], pods=states.pods(1))) == [Step.SLICE]
    assert steps(states.state(None, leaving, slices=[builders.slice_of(deleted=True)])) == []


def test_gated_pods_on_record_of_a_job_that_is_gone_are_touched_and_then_taken_off() -> None:
    opened = {"opened": [{"name": "main", "uids": ["u-p0", "u-p1"]}]}
    workload = builders.workload(count=2, granted=2, status=opened, deleted=True)
    pods = [states.pod("p0", gated=True, rv=7), states.pod("p1"), states.pod("p2", gated=True)]
    (touch,) = decided(states.state(None, workload, pods=pods))
    assert (touch.step, touch.uid, touch.resource_version) == (Step.TOUCH, "u-p0", 7)
    assert touch.body == {"metadata": {"annotations": {keys.NOT_OPENED: "its job is gone (as of version 7)"}}}
    (write,) = decided(states.state(None, workload, pods=pods, touched=["u-p0"]))
    assert (write.step, write.body) == (Step.RECORD, {"opened": [{"name": "main", "uids": ["u-p1"]}]})
    alone = builders.workload(granted=1, status={"opened": [{"name": "main", "uids": ["u-p0"]}]}, deleted=True)
    (write,) = decided(states.state(None, alone, pods=pods, touched=["u-p0"]))
    assert write.body == {"opened": None}


def test_of_a_job_that_was_never_seen_only_slices_are_deleted() -> None:
    assert decided(states.state(None, pods=states.pods(1))) == ()
    assert steps(states.state(None, orphans=[builders.slice_of()])) == [Step.SLICE]
