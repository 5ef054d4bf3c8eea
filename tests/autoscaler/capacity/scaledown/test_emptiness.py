"""Which instances go: idle ones in their order, never below a minimum, never one that is needed, a few at a time."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.api import keys
from autoscaler.capacity import work
from autoscaler.capacity.scaledown import emptiness
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.cloud import port as cloud
from tests.autoscaler.capacity import seen


def world(count: int, *, minimum: int = 0, idle_seconds: int = 60, **more: Any) -> Snapshot:
    names = [f"i-{number}" for number in range(count)]
    nodes = [seen.node(f"node-{number}", instance=name) for number, name in enumerate(names)]
    pools = {"workers": seen.pool(limits={"maxIdleSeconds": idle_seconds})}
    return seen.snapshot(groups=(seen.group(*names, minimum=minimum),), nodes=nodes, pools=pools, **more)


def idle(count: int, since: float = seen.NOW - 100) -> dict[str, float]:
    return {f"node-{number}": since for number in range(count)}


def test_an_instance_goes_once_it_was_idle_for_longer_than_its_pool_allows() -> None:
    choice = emptiness.choose(world(1, idle_seconds=100), idle(1), frozenset())
    assert [each.node_name for each in choice.removals] == ["node-0"]
    later = emptiness.choose(world(1, idle_seconds=130), idle(1), frozenset())
    assert (later.removals, later.wake_at) == ((), seen.NOW + 30)


def test_the_longest_idle_goes_first_and_ten_at_most() -> None:
    since = {f"node-{number}": seen.NOW - 100 - number for number in range(15)}
    choice = emptiness.choose(world(15), since, frozenset())
    assert [each.node_name for each in choice.removals] == [f"node-{number}" for number in range(14, 4, -1)]


def test_an_instance_that_waiting_pods_count_on_stays() -> None:
    choice = emptiness.choose(world(2), idle(2), frozenset({"node-0"}))
    assert [each.node_name for each in choice.removals] == ["node-1"]


@given(st.integers(0, 20), st.integers(0, 20))
def test_no_group_goes_below_its_minimum(count: int, minimum: int) -> None:
    choice = emptiness.choose(world(count, minimum=min(count, minimum)), idle(count), frozenset())
    assert count - len(choice.removals) >= min(count, minimum)


def test_an_instance_of_a_pool_that_is_gone_is_left_alone() -> None:
    bare = seen.snapshot(groups=(seen.group("i-0"),), nodes=[seen.node("node-0", instance="i-0")], pools={})
    assert emptiness.choose(bare, idle(1), frozenset()).removals == ()


def test_a_node_is_idle_from_when_its_last_work_ended_or_it_became_ready() -> None:
    empty = world(2)
    assert emptiness.idle_since(empty, {"node-0": 5.0}) == {"node-0": 5.0, "node-1": seen.NOW}
    busy = world(2, pods=[seen.pod("work", node="node-0")])
    assert emptiness.idle_since(busy, {"node-0": 5.0}) == {"node-1": seen.NOW}


def test_an_instance_with_several_nodes_is_idle_if_none_of_them_has_work() -> None:
    nodes = [seen.node("new", instance="i-0"), seen.node("old", instance="i-0", ready=False)]
    for pods, want in (([], ["new"]), ([seen.pod("work", node="old")], [])):
        snapshot = seen.snapshot(groups=(seen.group("i-0"),), nodes=nodes, pods=pods)
        assert list(emptiness.idle_since(snapshot, {})) == want


@pytest.mark.parametrize(
    ("lifecycle", "is_idle", "goes"), [("InService", True, True), ("Aside", True, False), ("Leaving", False, False)]
)
def test_only_members_of_a_group_go(lifecycle: str, is_idle: bool, goes: bool) -> None:  # noqa: FBT001
    whole = seen.group("i-0")
    instances = tuple(dataclasses.replace(one, lifecycle=cloud.Lifecycle(lifecycle)) for one in whole.instances)
    snapshot = dataclasses.replace(world(1), groups=(dataclasses.replace(whole, instances=instances),))
    since = emptiness.idle_since(snapshot, idle(1))
    assert bool(since) is is_idle
    assert bool(emptiness.choose(snapshot, since, frozenset()).removals) is goes


def test_what_every_node_runs_is_no_work() -> None:
    assert work.is_work(seen.pod(node="n"))
    assert not work.is_work(seen.pod(node="n", owner="DaemonSet"))
    assert not work.is_work(seen.pod(node="n", status={"phase": "Succeeded"}))
    mirror = {"annotations": {"kubernetes.io/config.mirror": "x"}}
    assert not work.is_work(seen.pod(node="n", metadata=mirror))
    assert keys.REMOVING.startswith("sluice.dev/")
