"""Who is admitted, in which order, what is written, and what those are told who wait on."""

from typing import Any

import pytest

from autoscaler.admission.quota import cycle, refusals
from autoscaler.admission.quota.cache import waiting
from autoscaler.admission.quota.cache.books import Books
from autoscaler.admission.quota.cache.configuration import Tables
from autoscaler.admission.writes import Step
from tests.autoscaler.admission import builders
from tests.autoscaler.admission.applying import Cluster, Conflict
from tests.autoscaler.admission.builders import (
    NOW,
    cluster_queue,
    condition,
    flavor,
    local_queue,
    pod,
    slice_of,
    tables,
    usual,
    workload,
)

ORDER = pytest.mark.accept("E11", part="who is admitted, in which order, and what the others are told")
TOLD = pytest.mark.accept("E20", part="a missing queue, or a namespace that it refuses, is told")
SPOT = {"spot": {"cpu": 10}}


def decide(made: Tables, *, now: float = NOW, most: int = 100) -> cycle.CyclePlan:
    return cycle.decide(Books(made), now=now, most=most)


def names(plan: cycle.CyclePlan) -> list[str]:
    return [f"{write.step} {write.key.name}" for write in plan.writes]


def told(plan: cycle.CyclePlan) -> dict[str, str]:
    return {each.workload.meta.key.name: refusals.worded(each.refusal) for each in plan.refused}


def strict(*stored: Any) -> Tables:
    return usual(cluster_queue(strict=True, rv=2), *stored)


def cohort(mine: Any = 5, theirs: Any = 5, *stored: Any, **more: Any) -> Tables:
    """Two queues that lend each other: `team` behind `door`, `other` behind `other-door`."""
    return tables(
        flavor(),
        cluster_queue("team", flavors={"spot": {"cpu": mine}}, cohort="all", **more),
        cluster_queue("other", flavors={"spot": {"cpu": theirs}}, cohort="all"),
        local_queue("door", queue="team"),
        local_queue("other-door", queue="other"),
        *stored,
    )


# What fits


@ORDER
def test_what_fits_is_admitted_and_the_rest_is_told_what_is_missing() -> None:
    plan = decide(usual(workload("a", cpu=7, age=9), workload("b", cpu=8, age=8)))
    assert names(plan) == ["admit a"]
    assert told(plan) == {"b": "needs 8 cpu of flavor spot, 3 are free: 5 missing"}


@ORDER
def test_usage_of_workloads_slices_and_strays_takes_room() -> None:
    used = [workload("a", count=3, granted=2), slice_of("a", 0, granted=1), pod(job_uid="gone", cpu=3)]
    assert names(decide(usual(*used, workload("b", cpu=5)))) == []
    assert names(decide(usual(*used, workload("b", cpu=4)))) == ["admit b"]


@ORDER
def test_pods_that_run_while_their_workload_waits_take_room_too() -> None:
    used = [workload("a", cpu=20), pod(job_uid="u-job-a", cpu=3)]
    assert names(decide(usual(*used, workload("b", cpu=8)))) == []
    assert names(decide(usual(*used, workload("b", cpu=7)))) == ["admit b"]


@ORDER
def test_nothing_is_admitted_where_more_is_used_than_there_is() -> None:
    assert names(decide(usual(workload("a", count=11, granted=11), workload("b", cpu="1m")))) == []


@ORDER
def test_a_claim_is_held_against_everybody_but_its_owner() -> None:
    claim = {"claim": builders.admission({"main": 8})}
    claimant = workload("a", count=8, status=claim, age=1)
    assert names(decide(usual(claimant, workload("b", cpu=3, age=9)))) == ["admit a"]
    assert names(decide(usual(claimant, workload("b", cpu=2, age=0)))) == ["admit a", "admit b"]


# Order


@ORDER
def test_order_is_priority_then_workloads_before_slices_then_age_then_uid() -> None:
    waiting = [
        workload("young", age=1),
        workload("old", age=9),
        workload("old2", age=9),
        workload("great", priority=5, age=1),
        workload("p", count=2, granted=1, age=99),
        slice_of("p", 0, age=50),
    ]
    want = ["admit great", "admit old", "admit old2", "admit young", "admit p-main-0"]
    assert names(decide(usual(*waiting))) == want


@ORDER
def test_a_slice_has_the_priority_of_its_parent() -> None:
    waiting = [workload("p", count=2, granted=1, priority=5), slice_of("p", 0), workload("b", priority=4)]
    assert names(decide(usual(*waiting))) == ["admit p-main-0", "admit b"]


@ORDER
def test_those_within_nominal_come_before_those_that_borrow() -> None:
    waiting = [workload("a", cpu=6, priority=9), workload("b", cpu=5, queue="other-door")]
    plan = decide(cohort(5, 5, *waiting))
    assert names(plan) == ["admit b"]
    assert told(plan) == {"a": "needs 6 cpu of flavor spot, 5 are free: 1 missing"}


@ORDER
def test_one_that_was_put_off_is_admitted_once() -> None:
    waiting = [workload("a", cpu=6, priority=9), workload("b", queue="other-door"), workload("c", cpu=8, priority=-1)]
    assert names(decide(cohort(5, 10, *waiting))) == ["admit b", "admit a", "admit c"]


@ORDER
def test_one_that_borrows_more_of_one_resource_only_is_put_off_as_well() -> None:
    def quota(cpu: int) -> Any:
        return {"spot": {"cpu": cpu, "memory": "9Gi"}}

    sets = [builders.pod_set(requests={"cpu": 2, "memory": "1Gi"})]
    made = tables(
        flavor(),
        cluster_queue("team", flavors=quota(3), cohort="all"),
        cluster_queue("other", flavors=quota(1), cohort="all"),
        local_queue("door", queue="team"),
        local_queue("other-door", queue="other"),
        workload("used", count=2, granted=2),
        workload("a", pod_sets=sets, priority=9),  # 4 of 3 cpus
        workload("b", queue="other-door"),
    )
    assert names(decide(made)) == ["admit b"]


@ORDER
def test_one_that_borrows_is_looked_at_again_when_its_first_flavor_is_full() -> None:
    demand_only = builders.pod_set(cpu=4, nodeSelector={"kind": "demand"})
    made = tables(
        flavor("spot", nodeLabels={"kind": "spot"}),
        flavor("demand", nodeLabels={"kind": "demand"}),
        cluster_queue("team", flavors={"spot": {"cpu": 0}, "demand": {"cpu": 4}}, cohort="all"),
        cluster_queue("other", flavors={"spot": {"cpu": 4}, "demand": {"cpu": 0}}, cohort="all"),
        local_queue("door", queue="team"),
        local_queue("other-door", queue="other"),
        workload("borrower", pod_sets=[demand_only], priority=10, queue="other-door"),
        workload("a", cpu=4, priority=9),  # borrows spot, until that is full: then it stays within demand
        workload("b", cpu=4, priority=5, queue="other-door"),
    )
    assert names(decide(made)) == ["admit b", "admit a"]


# Queues


@pytest.mark.accept("E11", part="StrictFIFO")
def test_strict_fifo_lets_nobody_pass_the_head() -> None:
    waiting = [workload("big", cpu=11, age=9), workload("small", age=8)]
    assert names(decide(strict(*waiting))) == []
    assert names(decide(usual(*waiting))) == ["admit small"]


@pytest.mark.accept("E11", part="StrictFIFO")
def test_slices_younger_than_a_blocked_head_wait_behind_it_and_older_ones_do_not() -> None:
    parent = workload("p", count=9, granted=1, age=99)
    waiting = [parent, workload("big", cpu=10, age=9), slice_of("p", 0, age=10), slice_of("p", 1, age=8)]
    assert names(decide(strict(*waiting))) == ["admit p-main-0"]
    lowly = workload("p", count=9, granted=1, priority=-1, rv=2)
    assert names(decide(strict(*waiting, lowly))) == []


@ORDER
def test_one_that_has_a_claim_is_looked_at_once_in_a_strict_queue_too() -> None:
    claim = {"claim": builders.admission({"main": 1})}
    assert names(decide(strict(workload("a", status=claim), workload("b", age=1)))) == ["admit a", "admit b"]


@pytest.mark.accept("E11", part="StrictFIFO")
@pytest.mark.accept("E9", part="a job that has nothing is locked to no flavor")
def test_a_slice_is_locked_to_the_flavor_of_what_its_parent_has_now() -> None:
    both = {"spot": {"cpu": 1}, "demand": {"cpu": 9}}
    others = [flavor("demand"), cluster_queue(flavors=both, rv=2), workload("full", granted=1)]
    made = usual(*others, workload("p", count=2, granted=0), slice_of("p", 0))
    kept = Books(made)
    (write,) = cycle.decide(kept, now=NOW, most=100).writes
    assert write.body["admission"]["podSetAssignments"][0]["flavors"] == {"cpu": "demand"}
    parent = workload("p", count=2, granted=1, rv=2)
    made.workloads.seen(parent)
    assert cycle.decide(kept, now=NOW, most=100).writes == ()
    part = slice_of("p", 0)
    assert kept.class_of(part.meta.uid).key == waiting.key_of(part, parent)


@ORDER
def test_a_slice_that_does_not_fit_blocks_nobody() -> None:
    waiting = [workload("p", count=9, granted=1, priority=9), slice_of("p", 0, cpu=10), workload("b")]
    assert names(decide(strict(*waiting))) == ["admit b"]


@ORDER
def test_one_that_no_quota_could_help_blocks_nobody() -> None:
    waiting = [workload("odd", pod_sets=[builders.pod_set(requests={"gpu": 1})], age=9), workload("b")]
    plan = decide(strict(*waiting))
    assert names(plan) == ["admit b"]
    assert told(plan) == {"odd": "pod set main requests gpu, which ClusterQueue team has no quota for"}


@pytest.mark.accept("E11", part="cohorts borrow up to borrowingLimit")
def test_a_cohort_lends_what_is_unused_up_to_the_borrowing_limit() -> None:
    assert names(decide(cohort(5, 5, workload("a", cpu=10)))) == ["admit a"]
    assert names(decide(cohort(5, 5, workload("a", cpu=11)))) == []
    assert names(decide(cohort((5, 2), 5, workload("a", cpu=7)))) == ["admit a"]
    assert names(decide(cohort((5, 2), 5, workload("a", cpu=8)))) == []
    assert names(decide(cohort((5, 9), 5, workload("a", cpu=11)))) == []
    used = workload("used", count=4, granted=4)
    assert names(decide(cohort((5, 2), 5, used, workload("a", cpu=3)))) == ["admit a"]
    assert names(decide(cohort((5, 2), 5, used, workload("a", cpu=4)))) == []
    lent = workload("b", count=3, granted=3, cluster_queue="other", queue="other-door")
    assert names(decide(cohort(5, 5, lent, workload("a", cpu=8)))) == []
    assert names(decide(cohort(5, 5, lent, workload("a", cpu=7)))) == ["admit a"]


@pytest.mark.accept("E11", part="stopPolicy")
@pytest.mark.parametrize("stop", ["Hold", "HoldAndDrain"])
def test_a_stopped_queue_admits_nobody(stop: str) -> None:
    waiting = [workload("p", count=2, granted=1, evicted=stop != "Hold"), slice_of("p", 0), workload("b")]
    plan = decide(usual(cluster_queue(stop=stop, rv=2), *waiting))
    assert names(plan) == []
    assert told(plan)["b"] == "ClusterQueue team is stopped (stopPolicy)"


@pytest.mark.accept("E11", part="stopPolicy")
def test_a_drained_queue_evicts_whom_it_admitted_and_keeps_their_usage() -> None:
    made = usual(cluster_queue(stop="HoldAndDrain", rv=2))
    cluster = Cluster(made, [builders.workload_manifest(name, granted=1) for name in "ab"])
    books = Books(made)
    plan = cycle.decide(books, now=NOW, most=1)
    assert (names(plan), plan.is_cut) == (["evict a"], True)
    cluster.apply(plan.writes)
    cluster.apply(cycle.decide(books, now=NOW, most=9).writes)
    for each in made.workloads:
        assert (each.is_evicted, each.conditions["Evicted"].reason) == (True, "QueueStopped")
    assert list(books.usage["team"].values()) == [2000]
    assert cycle.decide(books, now=NOW, most=9).writes == ()


@pytest.mark.accept("E11", part="stopPolicy")
def test_drained_queues_are_drained_in_the_order_of_their_names() -> None:
    made = tables(*(cluster_queue(name, stop="HoldAndDrain") for name in ("b", "a", "c")))
    for name in "abc":
        made.workloads.seen(workload(f"w{name}", granted=1, cluster_queue=name))
    assert names(decide(made)) == ["evict wa", "evict wb", "evict wc"]


@TOLD
@pytest.mark.parametrize(
    ("changed", "want"),
    [
        (cluster_queue(deleted=True, rv=2), "ClusterQueue team is being deleted"),
        (local_queue(deleted=True, rv=2), "LocalQueue door is being deleted"),
        (local_queue(queue="nowhere", rv=2), "ClusterQueue nowhere does not exist"),
        (
            cluster_queue(namespaceSelector={"matchLabels": {"a": "b"}}, rv=2),
            "ClusterQueue team does not take jobs of this namespace (namespaceSelector)",
        ),
    ],
)
def test_a_door_that_leads_nowhere_is_told(changed: Any, want: str) -> None:
    plan = decide(usual(changed, workload("a")))
    assert (names(plan), told(plan)) == ([], {"a": want})


@TOLD
def test_a_missing_local_queue_is_told() -> None:
    plan = decide(usual(workload("a", queue="nope")))
    assert (names(plan), told(plan)) == ([], {"a": "LocalQueue nope does not exist"})


@TOLD
def test_a_namespace_that_gets_the_label_is_let_in() -> None:
    made = usual(cluster_queue(namespaceSelector={"matchLabels": {"a": "b"}}, rv=2), workload("a"))
    books = Books(made)
    assert cycle.decide(books, now=NOW, most=9).writes == ()
    made.namespaces.seen(builders.namespace(rv=2, a="b"))
    assert names(cycle.decide(books, now=NOW, most=9)) == ["admit a"]


# Time and memory


@pytest.mark.accept("E18", part="the pause before the next attempt")
def test_one_that_is_to_be_tried_later_waits_for_its_time() -> None:
    made = usual(workload("a", status={"requeue": {"count": 1, "at": builders.time(-60)}}))
    assert decide(made) == cycle.CyclePlan(wake_at=NOW + 60)
    assert names(decide(made, now=NOW + 60)) == ["admit a"]


def test_who_was_refused_is_not_looked_at_again_until_room_is_given_back() -> None:
    made = usual(workload("a", count=9, granted=9), *(workload(name, cpu=4) for name in "xyz"))
    books = Books(made)
    assert list(told(cycle.decide(books, now=NOW, most=9))) == ["x"]  # they are alike
    assert cycle.decide(books, now=NOW, most=9).refused == ()
    made.workloads.seen(workload("a", count=8, granted=9, rv=2))
    assert list(told(cycle.decide(books, now=NOW, most=9))) == ["x"]
    made.workloads.seen(workload("a", count=6, granted=9, rv=3))
    assert names(cycle.decide(books, now=NOW, most=9)) == ["admit x"]


def test_who_was_refused_for_the_sake_of_a_write_that_failed_is_looked_at_again() -> None:
    made = usual(workload("a", cpu=9, age=9), workload("b", cpu=8, age=8))
    books = Books(made)
    assert names(cycle.decide(books, now=NOW, most=9)) == ["admit a"]  # and the write fails: a is gone
    made.workloads.gone(workload("a", rv=2).meta)
    assert names(cycle.decide(books, now=NOW, most=9)) == ["admit b"]


def test_a_plan_has_no_more_writes_than_allowed_and_says_that_there_is_more() -> None:
    made = usual(*(workload(name) for name in "abc"))
    plan = decide(made, most=2)
    assert (names(plan), plan.is_cut) == (["admit a", "admit b"], True)
    assert not decide(made, most=3).is_cut
    large = decide(usual(workload("a", cpu=9, age=9), workload("b", cpu=8, age=8)), most=1)
    assert (names(large), large.refused) == (["admit a"], ())  # who is behind is not looked at


# What is written


@pytest.mark.accept("E16", part="admission is written whole, on what was decided upon")
def test_an_admission_is_written_whole() -> None:
    sets = [builders.pod_set("head", 1), builders.pod_set("gpu", 2), builders.pod_set("idle", 0)]
    status = {"claim": builders.admission({"head": 1, "gpu": 2}), "position": 3, "estimatedWaitSeconds": 9}
    told = [condition("Evicted", holds=False), condition("ResizeRequested")]
    made = usual(cluster_queue(generation=7, rv=2))
    cluster = Cluster(made, [builders.workload_manifest("a", pod_sets=sets, status=status, conditions=told)])
    books = Books(made)
    cluster.apply(cycle.decide(books, now=NOW, most=9).writes)
    (stored,) = made.workloads
    assert stored.admission is not None
    assert (stored.admission.cluster_queue, stored.admission.generation) == ("team", 7)
    assert {each.name: (each.count, dict(each.flavors)) for each in stored.admission.assignments} == {
        "head": (1, {"cpu": "spot"}),
        "gpu": (2, {"cpu": "spot"}),
    }
    assert stored.first_admitted == {"head": 1, "gpu": 2, "idle": 0}
    assert (stored.claim, stored.position, stored.estimated_wait_seconds) == (None, None, None)
    assert {kind: each.holds for kind, each in stored.conditions.items()} == {
        "QuotaReserved": True,
        "Admitted": True,
        "PodsReady": False,
        "Evicted": False,
        "ResizeRequested": True,
    }
    assert stored.conditions["PodsReady"].reason == "PodsNotReadyYet"


def test_the_admission_of_a_slice_says_nothing_of_its_pods() -> None:
    plan = decide(usual(workload("a", count=2, granted=1), slice_of("a", 0)))
    (write,) = plan.writes
    assert "firstAdmitted" not in write.body
    assert [each["type"] for each in write.body["conditions"]] == ["QuotaReserved", "Admitted"]


@pytest.mark.accept("E10", part="comes back with what it was first admitted with")
def test_one_comes_back_with_no_more_than_it_was_first_admitted_with() -> None:
    first = {"firstAdmitted": [{"name": "main", "count": 2}]}
    sets = [builders.pod_set("main", 5), builders.pod_set("later", 3)]
    made = usual()
    cluster = Cluster(made, [builders.workload_manifest("a", pod_sets=sets, status=first)])
    cluster.apply(cycle.decide(Books(made), now=NOW, most=9).writes)
    (stored,) = made.workloads
    assert stored.admission is not None
    assert {each.name: each.count for each in stored.admission.assignments} == {"main": 2}
    assert stored.first_admitted == {"main": 2}
    smaller = usual(workload("a", count=1, status=first))
    (write,) = decide(smaller).writes
    assert [each["count"] for each in write.body["admission"]["podSetAssignments"]] == [1]


@pytest.mark.accept("E16", part="admission is written whole, on what was decided upon")
def test_a_write_on_what_has_changed_meanwhile_fails() -> None:
    made = usual()
    cluster = Cluster(made, [builders.workload_manifest("a")])
    plan = cycle.decide(Books(made), now=NOW, most=9)
    cluster.change("a", {"spec": {"priority": 3}})
    with pytest.raises(Conflict):
        cluster.apply(plan.writes)
    assert plan.writes[0].step is Step.ADMIT


# Who waits


@pytest.mark.accept("E14", part="evicted and finished work, and slices of it, are never nominated")
@pytest.mark.parametrize(
    "given",
    [
        {"active": False},
        {"finished": True},
        {"deleted": True},
        {"evicted": True},
        {"evicted": True, "granted": 1},
    ],
)
def test_those_are_never_nominated(given: dict[str, Any]) -> None:
    assert decide(usual(workload("a", **given))) == cycle.CyclePlan()
    assert decide(usual(workload("a", **{"granted": 1, **given}), slice_of("a", 0))) == cycle.CyclePlan()


@pytest.mark.accept("E14", part="evicted and finished work, and slices of it, are never nominated")
def test_a_workload_with_slices_is_never_nominated() -> None:
    assert names(decide(usual(workload("a"), slice_of("a", 0)))) == []
    assert names(decide(usual(workload("a"), slice_of("a", 0, parent_uid="another")))) == ["admit a"]
