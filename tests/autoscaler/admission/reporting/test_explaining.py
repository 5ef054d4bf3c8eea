"""What `explain` says is computed anew from objects alone, and changes nothing."""

from autoscaler.admission.quota.cache.books import Tables
from autoscaler.admission.reporting import explaining
from autoscaler.admission.reporting.explaining import Evidence, Explanation
from autoscaler.admission.workloads.workload import Workload
from tests.autoscaler.admission.builders import (
    NOW,
    admission,
    cluster_queue,
    condition,
    flavor,
    local_queue,
    slice_of,
    tables,
    time,
    usual,
    workload,
)


def explained(made: Tables, stored: Workload) -> Explanation:
    made.workloads.seen(stored)
    return explaining.of_workload(Evidence.of(made, NOW), stored)


def fact(explanation: Explanation, name: str) -> str:
    return dict(explanation.facts)[name]


def test_who_claims_what_is_said_to_all_of_the_cohort() -> None:
    claim = {"claim": admission({"main": 1})}
    made = usual(workload("b", cpu=4, status=claim), workload("c", granted=9, count=9))
    told = explained(made, workload("a"))
    assert fact(told, "claim") == "team/b holds 4 cpu of flavor spot until those that it displaces are gone"
    [row] = told.rows
    assert (row.used, row.claimed, row.quota, row.free) == ("9", "4", "10", "0")


def test_one_for_which_there_is_room_is_told_so() -> None:
    told = explained(usual(), workload("a"))
    assert "there is room for it in ClusterQueue team" in fact(told, "why not yet")
    assert fact(told, "position") == "1 of 1"


def test_the_estimate_is_said_in_seconds_minutes_or_hours() -> None:
    def estimate(apart: float) -> str:
        there = [workload(f"b{number}", granted=1, admitted_ago=apart * (4 - number)) for number in range(4)]
        return fact(explained(usual(*there), workload("a", cpu=10)), "estimate")

    assert [estimate(each) for each in (10, 600, 36_000)] == ["about 10 seconds", "about 10 minutes", "about 10 hours"]


def test_a_strict_queue_is_blocked_only_by_who_lacks_room() -> None:
    made = tables(flavor(), cluster_queue(strict=True), local_queue())
    made.workloads.seen(workload("odd", age=500, pod_sets=[{"name": "main", "count": 1, "requests": {"fpga": 1}}]))
    assert "there is room" in fact(explained(made, workload("a")), "why not yet")
    made.workloads.seen(workload("big", age=400, cpu=11))
    assert fact(explained(made, workload("a", rv=2)), "why not yet") == "waits behind team/big in ClusterQueue team"


def test_each_state_is_named() -> None:
    states = {
        "finished": workload("a", finished=True),
        "is being deleted": workload("a", deleted=True, granted=1),
        "evicted": workload("a", evicted=True, granted=1),
        f"admitted since {time(50)}: 1 pod of main on spot": workload("a", granted=1),
        f"admitted since {time(50)}: no pods": workload("a", pod_sets=[], granted={}),
        "waits": workload("a"),
    }
    for want, stored in states.items():
        assert fact(explained(usual(), stored), "state").startswith(want)


def test_what_is_missing_on_the_way_to_quota_is_marked() -> None:
    assert fact(explained(tables(), workload("a")), "queue") == "LocalQueue door (missing)"
    found = fact(explained(tables(local_queue()), workload("a")), "queue")
    assert found == "LocalQueue door, ClusterQueue team (missing)"


def test_a_resize_that_is_settled_is_not_spoken_of() -> None:
    told = explained(usual(), workload("a", granted=1, conditions=[condition("ResizeRequested", holds=False)]))
    assert "resize" not in dict(told.facts)


def test_an_older_slice_passes_the_workload_that_blocks_a_strict_queue() -> None:
    made = tables(flavor(), cluster_queue(strict=True), local_queue(), workload("p", granted=10, count=12))
    made.workloads.seen(workload("big", age=20, cpu=11))
    older, younger = slice_of("p", age=30), slice_of("p", 1, age=10)
    assert fact(explained(made, older), "why not yet").startswith("needs 1 cpu")
    assert fact(explained(made, younger), "why not yet").startswith("waits behind team/big")
