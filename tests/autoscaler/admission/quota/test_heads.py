"""Who of a StrictFIFO queue is looked at, and in which order."""

from typing import Any

import pytest

from autoscaler.admission.quota import cycle
from autoscaler.admission.quota.cache.books import Books
from tests.autoscaler.admission import builders
from tests.autoscaler.admission.builders import NOW, cluster_queue, slice_of, usual, workload

pytestmark = pytest.mark.accept("E11", part="StrictFIFO")


def admitted(*stored: Any, **queue: Any) -> list[str]:
    """Return whom one plan admits in a StrictFIFO queue of 10 cpu."""
    made = usual(cluster_queue(strict=True, rv=2, **queue), *stored)
    return [write.key.name for write in cycle.decide(Books(made), now=NOW, most=99).writes]


def test_those_that_are_alike_and_those_between_them_are_admitted_in_order_in_one_plan() -> None:
    waiting = [workload("a", age=9), workload("m", cpu=2, age=8), workload("z", age=7), workload("zz", age=6)]
    assert admitted(*waiting) == ["a", "m", "z", "zz"]


def test_the_second_of_those_that_are_alike_blocks_as_well() -> None:
    waiting = [workload("a", cpu=6, age=9), workload("b", cpu=6, age=8), workload("c", age=7)]
    assert admitted(*waiting) == ["a"]


@pytest.mark.parametrize("priority", [0, 5])
def test_an_older_slice_passes_a_blocked_head_and_those_who_wait_behind_it(priority: int) -> None:
    parent = workload("p", count=9, granted=1, age=99, priority=priority)
    waiting = [
        workload("big", cpu=10, age=9, priority=priority),
        workload("small", age=8, priority=priority),
        slice_of("p", 0, age=10),
        slice_of("p", 1, age=7),
    ]
    assert admitted(parent, *waiting) == ["p-main-0"]


def test_an_older_slice_passes_those_too_who_are_like_one_that_was_admitted() -> None:
    parent = workload("p", count=9, granted=1, age=99)
    waiting = [workload("a", age=20), workload("big", cpu=10, age=9), workload("b", age=8), slice_of("p", 0, age=10)]
    assert admitted(parent, *waiting) == ["a", "p-main-0"]


@pytest.mark.accept("E13", part="same-second timestamps tie-break by UID")
@pytest.mark.parametrize(("uid", "want"), [("u-a", ["p-main-0"]), ("u-z", [])])
def test_of_those_of_one_age_the_uid_decides_who_is_older(uid: str, want: list[str]) -> None:
    parent = workload("p", count=9, granted=1, age=99)
    assert admitted(parent, workload("big", cpu=10, age=9), slice_of("p", 0, age=9, uid=uid)) == want


def test_one_that_displaces_others_lets_those_pass_whom_it_does_not_need() -> None:
    quota = {"spot": {"cpu": 10}, "demand": {"cpu": 5}}
    made = usual(
        builders.flavor("spot", nodeLabels={"kind": "spot"}, rv=2),
        builders.flavor("demand", nodeLabels={"kind": "demand"}),
        cluster_queue(strict=True, within="LowerPriority", flavors=quota, rv=2),
        workload("low", count=10, granted=10, priority=-1),
        workload("high", pod_sets=[builders.pod_set(cpu=4, nodeSelector={"kind": "spot"})], age=9),
        workload("small", pod_sets=[builders.pod_set(nodeSelector={"kind": "demand"})], age=8),
    )
    writes = cycle.decide(Books(made), now=NOW, most=99).writes
    assert [f"{write.step} {write.key.name}" for write in writes] == ["claim high", "admit small"]


def test_who_does_not_lack_room_lets_those_pass_who_come_later_too() -> None:
    made = usual(cluster_queue(strict=True, rv=2))
    made.workloads.seen(workload("odd", pod_sets=[builders.pod_set(requests={"gpu": 1})], age=9))
    books = Books(made)
    assert [each.workload.meta.key.name for each in cycle.decide(books, now=NOW, most=9).refused] == ["odd"]
    made.workloads.seen(workload("b", age=8))
    plan = cycle.decide(books, now=NOW, most=9)
    assert ([write.key.name for write in plan.writes], plan.refused) == (["b"], ())  # odd is not looked at again


def test_a_head_that_was_refused_blocks_without_being_looked_at_again() -> None:
    made = usual(cluster_queue(strict=True, rv=2), workload("big", cpu=11, age=9))
    books = Books(made)
    assert len(cycle.decide(books, now=NOW, most=9).refused) == 1
    made.workloads.seen(workload("small", age=8))
    assert cycle.decide(books, now=NOW, most=9) == cycle.CyclePlan()
