"""Which flavor a pod set gets, and why not another."""

from typing import Any

import pytest

from autoscaler.admission.quota import cycle, refusals
from autoscaler.admission.quota.cache.books import Books
from autoscaler.admission.quota.cache.configuration import Tables
from autoscaler.admission.workloads.workload import Workload
from tests.autoscaler.admission import builders
from tests.autoscaler.admission.applying import Cluster
from tests.autoscaler.admission.builders import (
    NOW,
    cluster_queue,
    flavor,
    local_queue,
    pod_set,
    slice_manifest,
    tables,
    workload_manifest,
)

KEPT = pytest.mark.accept("E9", part="slices of one pod set keep to one flavor")
BOTH = {"spot": {"cpu": 4}, "demand": {"cpu": 8}}
TAINT = {"key": "spot", "value": "yes", "effect": "NoSchedule"}


def two_flavors(*stored: Any, flavors: Any = None, spot: Any = None, **queue: Any) -> Tables:
    every = cluster_queue(flavors=flavors or BOTH, **queue)
    return tables(flavor("spot", **(spot or {})), flavor("demand"), every, local_queue(), *stored)


def decided(made: Tables, *manifests: Any) -> tuple[dict[str, Workload], dict[str, str]]:
    """Carry out one plan; return all Workloads by name, and what the refused ones are told."""
    cluster, books = Cluster(made, manifests), Books(made)
    plan = cycle.decide(books, now=NOW, most=99)
    cluster.apply(plan.writes)
    told = {each.workload.meta.key.name: refusals.worded(each.refusal) for each in plan.refused}
    return {each.meta.key.name: each for each in made.workloads}, told


def chosen(made: Tables, *manifests: Any, name: str = "a") -> dict[str, dict[str, str]] | str:
    """Return the flavors that one gets by pod set and resource, or what it is told."""
    every, told = decided(made, *manifests)
    granted = every[name].admission
    return {each.name: dict(each.flavors) for each in granted.assignments} if granted is not None else told[name]


def asks(name: str = "a", count: int = 1, cpu: Any = 1, **more: Any) -> Any:
    return workload_manifest(name, pod_sets=[pod_set(count=count, cpu=cpu, **more)])


def test_the_first_flavor_with_room_is_taken() -> None:
    assert chosen(two_flavors(), asks(cpu=4)) == {"main": {"cpu": "spot"}}
    assert chosen(two_flavors(), asks(cpu=5)) == {"main": {"cpu": "demand"}}
    full, used = workload_manifest("full", granted=1), "needs 8 cpu of flavor demand, 7 are free: 1 missing"
    full["status"]["admission"]["podSetAssignments"][0]["flavors"] = {"cpu": "demand"}
    want = f"needs 8 cpu of flavor spot, which never has more than 4; {used}"
    assert chosen(two_flavors(), full, asks(cpu=8)) == want


@pytest.mark.accept("E11", part="cohorts borrow up to borrowingLimit")
@pytest.mark.parametrize(("limit", "most"), [(None, 14), (3, 7), (99, 14)])
def test_what_is_larger_than_all_quota_is_told_so(limit: int | None, most: int) -> None:
    quota = {"cpu": 4} if limit is None else {"cpu": (4, limit)}
    lender = cluster_queue("lender", flavors={"spot": {"cpu": 10}}, cohort="all")
    made = two_flavors(lender, flavors={"spot": quota}, cohort="all")
    want = f"needs {most + 1} cpu of flavor spot, which never has more than {most}"
    assert chosen(made, asks(cpu=most + 1)) == want


@pytest.mark.accept("E11", part="cohorts borrow up to borrowingLimit")
def test_borrowing_from_the_first_comes_before_the_second() -> None:
    lender = cluster_queue("lender", flavors={"spot": {"cpu": 4}, "demand": {"cpu": 0}}, cohort="all")
    assert chosen(two_flavors(lender, cohort="all"), asks(cpu=5)) == {"main": {"cpu": "spot"}}


def test_pod_sets_of_one_job_add_up() -> None:
    sets = [pod_set("head", 1, cpu=3), pod_set("work", 1, cpu=3), pod_set("more", 1, cpu=5)]
    want = {"head": {"cpu": "spot"}, "work": {"cpu": "demand"}, "more": {"cpu": "demand"}}
    assert chosen(two_flavors(), workload_manifest("a", pod_sets=sets)) == want
    sets[2]["requests"]["cpu"] = 6
    told = (
        "needs 6 cpu of flavor spot, which never has more than 4; needs 6 cpu of flavor demand, 5 are free: 1 missing"
    )
    assert chosen(two_flavors(), workload_manifest("a", pod_sets=sets)) == told


def test_resources_of_one_group_come_from_one_flavor() -> None:
    quota = {"spot": {"cpu": 4, "memory": "1Gi"}, "demand": {"cpu": 8, "memory": "8Gi"}}
    made = two_flavors(flavors=quota)
    sets = [{"name": "main", "count": 2, "requests": {"cpu": "500m", "memory": "1Gi"}}]
    want = {"main": {"cpu": "demand", "memory": "demand"}}
    assert chosen(made, workload_manifest("a", pod_sets=sets)) == want
    sets[0]["count"] = 9
    want_told = (
        "needs 4.5 cpu of flavor spot, which never has more than 4; needs 9Gi memory of flavor spot, which never has"
        " more than 1Gi; needs 9Gi memory of flavor demand, which never has more than 8Gi"
    )
    assert chosen(two_flavors(flavors=quota), workload_manifest("a", pod_sets=sets)) == want_told


def test_resources_of_one_group_are_taken_once() -> None:
    quota = {"spot": {"cpu": 8, "memory": "8Gi"}}
    sets = [{"name": name, "count": 1, "requests": {"cpu": 4, "memory": "4Gi"}} for name in ("head", "work")]
    want = {"cpu": "spot", "memory": "spot"}
    assert chosen(two_flavors(flavors=quota), workload_manifest("a", pod_sets=sets)) == {"head": want, "work": want}


def test_three_pod_sets_of_one_flavor_add_up() -> None:
    sets = [pod_set(name, 1, cpu=4) for name in ("head", "work", "more")]
    one = two_flavors(flavors={"spot": {"cpu": 10}})
    want = "needs 4 cpu of flavor spot, 2 are free: 2 missing"
    assert chosen(one, workload_manifest("a", pod_sets=sets)) == want


def test_where_too_much_is_used_it_is_said_by_how_much() -> None:
    full = workload_manifest("full", count=9, granted=9)
    one = two_flavors(flavors={"spot": {"cpu": 4}})
    assert chosen(one, full, asks()) == "needs 1 cpu of flavor spot, which is used 5 above quota: 6 missing"


@pytest.mark.accept("E20", part="a resource that the queue does not cover is told")
def test_the_first_resource_by_name_that_is_not_covered_is_told() -> None:
    sets = [{"name": "main", "count": 1, "requests": {"gpu": 1, "disk": 1}}]
    want = "pod set main requests disk, which ClusterQueue team has no quota for"
    assert chosen(two_flavors(), workload_manifest("a", pod_sets=sets)) == want


@KEPT
def test_where_groups_were_merged_growth_keeps_to_one_of_its_flavors() -> None:
    quota = {name: {"cpu": 9, "memory": "9Gi"} for name in ("spot", "demand")}
    sets = [{"name": "main", "count": 3, "requests": {"cpu": 1, "memory": "1Gi"}}]
    parent = workload_manifest("a", pod_sets=sets, granted=1, flavors={"cpu": "spot", "memory": "demand"})
    part = slice_manifest("a", 0, pod_sets=[{**sets[0], "count": 1}])
    want = {"main": {"cpu": "demand", "memory": "demand"}}
    assert chosen(two_flavors(flavors=quota), parent, part, name="a-main-0") == want


def test_groups_choose_apart() -> None:
    made = tables(
        flavor("spot"),
        flavor("gpu"),
        cluster_queue(groups=[{"spot": {"cpu": 4}}, {"gpu": {"nvidia.com/gpu": 2}}]),
        local_queue(),
    )
    sets = [{"name": "main", "count": 1, "requests": {"cpu": 1, "nvidia.com/gpu": 2}}]
    want = {"main": {"cpu": "spot", "nvidia.com/gpu": "gpu"}}
    assert chosen(made, workload_manifest("a", pod_sets=sets)) == want


def test_what_is_not_requested_needs_no_quota() -> None:
    sets = [{"name": "main", "count": 1, "requests": {"gpu": 0}}]
    assert chosen(two_flavors(), workload_manifest("a", pod_sets=sets)) == {"main": {}}


def affine(*terms: dict[str, Any]) -> dict[str, Any]:
    """Pods that require nodes which meet one of these terms."""
    required = {"nodeSelectorTerms": list(terms)}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


SELECTS = {"nodeSelector": {"kind": "demand"}}
NAMED = {"key": "metadata.name", "operator": "In", "values": ["node"]}
AFFINE = affine(
    {"matchExpressions": [{"key": "kind", "operator": "NotIn", "values": ["spot"]}]},
    {"matchExpressions": [{"key": "kind", "operator": "In", "values": ["x"]}]},
)


@pytest.mark.parametrize(
    ("spot", "pods", "why"),
    [
        ({"nodeLabels": {"kind": "spot"}}, SELECTS, "has label kind=spot, the pods select kind=demand"),
        ({"nodeLabels": {"kind": "spot"}}, AFFINE, "has labels that the pods' required node affinity excludes"),
        ({"nodeTaints": [TAINT]}, {}, "has taint spot=yes:NoSchedule, which the pods do not tolerate"),
        (
            {"nodeTaints": [TAINT], "tolerations": [{**TAINT, "effect": "NoExecute"}]},
            {},
            "has taint spot=yes:NoSchedule, which the pods do not tolerate",
        ),
    ],
)
def test_a_flavor_that_conflicts_is_refused(spot: dict[str, Any], pods: dict[str, Any], why: str) -> None:
    assert chosen(two_flavors(spot=spot), asks(**pods)) == {"main": {"cpu": "demand"}}
    alone = two_flavors(spot=spot, flavors={"spot": {"cpu": 4}})
    assert chosen(alone, asks(**pods)) == f"no flavor of ClusterQueue team suits pod set main: flavor spot {why}"


def test_a_term_that_asks_for_nothing_is_met_by_no_node() -> None:
    one = two_flavors(flavors={"spot": {"cpu": 4}})
    why = "flavor spot has labels that the pods' required node affinity excludes"
    assert chosen(one, asks(**affine({}))) == f"no flavor of ClusterQueue team suits pod set main: {why}"


@pytest.mark.parametrize(
    ("spot", "pods"),
    [
        ({"nodeLabels": {"kind": "demand"}}, SELECTS),
        ({"nodeLabels": {"zone": "a"}}, SELECTS),
        ({"nodeLabels": {"kind": "x"}}, AFFINE),
        ({"nodeLabels": {"zone": "a"}}, AFFINE),
        ({"nodeLabels": {"kind": "demand"}}, AFFINE),
        ({"nodeLabels": {"kind": "spot"}}, {"affinity": {"nodeAffinity": {"preferred": []}}}),
        ({"nodeLabels": {"kind": "spot"}}, affine({"matchFields": [NAMED]})),
        ({"nodeTaints": [TAINT]}, {"tolerations": [{"key": "spot", "operator": "Exists"}]}),
        ({"nodeTaints": [TAINT], "tolerations": [{"key": "spot", "value": "yes"}]}, {}),
        ({"nodeTaints": [{**TAINT, "effect": "PreferNoSchedule"}]}, {}),
        ({"nodeTaints": [TAINT], "tolerations": [TAINT]}, {}),
    ],
)
def test_a_flavor_that_suits_is_taken(spot: dict[str, Any], pods: dict[str, Any]) -> None:
    assert chosen(two_flavors(spot=spot), asks(**pods)) == {"main": {"cpu": "spot"}}


@pytest.mark.accept("E20", part="a flavor that is being deleted takes nothing new")
def test_a_flavor_that_is_missing_or_being_deleted_is_passed_over() -> None:
    missing = tables(flavor("demand"), cluster_queue(flavors=BOTH), local_queue())
    assert chosen(missing, asks()) == {"main": {"cpu": "demand"}}
    assert chosen(two_flavors(flavor("spot", deleted=True, rv=2)), asks()) == {"main": {"cpu": "demand"}}


@pytest.mark.accept("E18", part="the next flavor")
def test_flavors_that_were_tried_come_last() -> None:
    def tried(*names: str) -> Any:
        status = {"requeue": {"count": 1, "at": builders.time(1), "flavorsTried": list(names)}}
        return workload_manifest("a", status=status)

    assert chosen(two_flavors(), tried("spot")) == {"main": {"cpu": "demand"}}
    assert chosen(two_flavors(), tried("spot", "demand")) == {"main": {"cpu": "spot"}}


@pytest.mark.accept("E9")
def test_a_slice_is_locked_to_its_parents_flavor_and_waits_if_it_has_no_room() -> None:
    parent = workload_manifest("a", count=5, granted=1, flavors={"cpu": "demand"})
    assert chosen(two_flavors(), parent, slice_manifest("a", 0), name="a-main-0") == {"main": {"cpu": "demand"}}
    full = workload_manifest("a", count=9, granted=8, flavors={"cpu": "demand"})
    want = "needs 1 cpu of flavor demand, 0 are free: 1 missing"
    assert chosen(two_flavors(), full, slice_manifest("a", 0), name="a-main-0") == want


@KEPT
def test_slices_of_a_pod_set_added_later_choose_freely_and_keep_together() -> None:
    sets = [pod_set("main", 1), pod_set("new", 4)]
    parent = workload_manifest("a", pod_sets=sets, granted={"main": 1}, flavors={"cpu": "demand"})
    first = slice_manifest("a", 0, set_name="new")
    assert chosen(two_flavors(), parent, first, name="a-new-0") == {"new": {"cpu": "spot"}}
    sibling = slice_manifest("a", 1, set_name="new", granted=1, flavors={"cpu": "demand"})
    assert chosen(two_flavors(), parent, first, sibling, name="a-new-0") == {"new": {"cpu": "demand"}}
    cousin = slice_manifest("a", 0, set_name="main", granted=1, flavors={"cpu": "spot"})
    assert chosen(two_flavors(), parent, first, cousin, sibling, name="a-new-0") == {"new": {"cpu": "demand"}}
    folded = workload_manifest(
        "a",
        pod_sets=sets,
        granted={"main": 1},
        flavors={"cpu": "demand"},
        status={"foldedSlices": ["u-a-new-1"]},
    )
    assert chosen(two_flavors(), folded, first, sibling, name="a-new-0") == {"new": {"cpu": "spot"}}


@KEPT
def test_slices_of_other_jobs_choose_for_themselves() -> None:
    sets = [pod_set("main", 1), pod_set("new", 9)]
    parents = [workload_manifest(name, pod_sets=sets, granted={"main": 0}) for name in "ab"]
    sibling = slice_manifest("a", 1, set_name="new", granted=1, cpu=4)
    firsts = [slice_manifest(name, 0, set_name="new", cpu=4) for name in "ab"]
    every, told = decided(two_flavors(), *parents, sibling, *firsts)
    assert told == {"a-new-0": "needs 4 cpu of flavor spot, 0 are free: 4 missing"}
    granted = every["b-new-0"].admission
    assert granted is not None
    assert granted.assignments[0].flavors == {"cpu": "demand"}


@pytest.mark.accept("E18", part="the next flavor")
def test_jobs_that_tried_other_flavors_are_not_alike() -> None:
    """The first takes spot for what could use both, and then lacks it for what cannot."""
    sets = [pod_set("any", 1, cpu=4), pod_set("bound", 1, cpu=4, nodeSelector={"kind": "spot"})]
    tried = {"requeue": {"count": 1, "at": builders.time(1), "flavorsTried": ["spot"]}}
    made = tables(
        flavor("spot", nodeLabels={"kind": "spot"}),
        flavor("demand", nodeLabels={"kind": "demand"}),
        cluster_queue(flavors=BOTH),
        local_queue(),
    )
    every, told = decided(
        made, workload_manifest("a", pod_sets=sets, age=9), workload_manifest("b", pod_sets=sets, status=tried, age=8)
    )
    assert list(told) == ["a"]
    assert every["b"].admission is not None


@KEPT
def test_slices_that_choose_freely_in_one_plan_choose_alike() -> None:
    sets = [pod_set("main", 1), pod_set("new", 9)]
    parent = workload_manifest("a", pod_sets=sets, granted={"main": 1}, flavors={"cpu": "demand"})
    slices = [slice_manifest("a", each, set_name="new", cpu=3) for each in range(2)]
    every, told = decided(two_flavors(), parent, *slices)
    assert [every[f"a-new-{each}"].admission is not None for each in range(2)] == [True, False]
    assert told == {"a-new-1": "needs 3 cpu of flavor spot, 1 are free: 2 missing"}


@KEPT
def test_a_claim_for_another_flavor_than_a_sibling_got_is_dropped() -> None:
    sets = [pod_set("main", 1), pod_set("new", 9)]
    parent = workload_manifest("a", pod_sets=sets, granted={"main": 1}, flavors={"cpu": "demand"}, priority=1)
    sibling = slice_manifest("a", 0, set_name="new", granted=1, cpu=4)
    claim = {"claim": builders.admission({"new": 1}, flavors={"cpu": "demand"})}
    claimant = slice_manifest("a", 1, set_name="new", cpu=4, status=claim)
    low = workload_manifest("low", count=7, granted=7, flavors={"cpu": "demand"})
    every, _ = decided(two_flavors(within="LowerPriority"), parent, sibling, claimant, low)
    assert (every["a-new-1"].claim, every["low"].is_evicted) == (None, False)
