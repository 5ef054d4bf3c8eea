"""What an admitted job's Workload should say."""

from dataclasses import replace
from typing import Any

import pytest

from autoscaler.admission.job_stages import grants
from autoscaler.admission.workloads.workload import Requeue
from autoscaler.admission.writes import Step, Write
from autoscaler.api.resources.workloads import FOLDED_MAX
from autoscaler.control.writes import Verb
from tests.autoscaler.admission import builders, states

pytestmark = pytest.mark.accept("E8", part="what the ledger of an admitted job should say")
NOW = builders.NOW


def granted(write: Write) -> dict[str, int]:
    return {each["name"]: each["count"] for each in write.body["admission"]["podSetAssignments"]}


def written(state: Any) -> list[Write]:
    return list(grants.write(state, grants.draft(state), NOW))


# Shrinking


@pytest.mark.parametrize(
    ("size", "open_pods", "want"),
    [(2, 2, 2), (2, 5, 5), (2, 3, 3), (0, 0, 0), (5, 1, 5)],
    ids=["pods are gone", "all run on", "some run on", "nothing is wanted", "it did not shrink"],
)
def test_a_shrink_lowers_to_what_is_wanted_or_runs_on(size: int, open_pods: int, want: int) -> None:
    state = states.state(states.job(size), builders.workload(count=5, granted=5), pods=states.pods(open_pods))
    assert grants.draft(state).granted("main") == want


def test_pods_that_are_being_deleted_do_not_hold_back_a_shrink() -> None:
    pods = [*states.pods(2), *states.pods(3, first=2, ends_in=20)]
    state = states.state(states.job(2), builders.workload(count=5, granted=5), pods=pods)
    assert grants.draft(state).granted("main") == 2


def test_recorded_pods_hold_back_a_shrink_and_gated_ones_do_not() -> None:
    recorded = {"opened": [{"name": "main", "uids": ["u-p0", "u-gone"]}]}
    workload = builders.workload(count=3, granted=3, status=recorded)
    state = states.state(states.job(0), workload, pods=states.pods(3, gated=True))
    assert grants.draft(state).granted("main") == 1


def test_the_spec_is_lowered_after_what_is_granted() -> None:
    state = states.state(states.job(2), builders.workload(count=5, granted=5), pods=states.pods(2))
    (first,) = written(state)
    assert (first.step, first.verb, granted(first)) == (Step.SHRINK, Verb.PATCH_STATUS, {"main": 2})
    workload = builders.workload(count=5, granted=2, conditions=[builders.condition("PodsReady")])
    (second,) = written(states.state(states.job(2), workload, pods=states.pods(2)))
    assert (second.step, second.verb) == (Step.SPEC, Verb.PATCH)
    assert [each["count"] for each in second.body["spec"]["podSets"]] == [2]


def test_the_spec_stays_at_what_is_granted_while_pods_run_on() -> None:
    ready = builders.condition("PodsReady")
    state = states.state(states.job(2), builders.workload(count=5, granted=4, conditions=[ready]), pods=states.pods(4))
    (tell,) = written(state)
    assert tell.step is Step.TELL
    (message,) = [each["message"] for each in tell.body["conditions"] if each["type"] == "ResizeRequested"]
    assert message == "main: 2 more than the job wants keep quota until as many pods are deleted (4 run now)"
    told = {**builders.condition("ResizeRequested", reason="ScalingDown"), "message": message}
    workload = builders.workload(count=5, granted=4, conditions=[ready, told])
    (write,) = written(states.state(states.job(2), workload, pods=states.pods(4)))
    assert [each["count"] for each in write.body["spec"]["podSets"]] == [4]


def test_a_pod_set_that_the_job_has_no_more_leaves_the_spec_once_it_has_no_quota() -> None:
    def spec(old: int, message: str) -> list[tuple[str, int]]:
        resize = {**builders.condition("ResizeRequested", reason="ScalingDown"), "message": message}
        workload = builders.workload(
            pod_sets=[builders.pod_set("main", 2), builders.pod_set("old", 1)],
            granted={"main": 1, **({"old": old} if old else {})},
            conditions=[builders.condition("PodsReady"), *([resize] if message else [])],
        )
        pods = [states.pod("p0"), *([states.pod("p1", set_name="old")] if old else [])]
        (write,) = written(states.state(states.job(1), workload, pods=pods))
        assert write.step is Step.SPEC
        return [(each["name"], each["count"]) for each in write.body["spec"]["podSets"]]

    message = "old: 1 more than the job wants keeps quota until as many pods are deleted (1 run now)"
    assert spec(1, message) == [("main", 1), ("old", 1)]
    assert spec(0, "") == [("main", 1)]


@pytest.mark.parametrize(
    ("size", "more", "want"),
    [
        ({"main": 1}, {}, ["main"]),
        ({"main": 1, "old": 0}, {}, ["main", "old"]),
        ({"main": 1}, {"withdrawn": [{"name": "old", "uids": ["u-p1"]}]}, ["main", "old"]),
        ({"main": 1}, {"opened": [{"name": "old", "uids": ["u-p1"]}]}, ["main", "old"]),
    ],
    ids=["it is gone", "the job still has it", "a pod is withdrawn", "a pod is on record"],
)
def test_what_was_granted_to_a_pod_set_is_forgotten_once_nothing_of_it_is_left(
    size: dict[str, int], more: dict[str, Any], want: list[str]
) -> None:
    workload = builders.workload(
        pod_sets=[builders.pod_set("main", 1), builders.pod_set("old", 1)],
        granted={"main": 1, "old": 1},
        conditions=[builders.condition("PodsReady")],
        status=more,
    )
    pods = [states.pod("p0"), states.pod("p1", set_name="old", ends_in=10)]
    state = states.state(states.job(size), workload, pods=pods)
    (write,) = written(state)
    assert (write.step, write.why) == (Step.SHRINK, "granted: old 1 → 0")
    assert list(granted(write)) == want


def test_nobody_is_told_that_a_pod_set_without_quota_is_forgotten() -> None:
    workload = builders.workload(granted={"main": 1, "old": 0}, conditions=[builders.condition("PodsReady")])
    (write,) = written(states.state(states.job(1), workload, pods=states.pods(1)))
    assert (write.step, list(granted(write))) == (Step.RECORD, ["main"])


def test_the_spec_follows_the_template_of_a_pod_set_without_quota() -> None:
    workload = builders.workload(
        pod_sets=[builders.pod_set("main", 1), builders.pod_set("more", 0, cpu=2)],
        granted={"main": 1},
        conditions=[builders.condition("PodsReady")],
    )
    state = states.state(states.job({"main": 1, "more": 0}), workload, pods=states.pods(1))
    (write,) = written(state)
    assert write.step is Step.SPEC
    assert [each["requests"] for each in write.body["spec"]["podSets"]] == [{"cpu": "1000m"}, {"cpu": "1000m"}]


# Folding


def test_admitted_slices_are_counted_with_their_uids_in_one_write() -> None:
    workload = builders.workload(count=4, granted=1)
    slices = [
        builders.slice_of(ordinal=0, granted=1),
        builders.slice_of(ordinal=1),
        builders.slice_of(ordinal=2, granted=1),
    ]
    state = states.state(states.job(4), workload, slices=slices, pods=states.pods(1))
    (write,) = written(state)
    assert (write.step, granted(write)) == (Step.FOLD, {"main": 3})
    assert write.body["foldedSlices"] == ["u-a-main-0", "u-a-main-2"]
    assert write.why == "granted: main 1 → 3"
    assert write.resource_version == workload.meta.resource_version


def test_a_slice_that_was_counted_is_not_counted_again_and_is_forgotten_once_it_is_gone() -> None:
    workload = builders.workload(count=3, granted=3, status={"foldedSlices": ["u-a-main-0", "u-a-main-1"]})
    state = states.state(states.job(3), workload, slices=[builders.slice_of(ordinal=0, granted=1)])
    draft = grants.draft(state)
    assert (draft.granted("main"), set(draft.folded)) == (3, {"u-a-main-0"})
    (write,) = written(state)
    assert write.step is not Step.FOLD  # nothing was granted: nobody is told
    assert write.body["foldedSlices"] == ["u-a-main-0"]
    (write,) = written(states.state(states.job(3), workload))
    assert write.body["foldedSlices"] is None


def test_a_slice_of_several_pods_is_counted_for_as_many_as_are_wanted() -> None:
    part = builders.slice_of(count=2, granted=2)
    state = states.state(states.job(2), builders.workload(count=2, granted=1), slices=[part])
    assert grants.draft(state).granted("main") == 2


@pytest.mark.parametrize(("size", "open_pods"), [(2, 5), (5, 5)], ids=["it shrank", "it has all"])
def test_a_slice_that_is_not_wanted_any_more_is_not_counted(size: int, open_pods: int) -> None:
    workload = builders.workload(count=5, granted=5)
    part = builders.slice_of(granted=1)
    draft = grants.draft(states.state(states.job(size), workload, slices=[part], pods=states.pods(open_pods)))
    assert (draft.granted("main"), draft.folded) == (5, frozenset())


def test_a_pod_set_keeps_its_flavors_while_it_has_quota() -> None:
    part = builders.slice_of(granted=1, flavors={"cpu": "other"})
    state = states.state(states.job(2), builders.workload(count=2, granted=1), slices=[part])
    assert grants.draft(state).assignments["main"].flavors == {"cpu": "spot"}


@pytest.mark.parametrize(
    ("size", "spec", "want"), [(2, 4, 2), (4, 2, 2), (9, 9, 4)], ids=["wanted", "asked for", "all that were admitted"]
)
def test_no_more_is_counted_than_is_wanted_and_asked_for(size: int, spec: int, want: int) -> None:
    slices = [builders.slice_of(ordinal=each, granted=1) for each in range(3)]
    state = states.state(states.job(size), builders.workload(count=spec, granted=1), slices=slices)
    assert grants.draft(state).granted("main") == want


def test_a_slice_that_is_being_deleted_is_not_counted() -> None:
    state = states.state(
        states.job(3), builders.workload(count=3, granted=1), slices=[builders.slice_of(granted=1, deleted=True)]
    )
    assert grants.draft(state).granted("main") == 1


def test_a_slice_is_not_counted_whose_pods_want_something_else_by_now() -> None:
    workload = builders.workload(pod_sets=[builders.pod_set("main", 1), builders.pod_set("more", 2, cpu=4)], granted=1)
    slices = [builders.slice_of(set_name="more", ordinal=each, granted=1, cpu=cpu) for each, cpu in enumerate((1, 4))]
    draft = grants.draft(states.state(states.job({"main": 1, "more": 2}, cpu=4), workload, slices=slices))
    assert (draft.granted("more"), set(draft.folded)) == (1, {"u-a-more-1"})


def test_slices_are_counted_only_while_their_uids_have_room() -> None:
    there = [builders.slice_of(ordinal=each, granted=1) for each in range(FOLDED_MAX + 1)]
    folded = [each.meta.uid for each in there[:FOLDED_MAX]]
    workload = builders.workload(count=3000, granted=FOLDED_MAX, status={"foldedSlices": folded})
    state = states.state(states.job(3000), workload, slices=there)
    assert grants.draft(state).granted("main") == FOLDED_MAX
    fewer = states.state(states.job(3000), workload, slices=there[1:])
    assert grants.draft(fewer).granted("main") == FOLDED_MAX + 1


def test_a_pod_set_without_quota_takes_the_flavor_of_its_first_slice() -> None:
    sets = [builders.pod_set("main", 1), builders.pod_set("more", 2)]
    workload = builders.workload(pod_sets=sets, granted={"main": 1})
    part = builders.slice_of(set_name="more", granted=1, flavors={"cpu": "other"})
    state = states.state(states.job({"main": 1, "more": 2}), workload, slices=[part])
    assert grants.draft(state).assignments["more"].flavors == {"cpu": "other"}
    assert grants.draft(state).granted("more") == 1
    assert written(state)[0].why == "granted: more 0 → 1"
    left = builders.workload(pod_sets=sets, granted={"main": 1, "more": 0})
    state = states.state(states.job({"main": 1, "more": 2}), left, slices=[part])
    assert grants.draft(state).assignments["more"].flavors == {"cpu": "other"}


# The spec


def test_the_spec_grows_with_the_job() -> None:
    ready = builders.condition("PodsReady")
    workload = builders.workload(count=2, granted=2, conditions=[ready])
    (tell,) = written(states.state(states.job(4), workload, pods=states.pods(2)))
    told = builders.workload(count=2, granted=2, conditions=tell.body["conditions"])
    (write,) = written(states.state(states.job(4), told, pods=states.pods(2)))
    assert (tell.step, write.step) == (Step.TELL, Step.SPEC)
    assert [each["count"] for each in write.body["spec"]["podSets"]] == [4]


# What is recorded

REQUEUE = Requeue(count=1, at=NOW + 60, flavors_tried=("spot",))


@pytest.mark.parametrize(
    ("changed", "step", "want"),
    [
        ({"opened": {"main": ("u-p0",)}}, Step.RECORD, {"opened": [{"name": "main", "uids": ["u-p0"]}]}),
        ({"withdrawn": {"main": ("u-p0",)}}, Step.RECORD, {"withdrawn": [{"name": "main", "uids": ["u-p0"]}]}),
        (
            {"requeue": REQUEUE},
            Step.TELL,
            {"requeue": {"count": 1, "at": builders.time(-60), "flavorsTried": ["spot"]}},
        ),
    ],
)
def test_what_is_recorded_is_written_and_taken_off_again(changed: Any, step: Step, want: Any) -> None:
    def write(status: Any, **more: Any) -> tuple[Write, ...]:
        workload = builders.workload(granted=1, conditions=[builders.condition("PodsReady")], status=status)
        state = states.state(states.job(1), workload, pods=states.pods(1))
        return grants.write(state, replace(grants.draft(state), **more), NOW)

    (first,) = write({}, **changed)
    assert (first.step, first.body, first.why) == (step, want, f"changed: {next(iter(want))}")
    assert write(want, **changed) == ()
    (last,) = write(want, **{name: None if name == "requeue" else {"main": ()} for name in changed})
    assert last.body == dict.fromkeys(want)
    assert write({}, **{name: None if name == "requeue" else {"main": ()} for name in changed}) == ()


# Conditions


def test_a_resize_that_is_over_is_said_to_be() -> None:
    told = [builders.condition("PodsReady"), builders.condition("ResizeRequested")]
    state = states.state(states.job(1), builders.workload(granted=1, conditions=told), pods=states.pods(1))
    (write,) = written(state)
    assert {each["type"]: each["status"] for each in write.body["conditions"]}["ResizeRequested"] == "False"


@pytest.mark.parametrize(
    ("size", "granted", "pods", "want"),
    [
        ({"main": 3}, {"main": 1}, [states.pod("p0")], True),
        ({"main": 1}, {"main": 3}, [states.pod("p0"), *states.pods(2, first=1, ready=False)], True),
        ({"main": 1, "more": 1}, {"main": 1, "more": 1}, [states.pod("p0")], False),
    ],
    ids=["it waits for more", "it shrinks", "one pod set is not"],
)
def test_as_many_are_ready_as_are_granted_and_wanted(size: Any, granted: Any, pods: Any, *, want: bool) -> None:
    sets = [builders.pod_set(name, 3) for name in size]
    state = states.state(states.job(size), builders.workload(pod_sets=sets, granted=granted), pods=pods)
    assert grants.is_ready(state, grants.draft(state)) is want


def test_pods_are_said_to_be_ready_once_all_that_are_granted_and_wanted_are() -> None:
    def says_ready(*pods: Any) -> bool:
        state = states.state(states.job(2), builders.workload(count=2, granted=2), pods=pods)
        return any(
            each["type"] == "PodsReady" and each["status"] == "True"
            for write in written(state)
            for each in write.body.get("conditions", ())
        )

    assert says_ready(*states.pods(2))
    assert not says_ready(*states.pods(1))
    assert not says_ready(states.pod("p0"), states.pod("p1", ready=False))
    assert not says_ready(states.pod("p0"), states.pod("p1", ends_in=10))


def test_readiness_is_said_once_for_all() -> None:
    workload = builders.workload(granted=1, conditions=[builders.condition("PodsReady")])
    assert written(states.state(states.job(1), workload)) == []


def test_nothing_is_written_where_nothing_changed() -> None:
    ready = [builders.condition("PodsReady")]
    state = states.state(states.job(1), builders.workload(granted=1, conditions=ready), pods=states.pods(1))
    assert written(state) == []
