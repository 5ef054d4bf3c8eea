"""Where instances are limited, fewer and larger ones of the same pool come before the next pool."""

from collections import Counter
from typing import Any

import pytest

from autoscaler.api import keys
from autoscaler.capacity import model
from autoscaler.capacity.scaleup import placement
from tests.autoscaler.capacity import builders, checker
from tests.autoscaler.capacity.builders import demand, group, limit, situation

INSTANCES = model.LimitKind.POOL_INSTANCES
TIERS = (frozenset({"pool"}), frozenset({"gpu"}))
SMALL, MIDDLE, LARGE, GPU = "m5.xlarge", "c5.2xlarge", "c5.9xlarge", "p3.8xlarge"
SIZES = {SMALL: (3920, 13.8), MIDDLE: (7910, 13.8), LARGE: (35_830, 66), GPU: (31_850, 222)}
PRICES = {SMALL: 192_000, MIDDLE: 340_000, LARGE: 1_530_000, GPU: 12_240_000}
LIMIT = limit(10, INSTANCES, pool="pool")


def of_type(kind: str, zone: str = "a", *, pool: str = "pool", price: int = 0, **more: Any) -> model.Group:
    devices: dict[str, Any] = {"nvidia.com/gpu": 4} if kind == GPU else {}
    cpu_millis, gib = SIZES[kind]
    of = {"price_micros": price or PRICES[kind]}
    return group(zone, cpu_millis, gib, pool=pool, kind=kind, of=of, **devices, **more)


GPUS = of_type(GPU, pool="gpu")


def launched(*demands: model.Demand, **parts: Any) -> dict[str, int]:
    """Place, have the result checked, and count new nodes by type, and pods that got none."""
    asked = situation(*demands, **parts)
    result = placement.place(asked)
    assert checker.violations(asked, result) == []
    counts: Counter[str] = Counter()
    for key, nodes in result.new_nodes().items():
        counts[key.instance_type] += nodes
    counts["none"] = sum(each.count for each in result.unplaced)
    return dict(+counts)


@pytest.mark.parametrize("tiers", [TIERS, None], ids=["the next tier", "pools that are alike"])
def test_a_pools_instances_are_used_well_before_the_next_pool_is(tiers: Any) -> None:
    wanted = demand(1000, count=68, of={"pools": tiers})
    assert launched(wanted, groups=[of_type(SMALL), of_type(MIDDLE), GPUS], limits=[LIMIT]) == {MIDDLE: 10}


def test_the_order_of_pools_comes_before_their_price() -> None:
    wanted = demand(1000, count=68, of={"pools": TIERS})
    groups = [of_type(SMALL), of_type(MIDDLE), of_type(SMALL, pool="gpu", price=1000)]
    assert launched(wanted, groups=groups, limits=[LIMIT]) == {MIDDLE: 10}


def test_among_pools_that_are_alike_the_cheaper_plan_comes_before_fewer_nodes() -> None:
    groups = [of_type(SMALL), of_type(MIDDLE), of_type(MIDDLE, pool="other")]
    nodes = launched(demand(1500, 4, count=13), groups=groups, limits=[limit(6, INSTANCES, pool="pool")])
    assert nodes == {SMALL: 6, MIDDLE: 1}  # one of it and four of the other are fewer, and cost more


def test_a_ceiling_of_nodes_leaves_no_pod_alone_that_a_larger_node_holds() -> None:
    groups = [of_type(SMALL), of_type(MIDDLE)]
    assert launched(demand(1000, count=68), groups=groups, limits=[limit(10)]) == {MIDDLE: 10}


def test_pods_that_keep_to_their_zones_share_the_limit() -> None:
    rule = builders.spread(keys.ZONE, {"app": "web"})
    wanted = demand(1000, count=75, labels={"app": "web"}, topologySpreadConstraints=rule, of={"pools": TIERS})
    groups = [of_type(kind, zone) for zone in "abc" for kind in (SMALL, MIDDLE)]
    zones = [of_type(GPU, zone, pool="gpu") for zone in "abc"]
    assert launched(wanted, groups=[*groups, *zones], limits=[limit(12, INSTANCES, pool="pool")]) == {MIDDLE: 12}


def test_nodes_are_no_larger_than_the_limit_asks_for() -> None:
    wanted = demand(1000, count=68, of={"pools": TIERS})
    groups = [of_type(SMALL), of_type(MIDDLE), of_type(GPU), GPUS]
    assert launched(wanted, groups=groups, limits=[LIMIT]) == {MIDDLE: 10}


@pytest.mark.parametrize(
    ("wanted", "most", "want"),
    [
        pytest.param((1500, 4, 5), 2, {SMALL: 1, MIDDLE: 1}, id="a little"),
        pytest.param((1400, 7, 27), 21, {LARGE: 3}, id="a lot"),
    ],
)
def test_pods_that_leave_gaps_on_nodes_get_larger_ones_yet(
    wanted: tuple[int, int, int], most: int, want: dict[str, int]
) -> None:
    cpu_millis, gib, count = wanted
    groups = [of_type(SMALL), of_type(MIDDLE), of_type(LARGE), GPUS]
    limits = [limit(most, INSTANCES, pool="pool")]
    assert launched(demand(cpu_millis, gib, count=count, of={"pools": TIERS}), groups=groups, limits=limits) == want


def test_demands_that_have_only_a_ceiling_in_common_share_it() -> None:
    sides = ("left", "right")
    wanted = [demand(1000, 3, count=12, nodeSelector={"side": side}) for side in sides]
    groups = [of_type(kind, pool=side, labels={"side": side}) for side in sides for kind in (SMALL, MIDDLE, LARGE)]
    assert launched(*wanted, groups=groups, limits=[limit(6)]) == {MIDDLE: 6}


def test_a_limit_that_is_just_kept_changes_nothing() -> None:
    wanted, groups = demand(1000, count=66, of={"pools": TIERS}), [of_type(SMALL), of_type(MIDDLE), GPUS]
    free = launched(wanted, groups=groups)
    assert free == {MIDDLE: 9, SMALL: 1}
    assert launched(wanted, groups=groups, limits=[LIMIT]) == free


@pytest.mark.parametrize("kind", [model.LimitKind.LAUNCHES, model.LimitKind.POOL_COST])
def test_what_limits_launches_or_money_makes_no_node_larger(kind: model.LimitKind) -> None:
    wanted, groups = demand(1000, count=68), [of_type(SMALL), of_type(MIDDLE)]
    assert launched(wanted, groups=groups, limits=[limit(10, kind)]) == {MIDDLE: 9, SMALL: 1, "none": 2}


def test_a_larger_node_that_holds_no_more_is_not_taken() -> None:
    wanted, groups = demand(1000, 6, count=30), [of_type(SMALL), of_type(MIDDLE)]
    assert launched(wanted, groups=groups, limits=[LIMIT]) == {SMALL: 10, "none": 10}


def test_unlike_pods_fill_larger_nodes_too() -> None:
    sizes = [(500, 0.5, 40), (1000, 2, 30), (1500, 1, 20), (3000, 4, 8)]
    wanted = [demand(cpu, gib, count=count, of={"pools": TIERS}) for cpu, gib, count in sizes]
    groups = [of_type(SMALL), of_type(MIDDLE), of_type(LARGE), GPUS]
    nodes = launched(*wanted, groups=groups, limits=[limit(4, INSTANCES, pool="pool")])
    assert nodes.keys() <= {SMALL, MIDDLE, LARGE}
