"""Who displaces whom, and that nobody is evicted in vain."""

from typing import Any

import pytest

from autoscaler.admission.quota.cache.configuration import Tables
from tests.autoscaler.admission import builders
from tests.autoscaler.admission.builders import (
    admission,
    cluster_queue,
    flavor,
    local_queue,
    pod,
    slice_manifest,
    tables,
    workload_manifest,
)
from tests.autoscaler.admission.plays import Manifest, Play, one_queue, running, theirs, two_queues

pytestmark = pytest.mark.accept("E10", part="whom it takes, and in which order it is written")


# Whom it takes


@pytest.mark.parametrize("priority", [0, 1])
def test_within_a_queue_only_lower_priorities_are_displaced(priority: int) -> None:
    play = Play(one_queue(), running("a", 10, priority=1), workload_manifest("b", priority=priority))
    assert play.step() == []


def test_nobody_is_displaced_where_the_policy_says_never() -> None:
    play = Play(one_queue(within="Never"), running("a", 10), workload_manifest("b", priority=1))
    assert play.step() == []
    play = Play(two_queues(mine=5, theirs=5), theirs("a", 10), workload_manifest("b", priority=1))
    assert play.step() == []


def test_within_and_beyond_the_queue_each_policy_holds_for_itself() -> None:
    high = workload_manifest("high", count=5, priority=1)
    play = Play(two_queues(within="Never", reclaim="Any"), running("low", 5), theirs("own", 5), high)
    assert play.step() == []
    play = Play(two_queues(within="LowerPriority", reclaim="Never"), theirs("low", 10), high)
    assert play.step() == []


def test_lowest_priority_goes_first_then_the_youngest_then_by_uid() -> None:
    low = [
        running("mid", 2, priority=1, admitted_ago=1),
        running("old", 2, admitted_ago=90),
        running("young1", 2, admitted_ago=5),
        running("young2", 2, admitted_ago=5),
    ]
    play = Play(one_queue(flavors={"spot": {"cpu": 8}}), *low, workload_manifest("high", count=7, priority=5))
    play.step()
    assert play.step() == ["evict young1", "evict young2", "evict old", "evict mid"]


def test_no_more_are_displaced_than_needed() -> None:
    play = Play(
        one_queue(),
        running("small", 1, admitted_ago=1),
        running("big", 9, admitted_ago=9),
        workload_manifest("high", count=9, priority=1),
    )
    play.step()
    assert play.step() == ["evict big"]


def test_of_two_that_could_be_spared_the_one_that_matters_more_is() -> None:
    low = [
        running("young", 2, admitted_ago=1),
        running("old", 2, admitted_ago=9),
        running("mid", 4, priority=1),
        running("top", 2, priority=9),
    ]
    play = Play(one_queue(), *low, workload_manifest("high", count=5, priority=5))
    play.step()
    assert play.step() == ["evict young", "evict mid"]


def test_where_nothing_is_lent_to_others_one_may_borrow_rather_than_displace_more() -> None:
    play = Play(two_queues(within="LowerPriority"), running("low1", 5), running("low2", 5))
    play.cluster.put(workload_manifest("high", count=5, priority=1))
    assert (play.step(), play.step()) == (["claim high"], ["evict low1"])


def test_what_queues_of_another_cohort_use_makes_no_difference() -> None:
    made = two_queues(cluster_queue("far", cohort="another"), within="LowerPriority", reclaim="Any")
    far = running("far", 9, cluster_queue="far", queue="far-door")
    play = Play(made, running("low1", 5), running("low2", 5), far, workload_manifest("high", count=5, priority=1))
    assert (play.step(), play.step()) == (["claim high"], ["evict low1"])


def test_victims_of_all_queues_are_taken_by_priority() -> None:
    made = two_queues(within="LowerPriority", reclaim="LowerPriority")
    play = Play(made, running("mine", 3, priority=1), theirs("lent", 7), workload_manifest("high", count=2, priority=2))
    assert (play.step(), play.step()) == (["claim high"], ["evict lent"])


def test_one_takes_back_what_was_lent_and_displaces_within_its_queue_for_the_rest() -> None:
    made = two_queues(within="LowerPriority", reclaim="Any")
    play = Play(made, running("low", 3), theirs("lent", 7), workload_manifest("high", count=5, priority=1))
    play.step()
    assert sorted(play.step()) == ["evict lent", "evict low"]


def test_nobody_is_evicted_unless_the_whole_set_suffices() -> None:
    play = Play(one_queue(), running("low", 5), running("equal", 5, priority=1))
    play.cluster.put(workload_manifest("high", count=6, priority=1))
    assert play.step() == []


def test_strays_are_never_displaced() -> None:
    play = Play(one_queue(pod(job_uid="gone", cpu=5)), running("low", 5), workload_manifest("b", count=6, priority=1))
    assert play.step() == []


@pytest.mark.parametrize("leaving", ["evicted", "finished", "deleted"])
def test_those_who_are_leaving_count_as_free(leaving: str) -> None:
    going = running("going", 5, **{leaving: True})
    play = Play(one_queue(), going, running("low", 5), workload_manifest("b", count=5, priority=1))
    assert play.step() == []
    play = Play(one_queue(), going, running("low", 5), workload_manifest("b", count=6, priority=1))
    assert (play.step(), play.step()) == (["claim b"], ["evict low"])


@pytest.mark.parametrize("how", [{"evicted": True}, {"deleted": True}, {"active": False}], ids=str)
def test_who_is_leaving_frees_nothing_while_pods_that_nobody_owns_run_on(how: Manifest) -> None:
    going, orphan = running("going", 5, **how), pod(job_uid="u-job-going", owned=False)
    play = Play(one_queue(orphan), going, running("low", 5), workload_manifest("b", count=6, priority=1))
    assert play.step() == []
    play.cluster.tables.pods.seen(pod(job_uid="u-job-going", owned=False, deleted=True, rv=2))
    assert (play.step(), play.step()) == (["claim b"], ["evict low"])


def test_one_of_whose_pods_nobody_owns_one_is_not_displaced_until_that_has_ended() -> None:
    orphan = pod(job_uid="u-job-low", owned=False)
    play = Play(one_queue(orphan), running("low", 5), running("lower", 5, priority=-1))
    play.cluster.put(workload_manifest("b", count=6, priority=1))
    assert play.step() == []
    play.cluster.tables.pods.seen(pod(job_uid="u-job-low", owned=False, phase="Succeeded", rv=2))
    assert (play.step(), play.step()) == (["claim b"], ["evict lower", "evict low"])


def test_a_slice_displaces_by_its_parents_priority_and_never_its_own_family() -> None:
    slices = slice_manifest("p", 0, count=2)
    parent = workload_manifest("p", count=4, granted=2, priority=1)
    play = Play(one_queue(), parent, slices, running("low", 8))
    assert (play.step(), play.step()) == (["claim p-main-0"], ["evict low"])
    play = Play(one_queue(within="Never", reclaim="Any"), workload_manifest("p", count=12, granted=10), slices)
    assert play.step() == []
    cousin = running("cousin", 8, job_uid="u-job-p")
    play = Play(one_queue(), parent, slices, cousin)
    assert play.step() == []


def test_the_slices_of_a_victim_go_with_it() -> None:
    slices = [slice_manifest("low", each, granted=1) for each in range(5)]
    slices.append(slice_manifest("low", 5))
    play = Play(one_queue(), workload_manifest("low", count=10, granted=5), *slices)
    play.cluster.put(workload_manifest("high", count=10, priority=1))
    assert (play.step(), play.step()) == (["claim high"], ["evict low"])


# Taking back what was lent


@pytest.mark.parametrize(
    ("reclaim", "priority", "want"), [("Any", 9, True), ("LowerPriority", 9, False), ("LowerPriority", -1, True)]
)
def test_borrowed_quota_is_taken_back_as_the_policy_says(reclaim: str, priority: int, *, want: bool) -> None:
    play = Play(two_queues(reclaim=reclaim), theirs("a", 4, priority=priority), theirs("b", 4, priority=priority))
    play.cluster.put(workload_manifest("mine", count=4))
    assert play.step() == (["claim mine"] if want else [])
    if want:
        assert play.step() == ["evict a"]
        assert play.reason("a") == "Reclaimed"


def test_a_queue_that_no_longer_borrows_loses_nobody() -> None:
    third = cluster_queue("third", flavors={"spot": {"cpu": 5}}, cohort="all")
    play = Play(
        two_queues(third, local_queue("third-door", queue="third"), reclaim="Any"),
        theirs("a", 3),
        theirs("b", 3),  # without a, its queue uses only its own
        running("c", 9, cluster_queue="third", queue="third-door", priority=5),
    )
    play.cluster.put(workload_manifest("mine", count=5))
    assert (play.step(), play.step()) == (["claim mine"], ["evict c"])


def test_what_is_only_claimed_makes_nobody_a_borrower() -> None:
    third = cluster_queue("third", flavors={"spot": {"cpu": 5}}, cohort="all", within="LowerPriority")
    claim = {"claim": admission({"main": 4}, queue="third")}
    play = Play(
        two_queues(third, local_queue("third-door", queue="third"), reclaim="Any"),
        theirs("a", 4, evicted=True),
        theirs("lent", 6, priority=7),
        running("own", 5, cluster_queue="third", queue="third-door"),
        workload_manifest("next", count=4, queue="third-door", status=claim, age=200),
    )
    play.cluster.put(workload_manifest("mine", count=5))
    assert (play.step(), play.step()) == (["claim mine"], ["evict lent"])


def test_nobody_is_displaced_for_what_another_only_claims() -> None:
    third = cluster_queue("third", flavors={"spot": {"cpu": 5}}, cohort="all")
    claim = {"claim": admission({"main": 4}, queue="third")}
    play = Play(
        two_queues(third, local_queue("third-door", queue="third"), reclaim="Any"),
        theirs("own", 5),
        running("theirs", 5, cluster_queue="third", queue="third-door"),
        workload_manifest("next", count=4, queue="third-door", status=claim, age=200),
        workload_manifest("mine", count=5),
    )
    assert play.step() == ["admit next"]


def test_a_queue_that_borrows_one_resource_of_those_that_are_lacking_loses_somebody() -> None:
    quota = {"spot": {"cpu": 5, "memory": 5}}
    made = tables(
        flavor(),
        *(cluster_queue(name, flavors=quota, cohort="all", reclaim="Any") for name in ("team", "other", "third")),
        *(local_queue(door, queue=name) for door, name in (("door", "team"), ("other-door", "other"))),
    )
    both = {"cpu": "spot", "memory": "spot"}

    def with_sets(name: str, cpu: int, memory: int, **more: Any) -> Manifest:
        sets = [builders.pod_set(count=5, requests={"cpu": cpu, "memory": memory})]
        return workload_manifest(name, pod_sets=sets, flavors=both, **more)

    play = Play(
        made,
        with_sets("much-cpu", 2, 1, granted=5, cluster_queue="other", queue="other-door"),
        with_sets("much-memory", 1, 2, granted=5, cluster_queue="third", priority=5),
        with_sets("mine", 1, 1),
    )
    assert (play.step(), play.step()) == (["claim mine"], ["evict much-cpu"])


def test_only_one_that_stays_within_nominal_takes_back() -> None:
    play = Play(two_queues(reclaim="Any"), theirs("a", 8), workload_manifest("mine", count=6))
    assert play.step() == []
    play = Play(two_queues(reclaim="Any"), theirs("a", 8), workload_manifest("mine", count=5))
    assert play.step() == ["claim mine"]


def test_one_that_borrows_may_displace_within_its_queue() -> None:
    made = two_queues(within="LowerPriority", reclaim="Any")
    play = Play(made, running("low", 7), theirs("a", 3), workload_manifest("high", count=6, priority=1))
    assert (play.step(), play.step()) == (["claim high"], ["evict low"])


def two_flavors(*stored: Any, **queue: Any) -> Tables:
    quota = {"spot": {"cpu": 5}, "demand": {"cpu": 5}}
    return tables(flavor("spot"), flavor("demand"), cluster_queue(flavors=quota, **queue), local_queue(), *stored)


def test_a_flavor_in_which_displacing_helps_is_found_behind_one_in_which_it_does_not() -> None:
    made = two_flavors(within="LowerPriority")
    play = Play(made, running("equal", 5, priority=1), running("low", 5, flavors={"cpu": "demand"}))
    play.cluster.put(workload_manifest("high", count=5, priority=1))
    assert (play.step(), play.step()) == (["claim high"], ["evict low"])


def test_one_that_has_a_claim_keeps_to_its_flavors() -> None:
    claim = {"claim": admission({"main": 5}, flavors={"cpu": "demand"})}
    play = Play(two_flavors(within="LowerPriority"), running("a", 5), running("b", 5, flavors={"cpu": "demand"}))
    play.cluster.put(workload_manifest("high", count=5, priority=1, status=claim))
    assert play.step() == ["evict b"]


def test_flavors_that_were_tried_come_last_for_one_that_displaces_too() -> None:
    tried = {"requeue": {"count": 1, "at": builders.time(1), "flavorsTried": ["spot"]}}
    play = Play(two_flavors(within="LowerPriority"), running("a", 5), running("b", 5, flavors={"cpu": "demand"}))
    play.cluster.put(workload_manifest("high", count=5, priority=1, status=tried))
    assert (play.step(), play.step()) == (["claim high"], ["evict b"])


def test_a_flavor_that_nobody_borrows_is_passed_over_for_one_that_is_lent() -> None:
    quota = {"spot": {"cpu": 5}, "demand": {"cpu": 5}}
    other = cluster_queue("other", flavors=quota, cohort="all")
    made = two_flavors(other, local_queue("other-door", queue="other"), cohort="all", reclaim="Any")
    play = Play(made, running("mine", 5), theirs("own", 5), theirs("lent", 10, flavors={"cpu": "demand"}))
    play.cluster.put(workload_manifest("next", count=5))
    assert (play.step(), play.step()) == (["claim next"], ["evict lent"])


def test_every_flavor_of_the_group_that_has_the_most_is_tried() -> None:
    groups = [{"spot": {"cpu": 5}}, {"a100": {"gpu": 5}, "h100": {"gpu": 5}}]
    made = tables(
        *map(flavor, ("spot", "a100", "h100")),
        cluster_queue("team", groups=groups, cohort="all", reclaim="Any"),
        cluster_queue("other", groups=groups, cohort="all"),
        local_queue("door", queue="team"),
    )

    def with_gpus(name: str, count: int, kind: str, **more: Any) -> Manifest:
        sets = [builders.pod_set(count=count, requests={"gpu": 1})]
        return workload_manifest(name, pod_sets=sets, flavors={"gpu": kind}, **more)

    play = Play(
        made,
        with_gpus("mine", 5, "a100", granted=5),
        with_gpus("own", 5, "a100", granted=5, cluster_queue="other"),
        with_gpus("lent", 10, "h100", granted=10, cluster_queue="other"),
        with_gpus("next", 5, "h100"),
    )
    assert (play.step(), play.step()) == (["claim next"], ["evict lent"])
