"""Who waits and who has quota is what reading all Workloads afresh would say."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.admission.state import tally
from autoscaler.admission.workloads.workload import Workload
from autoscaler.kube import store
from autoscaler.kube.objects import Key
from tests.autoscaler.admission.builders import NAMESPACE, NOW, condition, slice_of, workload

pytestmark = pytest.mark.accept("E11", part="who waits and who has quota, counted")
DOOR = tally.local_queue(Key(NAMESPACE, "door"))
TEAM = tally.cluster_queue("team")


def counted(*stored: Workload) -> tally.Tally:
    table: store.Table[Workload] = store.Table()
    made = tally.of(table)
    for each in stored:
        table.seen(each)
    return made


def test_those_who_wait_are_counted_by_local_queue_and_those_admitted_by_both() -> None:
    made = counted(workload("a"), workload("b", granted=1), workload("c", queue="other"))
    door, team = made.get(DOOR), made.get(TEAM)
    assert door is not None
    assert team is not None
    assert ([uid for _, uid in door.pending], door.admitted) == (["u-a"], 1)
    assert (team.pending, team.admitted) == ([], 1)


def test_slices_use_a_flavor_and_are_counted_nowhere() -> None:
    made = counted(workload("a", granted=1), slice_of("a", granted=1), slice_of("a", 1))
    door, flavor = made.get(DOOR), made.get(tally.flavor("spot"))
    assert door is not None
    assert flavor is not None
    assert (door.pending, door.admitted, flavor.admitted) == ([], 1, 1)
    assert sorted(flavor.holders) == ["u-a", "u-a-main-0"]
    assert sorted(door.holders) == ["u-a"]


def test_one_that_is_admitted_waits_no_longer_and_the_others_do() -> None:
    made = counted(
        *(workload(name, age=age) for name, age in (("a", 1), ("b", 3), ("c", 2))), workload("b", granted=1, rv=2)
    )
    door = made.get(DOOR)
    assert door is not None
    assert [uid for _, uid in door.pending] == ["u-c", "u-a"]


def test_what_is_over_or_inactive_does_not_wait() -> None:
    made = counted(workload("a", finished=True), workload("b", deleted=True), workload("c", active=False))
    door = made.get(DOOR)
    assert door is not None
    assert door.pending == []


def test_a_queue_a_flavor_and_a_local_queue_of_one_name_are_told_apart() -> None:
    made = counted(workload("a", granted=1, queue="x", cluster_queue="x", flavors={"cpu": "x"}))
    assert len(made) == 3
    assert made.get(tally.Place(tally.Kind.FLAVOR, Key("", "x"))) is not None
    assert made.get(tally.flavor("y")) is None


def test_one_that_was_evicted_waits_since_it_gave_its_quota_back() -> None:
    fresh = workload("a", age=500)
    back = workload("b", age=500, conditions=[condition("Evicted", holds=False, since=30)])
    still = workload("c", age=500, conditions=[condition("Evicted", holds=True, since=30)])
    assert [NOW - tally.waits_since(each) for each in (fresh, back, still)] == [500, 30, 500]


CHANGES = st.fixed_dictionaries(
    {
        "name": st.sampled_from("abc"),
        "granted": st.sampled_from([None, 1]),
        "queue": st.sampled_from(["door", "other"]),
        "cluster_queue": st.sampled_from(["team", "other"]),
        "active": st.booleans(),
        "finished": st.booleans(),
        "age": st.integers(1, 3),
    }
)


@given(st.lists(CHANGES, max_size=20))
def test_each_change_leaves_what_counting_afresh_would_give(changes: list[dict[str, Any]]) -> None:
    table: store.Table[Workload] = store.Table()
    made = tally.of(table)
    for version, change in enumerate(changes, start=1):
        table.seen(workload(rv=version, **change))
    assert made.as_dict() == made.recomputed()
