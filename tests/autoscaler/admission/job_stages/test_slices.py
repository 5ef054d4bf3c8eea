"""Which slices are made and deleted."""

from typing import Any

import pytest

from autoscaler.admission.job_stages import slices
from autoscaler.admission.workloads.workload import Workload
from autoscaler.admission.writes import Write
from autoscaler.control.writes import Verb
from tests.autoscaler.admission import builders, states

pytestmark = pytest.mark.accept("E3", part="which slices are made and deleted")
NOW = builders.NOW


def planned(of: Any, workload: Workload, *there: Workload, **more: Any) -> tuple[Write, ...]:
    return slices.wanted(states.state(of, workload, slices=there, **more), NOW)


def made(writes: tuple[Write, ...]) -> list[str]:
    return [each.key.name for each in writes if each.verb is Verb.CREATE]


def deleted(writes: tuple[Write, ...]) -> list[str]:
    return [each.key.name for each in writes if each.verb is Verb.DELETE]


def test_a_slice_is_made_for_each_replica_that_is_not_granted() -> None:
    writes = planned(states.job(4), builders.workload(count=4, granted=1, queue="door", priority=7))
    assert made(writes) == ["a-main-0", "a-main-1", "a-main-2"]
    body = writes[0].body
    assert body["metadata"]["ownerReferences"] == [
        {"apiVersion": "sluice.dev/v1alpha1", "kind": "Workload", "name": "a", "uid": "u-a", "controller": True}
    ]
    assert body["metadata"]["labels"] == {"sluice.dev/job-uid": states.UID}
    assert body["spec"] == {
        "queueName": "door",
        "priority": 7,
        "podSets": [{"name": "main", "count": 1, "requests": {"cpu": "1000m"}}],
    }


def test_a_replica_of_several_pods_has_one_slice() -> None:
    writes = planned(states.job(6, replica_pods=2), builders.workload(count=6, granted=2))
    assert [each.body["spec"]["podSets"][0]["count"] for each in writes] == [2, 2]


@pytest.mark.parametrize("spec", [3, 5], ids=["less is asked for", "more is asked for"])
def test_none_is_made_while_the_spec_is_not_what_the_job_wants(spec: int) -> None:
    assert made(planned(states.job(4), builders.workload(count=spec, granted=1))) == []


def test_none_is_made_twice_and_free_ordinals_are_used_again() -> None:
    writes = planned(states.job(4), builders.workload(count=4, granted=1), builders.slice_of(ordinal=1))
    assert made(writes) == ["a-main-0", "a-main-2"]
    assert deleted(writes) == []


def test_a_name_that_is_taken_by_a_counted_or_leaving_slice_is_not_used() -> None:
    workload = builders.workload(count=3, granted=2, status={"foldedSlices": ["u-a-main-0"]})
    there = [builders.slice_of(ordinal=0, granted=1), builders.slice_of(ordinal=1, deleted=True)]
    assert made(planned(states.job(3), workload, *there)) == ["a-main-2"]


def test_counted_slices_are_deleted_once() -> None:
    workload = builders.workload(count=3, granted=3, status={"foldedSlices": ["u-a-main-0", "u-a-main-1"]})
    there = [builders.slice_of(ordinal=0, granted=1), builders.slice_of(ordinal=1, granted=1, deleted=True)]
    assert deleted(planned(states.job(3), workload, *there)) == ["a-main-0"]


def test_surplus_slices_are_deleted_newest_first() -> None:
    there = [builders.slice_of(ordinal=each) for each in range(4)]
    assert deleted(planned(states.job(2), builders.workload(count=2, granted=1), *there)) == [
        "a-main-3",
        "a-main-2",
        "a-main-1",
    ]
    assert deleted(planned(states.job(1), builders.workload(count=1, granted=1), *there)) == [
        "a-main-3",
        "a-main-2",
        "a-main-1",
        "a-main-0",
    ]


def test_surplus_slices_are_deleted_while_pods_of_a_shrink_run_on() -> None:
    workload, part = builders.workload(count=4, granted=4), builders.slice_of(granted=1)
    assert deleted(planned(states.job(2), workload, part, pods=states.pods(4))) == ["a-main-0"]


def test_one_that_is_being_deleted_already_is_neither_deleted_nor_counted() -> None:
    there = [builders.slice_of(ordinal=0), builders.slice_of(ordinal=1, deleted=True)]
    assert deleted(planned(states.job(2), builders.workload(count=2, granted=1), *there)) == []
    assert deleted(planned(states.job(1), builders.workload(count=1, granted=1), *there)) == ["a-main-0"]


def test_pod_sets_are_taken_by_name_and_one_that_the_workload_does_not_know_waits() -> None:
    sets = [builders.pod_set(name, 2) for name in ("zone", "gpu", "cpu")]
    workload = builders.workload(pod_sets=sets, granted={"zone": 1, "gpu": 1, "cpu": 1})
    wanted = states.job({"zone": 2, "gpu": 2, "cpu": 2, "new": 2})
    assert made(planned(wanted, workload)) == ["a-cpu-0", "a-gpu-0", "a-zone-0"]


@pytest.mark.parametrize(("size", "count"), [(5, 2), (2, 5)])
def test_surplus_slices_stay_until_the_workload_asks_for_what_the_job_wants(size: int, count: int) -> None:
    there = [builders.slice_of(ordinal=each) for each in range(3)]
    assert deleted(planned(states.job(size), builders.workload(count=count, granted=1), *there)) == []


def test_slices_of_a_pod_set_that_is_gone_are_deleted() -> None:
    workload = builders.workload(pod_sets=[builders.pod_set("main", 1)], granted={"main": 1})
    assert deleted(planned(states.job(1), workload, builders.slice_of(set_name="old"))) == ["a-old-0"]


def test_slices_whose_pods_want_something_else_by_now_are_made_anew() -> None:
    there = [builders.slice_of(ordinal=0), builders.slice_of(ordinal=1, deleted=True)]
    writes = planned(states.job(2, cpu=2), builders.workload(count=2, cpu=2, granted=0), *there)
    assert (deleted(writes), made(writes)) == (["a-main-0"], ["a-main-2", "a-main-3"])


def test_a_counted_slice_is_deleted_once_whatever_its_pods_want_by_now() -> None:
    workload = builders.workload(count=1, cpu=2, granted=1, status={"foldedSlices": ["u-a-main-0"]})
    assert deleted(planned(states.job(1, cpu=2), workload, builders.slice_of(granted=1))) == ["a-main-0"]


def test_none_is_made_or_deleted_while_the_spec_asks_for_other_pods_than_the_job_wants() -> None:
    assert planned(states.job(2, cpu=2), builders.workload(count=2, granted=0), builders.slice_of(ordinal=0)) == ()


def test_slices_of_a_workload_that_is_gone_are_deleted() -> None:
    orphan = builders.slice_of(ordinal=5, parent_uid="u-another")
    leaving = builders.slice_of(ordinal=6, parent_uid="u-another", deleted=True)
    writes = planned(states.job(1), builders.workload(count=1, granted=1), orphans=[orphan, leaving])
    assert deleted(writes) == ["a-main-5"]


def test_no_more_than_so_many_exist_at_once() -> None:
    writes = planned(states.job(2000), builders.workload(count=2000, granted=1), builders.slice_of(ordinal=0))
    assert len(made(writes)) == slices.AT_ONCE - 1


@pytest.mark.parametrize(("rests_for", "want"), [(5, []), (0, ["a-main-0"]), (-5, ["a-main-0"])])
def test_none_is_made_while_growth_rests(rests_for: float, want: list[str]) -> None:
    requeue = {"count": 1, "at": builders.time(-rests_for)}
    assert made(planned(states.job(2), builders.workload(count=2, granted=1, status={"requeue": requeue}))) == want
