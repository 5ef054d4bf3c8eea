"""What is written when one displaces others, and how long a claim is kept."""

from typing import Any

import pytest

from autoscaler.admission.quota import cycle
from autoscaler.admission.quota.cache.configuration import Tables
from tests.autoscaler.admission import builders
from tests.autoscaler.admission.builders import (
    NOW,
    admission,
    cluster_queue,
    flavor,
    local_queue,
    tables,
    workload_manifest,
)
from tests.autoscaler.admission.plays import Manifest, Play, one_queue, running, theirs, two_queues

pytestmark = pytest.mark.accept("E10", part="what is claimed, for how long, and who comes first")


# The claim comes first


def test_first_the_claim_then_the_evictions_then_the_admission() -> None:
    play = Play(one_queue(), running("low", 10), workload_manifest("high", count=4, priority=1))
    assert play.step() == ["claim high"]
    assert play.step() == ["evict low"]
    assert play.reason("low") == "Preempted"
    assert play.step() == []  # usage is kept until the pods are gone
    play.clear("low")
    assert play.step() == ["admit high"]
    assert play.step() == []
    (high,) = (each for each in play.books.families._workloads.values() if each.meta.key.name == "high")
    assert (high.claim, play.books.ledger.taken("team")) == (None, play.books.usage["team"])


def test_one_that_displaces_others_is_told_whom() -> None:
    play = Play(one_queue(), *(running(f"low{number}", 1) for number in range(10)))
    play.cluster.put(workload_manifest("high", count=7, priority=1))
    (write,) = cycle.decide(play.books, now=NOW, most=100).writes
    assert write.why == (
        "it has room once these are evicted, which is under way: "
        "team/low0, team/low1, team/low2, team/low3, team/low4 and 2 more"
    )


def test_nobody_else_is_admitted_into_a_claim() -> None:
    play = Play(one_queue(), running("low", 8), workload_manifest("high", count=10, priority=1))
    play.cluster.put(workload_manifest("behind", cpu=2))
    assert play.step() == ["claim high"]
    play.cluster.put(workload_manifest("tiny", priority=2))
    assert play.step() == ["evict low"]
    play.clear("low")
    assert play.step() == ["admit high"]


def test_evictions_that_were_cut_off_are_done_in_the_next_plan() -> None:
    play = Play(one_queue(), running("a", 5), running("b", 5), workload_manifest("high", count=10, priority=1))
    assert [play.step(most=1) for _ in range(4)] == [["claim high"], ["evict a"], ["evict b"], []]


def test_one_that_has_a_claim_is_not_blocked_by_a_new_head_of_a_strict_queue() -> None:
    play = Play(one_queue(strict=True), running("low", 10), workload_manifest("high", count=4, priority=1))
    play.step()
    play.cluster.put(workload_manifest("top", count=11, priority=2))
    assert play.step() == ["evict low"]
    play.clear("low")
    assert play.step() == ["admit high"]


def test_one_that_comes_second_does_not_count_on_whom_the_first_displaces() -> None:
    play = Play(one_queue(), running("low1", 5), running("low2", 5), workload_manifest("b", count=5, priority=1))
    play.cluster.put(workload_manifest("a", count=5, priority=2))
    assert [play.step() for _ in range(4)] == [["claim a"], ["evict low1", "claim b"], ["evict low2"], []]


def test_claims_that_can_all_be_had_are_not_in_each_others_way_and_the_worst_gives_way() -> None:
    claim = {"claim": admission({"main": 5})}
    play = Play(one_queue(), running("low1", 5, evicted=True), running("low2", 5))
    for name, priority in (("b", 1), ("a", 2)):
        play.cluster.put(workload_manifest(name, count=5, priority=priority, status=claim))
    assert (play.step(), play.step()) == (["evict low2"], [])
    play.cluster.put(workload_manifest("c", count=5, priority=3, status=claim))
    assert (play.step(), play.step()) == (["claim b"], [])
    assert [each.meta.key.name for each in play.books.claimants()] == ["a", "c"]


def test_victims_of_one_claim_count_as_gone_for_the_next_in_the_same_plan() -> None:
    play = Play(one_queue(), running("mid", 8, priority=1), running("low", 2))
    play.cluster.put(workload_manifest("a", count=5, priority=2))
    play.cluster.put(workload_manifest("b", count=4, priority=1))
    assert play.step() == ["claim a", "claim b"]


def test_those_of_a_drained_queue_count_as_gone_in_the_same_plan() -> None:
    made = two_queues(cluster_queue("other", flavors={"spot": {"cpu": 5}}, cohort="all", stop="HoldAndDrain", rv=2))
    made.cluster_queues.seen(cluster_queue("team", flavors={"spot": {"cpu": 5}}, cohort="all", reclaim="Any", rv=2))
    play = Play(made, theirs("a", 10), workload_manifest("mine", count=5))
    assert play.step() == ["evict a"]


def test_one_that_waits_for_those_it_displaces_is_told_so() -> None:
    play = Play(one_queue(), running("low", 10), workload_manifest("high", count=4, priority=1))
    want = "waits until displaced jobs have given their quota back; needs 4 cpu of flavor spot, 0 are free: 4 missing"
    assert play.told() == {"high": want}
    play.step()
    play.step()
    assert play.told() == {"high": want}
    play.cluster.tables.flavors.gone(flavor(rv=2).meta)
    want = "no flavor of ClusterQueue team suits pod set main: flavor spot does not exist"
    assert play.told() == {"high": want}


# Who comes first


def borrowers(*stored: Any, spare: int, **other: Any) -> Tables:
    """A queue `team` of 5 that may not borrow, `other` that lends, and `poor`, which has nothing of its own."""
    return tables(
        flavor(),
        cluster_queue("team", flavors={"spot": {"cpu": (5, 0)}}, cohort="all", within="LowerPriority"),
        cluster_queue("other", flavors={"spot": {"cpu": spare}}, cohort="all", **other),
        cluster_queue("poor", flavors={"spot": {"cpu": 0}}, cohort="all"),
        local_queue("door", queue="team"),
        local_queue("poor-door", queue="poor"),
        *stored,
    )


def test_one_that_displaces_within_its_quota_comes_before_one_that_borrows() -> None:
    play = Play(borrowers(spare=6), running("low", 5), workload_manifest("x", count=5, priority=1))
    play.cluster.put(workload_manifest("y", cpu=5, priority=9, queue="poor-door"))
    play.cluster.put(workload_manifest("z", cpu=1, queue="poor-door"))
    plan = cycle.decide(play.books, now=NOW, most=9)
    assert [f"{write.step} {write.key.name}" for write in plan.writes] == ["claim x", "admit z"]
    assert [each.workload.meta.key.name for each in plan.refused] == ["x", "y"]  # each is told once


def test_one_that_would_borrow_by_displacing_comes_after_those_that_would_not() -> None:
    made = two_queues(within="LowerPriority")
    made.cluster_queues.seen(cluster_queue("other", flavors={"spot": {"cpu": 5}}, cohort="all", reclaim="Any", rv=2))
    play = Play(made, running("low", 7), theirs("a", 3), workload_manifest("high", count=6, priority=9))
    play.cluster.put(workload_manifest("modest", count=2, queue="other-door"))
    assert play.step() == ["claim modest"]


def test_what_is_claimed_in_this_very_plan_makes_nobody_a_borrower() -> None:
    """The third queue uses more than its own only by what `next` claims: nobody of it is displaced for `mine`."""
    quota = {"spot": {"cpu": 5, "memory": 0}}
    made = tables(
        flavor(),
        cluster_queue("team", flavors=quota, cohort="all", reclaim="Any", strict=True),
        cluster_queue("other", flavors={"spot": {"cpu": 5, "memory": 5}}, cohort="all"),
        cluster_queue("third", flavors=quota, cohort="all", within="LowerPriority"),
        local_queue("door", queue="team"),
        local_queue("third-door", queue="third"),
    )
    play = Play(
        made,
        running("busy", 3),
        theirs("own", 5),
        running("low", 1, cluster_queue="third", queue="third-door"),
        running("kept", 4, cluster_queue="third", queue="third-door", priority=20),
        workload_manifest("next", count=3, queue="third-door", priority=10),
        workload_manifest("first", pod_sets=[builders.pod_set(requests={"memory": 1})], priority=5),
        workload_manifest("mine", count=2),
    )
    assert play.step() == ["claim next", "admit first"]
    assert play.step() == ["evict low"]


# When a claim is dropped


def test_a_claim_is_dropped_when_its_owner_wants_something_else() -> None:
    play = Play(one_queue(), running("low", 10), workload_manifest("high", count=4, priority=1))
    play.step()
    play.cluster.change("high", {"spec": {"podSets": [builders.pod_set(count=5)]}})
    assert play.step() == ["claim high"]
    assert play.books.claimants() == []
    assert play.step() == ["claim high"]
    assert play.step() == ["evict low"]


@pytest.mark.parametrize(
    "claimed",
    [
        admission({"main": 4}),
        admission({"main": 4, "more": 2}),
        admission({"main": 3, "more": 1}),
        admission({"main": 4, "more": 1}, queue="gone"),
    ],
)
def test_a_claim_is_for_all_of_what_its_owner_wants(claimed: Manifest) -> None:
    sets = [builders.pod_set("main", 4), builders.pod_set("more", 1)]
    play = Play(one_queue(), running("low", 10))
    play.cluster.put(workload_manifest("high", pod_sets=sets, priority=1, status={"claim": claimed}))
    assert (play.step(), play.books.claimants()) == (["claim high"], [])


def test_a_claim_needs_nothing_for_a_pod_set_of_no_pods() -> None:
    sets = [builders.pod_set("main", 4), builders.pod_set("idle", 0)]
    claim = {"claim": admission({"main": 4})}
    play = Play(one_queue(), running("low", 10))
    play.cluster.put(workload_manifest("high", pod_sets=sets, priority=1, status=claim))
    assert play.step() == ["evict low"]


def test_whom_the_first_claim_displaces_counts_as_gone_for_the_second() -> None:
    play = Play(one_queue(), running("mid", 8, priority=1), running("low", 2))
    for name, count, priority in (("a", 8, 2), ("b", 2, 1)):
        claim = {"claim": admission({"main": count})}
        play.cluster.put(workload_manifest(name, count=count, priority=priority, status=claim))
    assert play.step() == ["evict mid", "evict low"]


def test_a_claim_is_dropped_when_its_local_queue_leads_elsewhere() -> None:
    play = Play(one_queue(), running("low", 10), workload_manifest("high", count=4, priority=1))
    play.step()
    play.cluster.tables.cluster_queues.seen(cluster_queue("other", flavors={"spot": {"cpu": 1}}))
    play.cluster.tables.local_queues.seen(local_queue(queue="other", rv=2))
    assert (play.step(), play.step()) == (["claim high"], [])


def test_one_that_fits_after_all_is_admitted_in_one_write() -> None:
    play = Play(one_queue(), running("low", 10), workload_manifest("high", count=4, priority=1))
    play.step()
    play.cluster.change("high", {"spec": {"podSets": [builders.pod_set(count=5)]}})
    play.cluster.remove("low")
    assert (play.step(), play.step()) == (["admit high"], [])
    assert play.books.claimants() == []


def test_a_claim_that_cannot_be_had_is_in_nobodys_way() -> None:
    play = Play(one_queue(), running("top", 5, priority=9), running("low", 5))
    for name, count, priority in (("a", 8, 2), ("b", 5, 1)):
        claim = {"claim": admission({"main": count})}
        play.cluster.put(workload_manifest(name, count=count, priority=priority, status=claim))
    assert play.step() == ["claim a", "evict low"]


@pytest.mark.parametrize("change", [{"spec": {"active": False}}, {"spec": {"queueName": "nowhere"}}])
def test_a_claim_is_dropped_when_its_owner_no_longer_waits_for_it(change: Manifest) -> None:
    play = Play(one_queue(), running("low", 10), workload_manifest("high", count=4, priority=1))
    play.step()
    play.cluster.change("high", change)
    assert play.step() == ["claim high"]
    assert (play.books.claimants(), play.step()) == ([], [])


def test_a_claim_is_dropped_when_its_queue_is_stopped() -> None:
    play = Play(one_queue(), running("low", 10), workload_manifest("high", count=4, priority=1))
    play.step()
    play.cluster.tables.cluster_queues.seen(cluster_queue(within="LowerPriority", stop="Hold", rv=2))
    assert (play.step(), play.step()) == (["claim high"], [])


def test_a_claim_of_one_that_is_being_deleted_is_left_alone_and_holds_nothing() -> None:
    claim = {"claim": admission({"main": 10})}
    play = Play(one_queue(), workload_manifest("high", count=10, deleted=True, status=claim), workload_manifest("b"))
    assert (play.step(), play.step()) == (["admit b"], [])


def test_a_claim_is_dropped_when_displacing_others_no_longer_suffices() -> None:
    play = Play(one_queue(), running("low", 10), workload_manifest("high", count=4, priority=1))
    play.step()
    play.cluster.change("low", {"spec": {"priority": 1}})
    assert play.step() == ["claim high"]
    assert (play.books.claimants(), play.step()) == ([], [])


def test_a_claim_is_kept_while_those_who_are_leaving_suffice() -> None:
    play = Play(one_queue(within="Never"), running("low", 10, evicted=True))
    play.cluster.put(workload_manifest("high", count=4, status={"claim": admission({"main": 4})}))
    assert play.step() == []
    assert len(play.books.claimants()) == 1


def test_a_claim_of_one_that_is_gone_holds_nothing() -> None:
    play = Play(one_queue(), running("low", 8), workload_manifest("high", count=10, priority=1))
    play.step()
    play.cluster.remove("high")
    play.cluster.put(workload_manifest("tiny"))
    assert play.step() == ["admit tiny"]
