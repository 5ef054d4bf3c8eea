"""Which gates are opened, and which pods are taken back."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.admission.job_stages import grants, ungating
from autoscaler.admission.job_stages.grants import Draft
from autoscaler.admission.state.job_state import JobState, Policy
from autoscaler.admission.writes import Step
from autoscaler.api import keys
from autoscaler.api.resources.workloads import OPENED_MAX
from autoscaler.control.writes import Verb
from autoscaler.kube import objects
from tests.autoscaler.admission import builders, states

pytestmark = pytest.mark.accept("E7", part="which gates are opened, and in which order")
NOW = builders.NOW
POLICY = Policy(pods_ready_timeout_seconds=1800.0)
READY = [builders.condition("PodsReady")]


def record(state: JobState) -> Draft:
    return ungating.record(state, grants.draft(state), NOW, POLICY)


def recorded(*names: str) -> dict[str, Any]:
    return {"opened": [{"name": "main", "uids": list(states.uids(names))}]}


def withdrawn(*names: str) -> dict[str, Any]:
    return {"withdrawn": [{"name": "main", "uids": list(states.uids(names))}]}


# What is recorded


@pytest.mark.parametrize(
    ("size", "granted", "open_pods", "want"),
    [(5, 3, 1, 2), (2, 3, 1, 1), (5, 3, 3, 0), (5, 3, 4, 0), (5, 0, 0, 0)],
    ids=["granted", "wanted", "all are open", "too many are open", "none"],
)
def test_as_many_are_recorded_as_are_granted_and_wanted(size: int, granted: int, open_pods: int, want: int) -> None:
    pods = [*states.pods(open_pods), *states.pods(9, first=10, gated=True)]
    state = states.state(states.job(size), builders.workload(count=9, granted=granted), pods=pods)
    draft = grants.draft(states.state(states.job(9), state.workload, pods=pods))
    found = ungating.record(state, draft, NOW, POLICY).opened["main"]
    assert found == states.uids(f"p{number}" for number in range(10, 10 + want))


def test_pods_that_are_being_deleted_keep_their_places() -> None:
    pods = [states.pod("old", ends_in=10), states.pod("new", gated=True)]
    state = states.state(states.job(1), builders.workload(granted=1), pods=pods)
    assert record(state).opened["main"] == ()


@pytest.mark.parametrize(
    ("ends_in", "lost", "want"),
    [(-1, ("node",), 1), (1, ("node",), 0), (-1, ("other",), 0)],
    ids=["its time is over", "its time is not over", "its node is there"],
)
def test_pods_of_lost_nodes_keep_their_places_until_their_time_is_over(ends_in: float, lost: Any, want: int) -> None:
    pods = [states.pod("old", ends_in=ends_in), states.pod("new", gated=True)]
    state = states.state(states.job(1), builders.workload(granted=1), pods=pods, lost_nodes=lost)
    assert len(record(state).opened["main"]) == want


def test_pods_that_succeeded_or_failed_have_no_place() -> None:
    pods = [states.pod("p0", phase="Succeeded"), states.pod("p1", phase="Failed"), states.pod("p2", gated=True)]
    state = states.state(states.job(1), builders.workload(granted=1), pods=pods)
    assert record(state).opened["main"] == ("u-p2",)


def test_recorded_pods_keep_their_places_until_they_are_open_or_gone() -> None:
    workload = builders.workload(count=3, granted=3, status=recorded("p0", "p1", "gone"))
    pods = [states.pod("p0", gated=True), states.pod("p1"), *states.pods(3, first=2, gated=True)]
    state = states.state(states.job(3), workload, pods=pods)
    assert record(state).opened["main"] == ("u-p0", "u-p2")


def test_so_many_are_on_record_at_most() -> None:
    workload = builders.workload(count=2000, granted=2000, status=recorded("p0"))
    state = states.state(states.job(2000), workload, pods=states.pods(700, gated=True))
    assert len(record(state).opened["main"]) == OPENED_MAX


def test_nothing_is_recorded_for_a_pod_set_while_pods_of_it_are_withdrawn() -> None:
    workload = builders.workload(count=3, granted=3, conditions=READY, status={**recorded("p0"), **withdrawn("late")})
    late = states.pod("late", phase="Pending")
    state = states.state(states.job(3), workload, pods=[late, *states.pods(2, gated=True)])
    assert record(state).opened["main"] == ("u-p0",)


def test_a_pod_that_is_refused_for_good_leaves_the_record_once_it_was_touched() -> None:
    workload = builders.workload(granted=1, status=recorded("p0"))
    there: dict[str, Any] = {"pods": states.pods(2, gated=True), "refused": ["u-p0"]}
    assert record(states.state(states.job(1), workload, **there)).opened["main"] == ("u-p0",)
    assert record(states.state(states.job(1), workload, **there, touched=["u-p0"])).opened["main"] == ()
    only_touched = states.state(states.job(1), workload, pods=states.pods(2, gated=True), touched=["u-p0"])
    assert record(only_touched).opened["main"] == ("u-p0",)
    cleared = builders.workload(granted=1)
    assert record(states.state(states.job(1), cleared, **there)).opened["main"] == ("u-p1",)


# In which order


@given(st.permutations(range(12)))
def test_the_lowest_index_comes_first_by_number(order: list[int]) -> None:
    pods = [states.pod(f"p-{number}", gated=True, index=number, age=float(number)) for number in order]
    assert _order(pods) == [f"p-{number}" for number in range(12)]


@given(st.permutations(range(12)))
def test_the_oldest_comes_first_and_of_one_age_the_lowest_number(order: list[int]) -> None:
    pods = [states.pod(f"p-{number}", gated=True, age=20.0 if number < 3 else 10.0) for number in order]
    assert _order(pods) == [f"p-{number}" for number in range(12)]


@pytest.mark.accept("E21", part="places are given in the order in which a shrink would spare them")
def test_the_index_counts_before_age_and_age_before_the_name() -> None:
    indexed = [states.pod(f"p-{9 - number}", gated=True, index=number, age=number) for number in (2, 0, 10, 1)]
    assert _order(indexed) == ["p-9", "p-8", "p-7", "p--1"]
    plain = [states.pod(f"p-{number}", gated=True, age=number) for number in (2, 10, 1)]
    assert _order(plain) == ["p-10", "p-2", "p-1"]
    named = [states.pod(name, gated=True) for name in ("b-2", "a-10", "a-2", "b-1")]
    assert _order(named) == ["a-2", "a-10", "b-1", "b-2"]


def _order(pods: list[objects.Pod]) -> list[str]:
    state = states.state(states.job(1), pods=pods)
    return [each.meta.key.name for each in ungating.spared_first(state, pods)]


# Opening


def test_recorded_gates_are_opened_with_flavor_and_stamps() -> None:
    tolerated = {"key": "spot", "operator": "Exists"}
    flavors: dict[str, Any] = {
        "spot": {"nodeLabels": {"kind": "spot"}, "tolerations": [tolerated]},
        "unused": {"nodeLabels": {"k": "x"}},
    }
    workload = builders.workload(count=2, granted=2, status=recorded("p0", "p1"))
    pods = [
        states.pod("p0", gated=True, gates=["example.com/other"], rv=7),
        states.pod("p1"),
        states.pod("p2", gated=True),
    ]
    (write,) = ungating.pods(states.state(states.job(2), workload, pods=pods, flavors=flavors), NOW)
    assert (write.step, write.verb, write.uid, write.resource_version) == (Step.OPEN, Verb.PATCH, "u-p0", 7)
    assert write.body["spec"] == {
        "schedulingGates": [{"name": "example.com/other"}],
        "nodeSelector": {"kind": "spot"},
        "tolerations": [tolerated],
    }
    assert write.body["metadata"]["annotations"] == {
        keys.JOB_UID: states.UID,
        keys.POD_SET: "main",
        keys.CLUSTER_QUEUE: "team",
        keys.FLAVORS: "cpu=spot",
        keys.OPENED_AT: str(int(NOW)),
    }


def test_pods_of_several_flavors_tolerate_what_each_of_them_does_in_order() -> None:
    keyed = [{"key": name, "operator": "Exists"} for name in ("disk", "gpu", "spot")]
    flavors: dict[str, Any] = {each["key"]: {"tolerations": [each]} for each in reversed(keyed)}
    chosen = {"cpu": "spot", "memory": "gpu", "storage": "disk"}
    workload = builders.workload(granted=1, flavors=chosen, status=recorded("p0"))
    state = states.state(states.job(1), workload, pods=states.pods(1, gated=True), flavors=flavors)
    (write,) = ungating.pods(state, NOW)
    assert write.body["spec"]["tolerations"] == keyed


def test_the_last_gate_is_taken_off_whole() -> None:
    workload = builders.workload(granted=1, status=recorded("p0"))
    (write,) = ungating.pods(states.state(states.job(1), workload, pods=states.pods(1, gated=True)), NOW)
    assert write.body["spec"] == {"schedulingGates": None}


def test_a_pod_that_is_refused_for_good_is_touched_and_told() -> None:
    workload = builders.workload(granted=1, status=recorded("p0"))
    state = states.state(states.job(1), workload, pods=states.pods(1, gated=True), refused=["u-p0"])
    (write,) = ungating.pods(state, NOW)
    assert write.step is Step.TOUCH
    assert write.event is not None
    assert (write.event.reason, write.event.is_warning) == ("GateNotOpened", True)
    assert "schedulingGates" not in write.body.get("spec", {})


# Pods of a growth that do not start


def late(name: str, **more: Any) -> objects.Pod:
    return states.pod(name, phase="Pending", **{"opened_ago": 1801, "age": 9000, **more})


def test_pods_that_did_not_start_in_time_are_withdrawn_and_then_deleted() -> None:
    workload = builders.workload(count=2, granted=2, conditions=READY)
    pods = [states.pod("p0"), late("p1")]
    assert record(states.state(states.job(2), workload, pods=pods)).withdrawn["main"] == ("u-p1",)
    noted = builders.workload(count=2, granted=2, conditions=READY, status=withdrawn("p1"))
    (write,) = ungating.pods(states.state(states.job(2), noted, pods=pods), NOW)
    assert (write.step, write.verb, write.uid) == (Step.WITHDRAW, Verb.DELETE, "u-p1")
    assert write.resource_version is not None


@pytest.mark.parametrize(
    ("pod", "conditions"),
    [
        (late("p1", opened_ago=1799), READY),
        (states.pod("p1", opened_ago=9000), READY),
        (late("p1", ends_in=20), READY),
        (late("p1"), []),
    ],
    ids=["not late", "started", "ends already", "the job was never ready"],
)
def test_others_are_not_withdrawn(pod: objects.Pod, conditions: Any) -> None:
    workload = builders.workload(count=2, granted=2, conditions=conditions)
    assert not any(record(states.state(states.job(2), workload, pods=[states.pod("p0"), pod])).withdrawn.values())


def test_quota_of_a_withdrawn_pod_is_given_back_once_it_is_being_deleted() -> None:
    workload = builders.workload(count=3, granted=3, conditions=READY, status=withdrawn("p1", "p2"))
    there = states.state(states.job(3), workload, pods=[states.pod("p0"), late("p1"), late("p2")])
    assert (record(there).granted("main"), record(there).requeue) == (3, None)
    going = states.state(states.job(3), workload, pods=[states.pod("p0"), late("p1", ends_in=20), late("p2")])
    draft = record(going)
    assert (draft.granted("main"), draft.withdrawn["main"]) == (2, ("u-p2",))
    assert draft.requeue is not None
    assert (draft.requeue.count, draft.requeue.at) == (1, NOW + 60)


def test_quota_is_lowered_by_those_that_are_gone_and_never_raised() -> None:
    workload = builders.workload(count=3, granted=3, conditions=READY, status=withdrawn("gone"))
    assert record(states.state(states.job(3), workload, pods=states.pods(1))).granted("main") == 2
    fewer = builders.workload(count=3, granted=2, conditions=READY, status=withdrawn("gone"))
    assert record(states.state(states.job(3), fewer, pods=states.pods(3))).granted("main") == 2
    assert ungating.pods(states.state(states.job(3), workload, pods=states.pods(1)), NOW) == ()


def test_so_many_are_withdrawn_at_once_at_most_and_in_order() -> None:
    workload = builders.workload(count=600, granted=600, conditions=READY, status=withdrawn("p599"))
    pods = [late(f"p{number}", opened_ago=1800) for number in reversed(range(600))]
    found = record(states.state(states.job(600), workload, pods=pods)).withdrawn["main"]
    assert (len(found), found[0]) == (OPENED_MAX, "u-p599")
    assert list(found[1:]) == sorted(found[1:])


def test_quota_of_pods_that_run_is_not_given_back_for_withdrawn_ones() -> None:
    workload = builders.workload(count=2, granted=2, conditions=READY, status=withdrawn("gone"))
    draft = record(states.state(states.job(2), workload, pods=states.pods(2)))
    assert draft.granted("main") == 2


def test_the_next_pause_is_longer() -> None:
    requeue = {"count": 3, "at": builders.time(100), "flavorsTried": ["spot"]}
    status = {**withdrawn("gone"), "requeue": requeue}
    workload = builders.workload(count=2, granted=2, conditions=READY, status=status)
    found = record(states.state(states.job(2), workload, pods=states.pods(1))).requeue
    assert found is not None
    assert (found.count, found.at, found.flavors_tried) == (4, NOW + 480, ("spot",))


@pytest.mark.parametrize(
    ("ago", "size", "ready", "is_forgotten"),
    [(10, 1, True, True), (0, 1, True, True), (-10, 1, True, False), (10, 2, True, False), (10, 1, False, False)],
    ids=["over and whole", "just over", "it rests", "it is not whole", "not ready"],
)
def test_failed_attempts_are_forgotten_once_all_pods_have_started(
    ago: float,
    size: int,
    ready: bool,  # noqa: FBT001
    is_forgotten: bool,  # noqa: FBT001
) -> None:
    requeue = {"requeue": {"count": 1, "at": builders.time(ago)}}
    workload = builders.workload(count=size, granted=1, conditions=READY, status=requeue)
    state = states.state(states.job(size), workload, pods=[states.pod("p0", ready=ready)])
    assert (record(state).requeue is None) is is_forgotten


def test_failed_attempts_are_remembered_while_one_pod_set_is_not_whole() -> None:
    sets = [builders.pod_set("main", 1), builders.pod_set("more", 2)]
    requeue = {"requeue": {"count": 1, "at": builders.time(10)}}
    workload = builders.workload(pod_sets=sets, granted={"main": 1, "more": 1}, conditions=READY, status=requeue)
    pods = [states.pod("p0"), states.pod("p1", set_name="more")]
    assert record(states.state(states.job({"main": 1, "more": 2}), workload, pods=pods)).requeue is not None


# When time alone changes something


@pytest.mark.parametrize("opened_ago", [1800, 1801])
def test_it_does_not_wake_for_what_is_over(opened_ago: float) -> None:
    rests = builders.workload(granted=1, conditions=READY, status={"requeue": {"count": 1, "at": builders.time(-40)}})
    state = states.state(states.job(1), rests, pods=[late("p0", opened_ago=opened_ago)])
    assert ungating.wake_at(state, NOW, POLICY) == NOW + 40


def test_it_wakes_for_the_first_pod_that_may_be_late() -> None:
    workload = builders.workload(count=2, granted=2, conditions=READY)
    pods = [late("p0", opened_ago=100), late("p1", opened_ago=500)]
    assert ungating.wake_at(states.state(states.job(2), workload, pods=pods), NOW, POLICY) == NOW + 1300


def test_it_wakes_when_a_job_should_have_started_and_when_growth_has_rested() -> None:
    workload = builders.workload(granted=1, admitted_ago=300)
    assert ungating.wake_at(states.state(states.job(1), workload), NOW, POLICY) == NOW + 1500
    rests = builders.workload(granted=1, conditions=READY, status={"requeue": {"count": 1, "at": builders.time(-40)}})
    assert ungating.wake_at(states.state(states.job(1), rests), NOW, POLICY) == NOW + 40
    settled = builders.workload(granted=1, conditions=READY)
    assert ungating.wake_at(states.state(states.job(1), settled, pods=states.pods(1)), NOW, POLICY) is None


def test_it_looks_again_for_pods_whose_node_may_be_lost() -> None:
    workload = builders.workload(granted=1, conditions=READY)
    state = states.state(states.job(1), workload, pods=[states.pod("p0", ends_in=25)])
    assert ungating.wake_at(state, NOW, POLICY) == NOW + 25
    over = states.state(states.job(1), workload, pods=[states.pod("p0", ends_in=-25)])
    assert ungating.wake_at(over, NOW, POLICY) == NOW + 10
