"""Among groups that fit, the chain of expanders decides; equal groups of several zones fill evenly."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.api.settings.scaling import Expander
from autoscaler.capacity import model
from autoscaler.capacity.scaleup import placement
from tests.autoscaler.capacity import builders
from tests.autoscaler.capacity.builders import demand, group, situation

WASTE, PRICE, BALANCED = Expander.LEAST_WASTE, Expander.PRICE, Expander.BALANCED


def launched(*demands: model.Demand, expanders: tuple[Expander, ...] = (), **parts: Any) -> dict[Any, int]:
    policy = model.Policy(expanders=expanders) if expanders else model.Policy()
    return placement.place(situation(*demands, **parts), policy).new_nodes()


def kinds(nodes: dict[Any, int]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for key, count in nodes.items():
        counts[key.instance_type] += count
    return dict(counts)


def test_equal_groups_of_several_zones_fill_evenly() -> None:
    nodes = launched(demand(4000, count=100), groups=[group(zone) for zone in "abc"])
    assert {key.zone: count for key, count in nodes.items()} == {"a": 34, "b": 33, "c": 33}


def test_what_a_zone_has_already_counts_for_the_balance() -> None:
    groups = [group("a", of={"nodes": 5}), group("b", of={"nodes": 1}), group("c")]
    nodes = launched(demand(4000, count=6), groups=groups)
    assert {key.zone: count for key, count in nodes.items()} == {"b": 3, "c": 3}


def test_a_full_zone_leaves_its_share_to_the_others() -> None:
    groups = [group("a", of={"more": 1}), group("b"), group("c")]
    nodes = launched(demand(4000, count=9), groups=groups)
    assert {key.zone: count for key, count in nodes.items()} == {"a": 1, "b": 4, "c": 4}


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=6), st.integers(0, 60))
def test_after_dealing_no_zone_could_have_been_filled_more_evenly(zones: list[tuple[int, int]], count: int) -> None:
    groups = [group(f"zone-{number}", of={"nodes": nodes, "more": more}) for number, (nodes, more) in enumerate(zones)]
    given_nodes = launched(demand(4000, count=count), groups=groups) if count else {}
    after = {one.key: one.nodes + given_nodes.get(one.key, 0) for one in groups}
    assert sum(given_nodes.values()) == min(count, sum(more for _, more in zones))
    open_levels = [after[one.key] for one in groups if given_nodes.get(one.key, 0) < one.more]
    got = [after[key] for key in given_nodes]
    assert not got or not open_levels or max(got) <= min(open_levels) + 1


def test_the_node_whose_ratio_suits_the_pods_wastes_least() -> None:
    groups = [group(memory_gib=gib, kind=f"r.{gib}") for gib in (8, 16, 32)]
    for gib, want in ((2, "r.8"), (4, "r.16"), (8, "r.32")):
        assert kinds(launched(demand(1000, gib, count=40), groups=groups)).keys() == {want}


def test_the_last_node_is_no_larger_than_what_is_left() -> None:
    groups = [group(cpu_millis=cores * 1000, memory_gib=cores * 4, kind=f"m.{cores}") for cores in (2, 4, 8)]
    assert kinds(launched(demand(1000, 4, count=18), groups=groups)) == {"m.8": 2, "m.2": 1}


def test_devices_are_left_to_those_who_ask_for_them() -> None:
    card: dict[str, Any] = {"example.com/card": 8}
    groups = [
        group(cpu_millis=64_000, memory_gib=256, kind="m.gpu", **card),
        group(cpu_millis=2000, kind="m.cpu"),
    ]
    wants_card = demand(1000, count=3, requests={"example.com/card": "1"})
    assert kinds(launched(demand(1000, 4, count=10), wants_card, groups=groups[:1])) == {"m.gpu": 1}
    assert kinds(launched(demand(1000, 8, count=10), groups=groups)) == {"m.cpu": 5}


def test_the_cheapest_group_wins_where_price_comes_first() -> None:
    groups = [
        group(kind="m.dear", of={"price_micros": 200_000}),
        group(kind="m.fair", memory_gib=64, of={"price_micros": 100_000}),
        group(kind="m.unknown"),
    ]
    pods = demand(1000, 4, count=40)
    assert kinds(launched(pods, groups=groups, expanders=(PRICE, BALANCED))) == {"m.fair": 10}
    assert kinds(launched(pods, groups=groups[:1] + groups[1:2], expanders=(WASTE, BALANCED))) == {"m.dear": 10}


def test_a_later_expander_decides_among_equals_only() -> None:
    groups = [group(kind="m.x", of={"price_micros": 300}), group(kind="m.y", of={"price_micros": 200})]
    assert kinds(launched(demand(4000, 16, count=4), groups=groups, expanders=(WASTE, PRICE))) == {"m.y": 4}
    worse = group(kind="m.w", memory_gib=64, of={"price_micros": 1})
    assert kinds(launched(demand(4000, 16, count=4), groups=[*groups, worse], expanders=(WASTE, PRICE))) == {"m.y": 4}


@pytest.mark.parametrize("expanders", [(BALANCED,), (BALANCED, WASTE), (WASTE,), (PRICE,), (PRICE, WASTE, BALANCED)])
def test_every_chain_places_everything(expanders: tuple[Expander, ...]) -> None:
    groups = [group(zone, cpu_millis=size, of={"more": 5}) for zone in "ab" for size in (2000, 4000)]
    asked = situation(demand(1000, count=50), groups=groups)
    result = placement.place(asked, model.Policy(expanders=expanders))
    assert sum(one.count for one in result.unplaced) == 0
    assert sum(result.new_nodes().values()) <= 20


def test_without_balance_the_first_group_is_filled_first() -> None:
    groups = [group("a", of={"more": 3}), group("b")]
    nodes = launched(demand(4000, count=5), groups=groups, expanders=(WASTE,))
    assert nodes == {builders.key("a"): 3, builders.key("b"): 2}
