"""What a refusal is remembered for, and when those who were refused are looked at again."""

from typing import Any

import pytest

from autoscaler.admission.quota import cycle
from autoscaler.admission.quota.cache.books import Books
from autoscaler.admission.quota.cache.configuration import Tables
from autoscaler.admission.quota.refusals import Reason
from tests.autoscaler.admission import builders
from tests.autoscaler.admission.builders import (
    NOW,
    admission,
    cluster_queue,
    flavor,
    local_queue,
    slice_of,
    usual,
    workload,
)

LOOKED_AT_AGAIN = pytest.mark.accept("E11", part="who was refused is looked at again once something could let it in")
PREEMPTS = {"within": "LowerPriority"}


class Cycles:
    """One plan after the other, none of which is carried out."""

    def __init__(self, made: Tables) -> None:
        self.made = made
        self.books = Books(made)

    def see(self, *stored: Any) -> None:
        for each in stored:
            builders.table_of(self.made, each).seen(each)

    def refused(self) -> list[str]:
        return [each.workload.meta.key.name for each in self._decide().refused]

    def written(self) -> list[str]:
        return [f"{write.step} {write.key.name}" for write in self._decide().writes]

    def _decide(self) -> cycle.CyclePlan:
        return cycle.decide(self.books, now=NOW, most=99)


def full(*stored: Any, **queue: Any) -> Cycles:
    """A queue of 10 cpu of which 9 are used, and `x`, which wants 4 and was refused."""
    cycles = Cycles(usual(cluster_queue(rv=2, **queue), workload("a", count=9, granted=9), *stored))
    cycles.see(workload("x", cpu=4))
    assert cycles.refused() == ["x"]
    return cycles


# What is not looked at again


@pytest.mark.parametrize("queue", [{}, {"strict": True}, {"reclaim": "Any"}])
@pytest.mark.parametrize(
    "changed",
    [
        workload("a", count=9, granted=9, rv=2),
        workload("x", cpu=4, status={"position": 1}, rv=2),
        workload("y", cpu=4, age=1),
        cluster_queue(rv=3),
        local_queue(rv=2),
        flavor(rv=2),
        builders.namespace(rv=2),
    ],
    ids=["has quota", "waits", "alike", "queue", "door", "flavor", "namespace"],
)
def test_a_change_that_lets_nobody_in_lets_nobody_be_looked_at(queue: dict[str, Any], changed: Any) -> None:
    cycles = full(**queue)
    if queue and changed.meta.key.name == "team" and hasattr(changed, "resource"):
        changed = cluster_queue(rv=3, **queue)
    cycles.see(changed)
    assert cycles.refused() == []


def test_where_nobody_is_displaced_only_quota_that_is_given_back_matters() -> None:
    cycles = full()
    cycles.see(workload("b", granted=1))
    assert cycles.refused() == []
    cycles.see(workload("b", granted=1, priority=3, rv=2))
    assert cycles.refused() == []


def test_who_was_refused_is_set_aside_until_the_state_of_affairs_changes() -> None:
    cycles = full()
    line, epoch = cycles.books.waiting.line("team"), cycles.books.epoch("team")
    assert list(line.fresh(epoch)) == []
    assert [len(each) for each in line.fresh(epoch + 1)] == [1]
    assert [len(each) for each in line.fresh(epoch + 1)] == [1]


# What is


@LOOKED_AT_AGAIN
def test_who_was_refused_is_looked_at_again_when_another_is_gone() -> None:
    cycles = full()
    cycles.made.workloads.gone(workload("a", rv=2).meta)
    assert cycles.written() == ["admit x"]


@LOOKED_AT_AGAIN
def test_who_was_refused_is_looked_at_again_when_a_claim_is_gone() -> None:
    claimant = workload("c", count=8, age=9, status={"claim": admission({"main": 8})})
    cycles = Cycles(usual(workload("going", count=5, granted=5, evicted=True), claimant, workload("x", cpu=5)))
    assert sorted(cycles.refused()) == ["c", "x"]
    cycles.made.workloads.gone(workload("c", rv=2).meta)
    assert cycles.written() == ["admit x"]


@LOOKED_AT_AGAIN
def test_who_was_refused_is_looked_at_again_when_others_may_be_displaced() -> None:
    cycles = full(**PREEMPTS)
    cycles.see(workload("a", count=9, granted=9, priority=-1, rv=2))
    assert cycles.written() == ["claim x"]


@LOOKED_AT_AGAIN
@pytest.mark.parametrize(
    "changed",
    [
        cluster_queue(flavors={"spot": {"cpu": 20}}, rv=3),
        cluster_queue(flavors={"spot": {"cpu": 10}, "demand": {"cpu": 10}}, rv=3),
    ],
)
def test_who_was_refused_is_looked_at_again_when_its_queue_changes(changed: Any) -> None:
    cycles = full(flavor("demand"))
    cycles.see(changed)
    assert cycles.written() == ["admit x"]


@LOOKED_AT_AGAIN
def test_who_was_refused_is_looked_at_again_when_a_flavor_comes_changes_or_goes() -> None:
    cycles = Cycles(usual(cluster_queue(flavors={"demand": {"cpu": 5}}, rv=2), workload("x")))
    assert cycles.refused() == ["x"]
    cycles.see(flavor("demand", nodeTaints=[{"key": "k", "value": "v", "effect": "NoSchedule"}]))
    assert cycles.refused() == ["x"]
    cycles.see(flavor("demand", rv=2))
    assert cycles.written() == ["admit x"]
    cycles.made.flavors.gone(flavor("demand", rv=3).meta)
    assert cycles.refused() == ["x"]


@pytest.mark.accept("E20", part="a namespace that the queue refuses")
@pytest.mark.parametrize("changed", [None, {"gone": True}, {"labels": {}}])
def test_who_was_let_in_by_its_namespace_is_refused_when_that_changes(changed: dict[str, Any] | None) -> None:
    selected = cluster_queue(namespaceSelector={"matchLabels": {"a": "b"}}, rv=2)
    cycles = Cycles(usual(selected, builders.namespace(rv=2, a="b"), workload("x")))
    assert cycles.written() == ["admit x"]
    if changed == {"gone": True}:
        cycles.made.namespaces.gone(builders.namespace(rv=3).meta)
    elif changed is not None:
        cycles.see(builders.namespace(rv=3))
    assert cycles.refused() == ([] if changed is None else ["x"])


@pytest.mark.accept("E20", part="a namespace that the queue refuses")
def test_a_namespace_that_comes_later_lets_its_jobs_in() -> None:
    cycles = Cycles(usual(cluster_queue(namespaceSelector={"matchLabels": {"a": "b"}}, rv=2), workload("x")))
    cycles.made.namespaces.gone(builders.namespace(rv=2).meta)
    assert cycles.refused() == ["x"]
    cycles.see(builders.namespace(rv=3, a="b"))
    assert cycles.written() == ["admit x"]


@pytest.mark.accept("E20", part="a LocalQueue that is missing, moved or being deleted")
def test_a_local_queue_that_comes_leads_elsewhere_or_goes_takes_its_jobs_with_it() -> None:
    cycles = Cycles(usual(cluster_queue("other"), workload("x", queue="late")))
    assert cycles.refused() == ["x"]
    cycles.see(local_queue("late", queue="nowhere"))
    assert cycles.refused() == ["x"]
    cycles.see(local_queue("late", queue="other", rv=2))
    assert cycles.written() == ["admit x"]
    cycles.see(local_queue("late", queue="other", deleted=True, rv=3))
    assert cycles.refused() == ["x"]
    cycles.made.local_queues.gone(local_queue("late", rv=4).meta)
    assert cycles.refused() == ["x"]


@pytest.mark.accept("E20", part="a LocalQueue that is missing, moved or being deleted")
def test_who_was_refused_for_lack_of_room_is_told_that_its_local_queue_is_being_deleted() -> None:
    cycles = full()
    cycles.see(local_queue(deleted=True, rv=2))
    assert cycles.refused() == ["x"]
    refusal = cycles.books.refusal_of("u-x")
    assert refusal is not None
    assert refusal.reason is Reason.LOCAL_QUEUE_LEAVING


@pytest.mark.accept("E3", part="slices stay in the queue of their parent")
def test_slices_stay_with_their_parents_queue_wherever_their_local_queue_leads() -> None:
    parent = workload("p", count=2, granted=1)
    cycles = Cycles(usual(cluster_queue("other", flavors={"spot": {"cpu": 0}}), parent, slice_of("p", 0)))
    cycles.see(local_queue(queue="other", rv=2))
    assert cycles.written() == ["admit p-main-0"]
    late = Cycles(cycles.made)
    assert late.written() == ["admit p-main-0"]


# Why one waits


def test_why_one_was_refused_is_not_said_of_a_better_one_of_its_kind() -> None:
    cycles = full()
    assert cycles.books.refusal_of("u-x") is not None
    cycles.see(workload("better", cpu=4, priority=1))
    assert cycles.books.refusal_of("u-better") is None


def test_one_that_does_not_wait_claims_nothing() -> None:
    claim = {"claim": admission({"main": 4})}
    books = Books(usual(workload("a", active=False, status=claim), workload("b", status=claim)))
    books.wake(NOW)
    assert books.claim_of("u-a") is None
    assert books.claim_of("u-b") is not None


# What is forgotten


@pytest.mark.accept("R7", part="nothing is kept of work that waits no more")
def test_nothing_is_kept_of_those_who_wait_no_more() -> None:
    made = usual(*(workload(name, queue=f"door-{name}", cpu=cpu) for cpu, name in enumerate("abc", start=1)))
    books = Books(made)
    books.wake(NOW)
    made.local_queues.seen(local_queue("door-a"))
    assert list(books.waiting.queues()) == [None, "team"]
    for name in "bc":
        made.local_queues.seen(local_queue(f"door-{name}"))
    assert list(books.waiting.queues()) == ["team"]
    made.workloads.seen(workload("a", granted=1, rv=2))
    for name in "bc":
        made.workloads.gone(workload(name, rv=2).meta)
    waiting = books.waiting
    assert (waiting._classes, waiting._doors, waiting._lines) == ({}, {}, {})
