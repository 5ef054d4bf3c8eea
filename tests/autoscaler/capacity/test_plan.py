"""The whole plan as data: what goes and what is taken back, no group below its minimum, and all of it in words."""

import dataclasses
from typing import Any

import pytest

from autoscaler.api import keys
from autoscaler.capacity import decide, model, plan
from autoscaler.capacity.disruption_taint import Reason
from autoscaler.capacity.model import Policy
from autoscaler.capacity.plan import Memory, Plan
from autoscaler.capacity.snapshot import Snapshot, Unavailable
from tests.autoscaler.capacity import seen

OTHER = model.Rejection(reason=model.Reason.OTHER_AUTOSCALER, what="another one")
IDLE = Memory(idle={"one": seen.NOW - 100, "two": seen.NOW - 100})
POOLS = {"workers": seen.pool(limits={"maxIdleSeconds": 60})}


def world(*instances: str, taint: str = "", **more: Any) -> Snapshot:
    """One group; the first two instances are the nodes `one` and `two`."""
    mark = [{"key": keys.REMOVING, "value": taint, "effect": "NoSchedule"}] if taint else []
    nodes = [seen.node(name, instance=f"i-{name}", taints=mark) for name in ("one", "two") if f"i-{name}" in instances]
    group = seen.group(*instances, **{key: more.pop(key) for key in ("minimum", "desired") if key in more})
    return seen.snapshot(**{"groups": (group,), "nodes": nodes, "pools": POOLS, **more})


def decided(snapshot: Snapshot, memory: Memory = IDLE) -> Plan:
    return decide.decide(snapshot, Policy(), memory)


def words(snapshot: Snapshot, memory: Memory = IDLE) -> list[tuple[str, str, str]]:
    found = plan.commands(snapshot, decided(snapshot, memory))
    return [(each.verb, each.what, each.why) for each in found]


def test_what_is_of_no_use_and_what_is_idle_share_what_a_group_has_above_its_minimum() -> None:
    snapshot = world("i-lost", "i-one", "i-two", minimum=1, launched_at={"i-lost": 0.0})
    found = decided(snapshot)
    assert [each.reason for each in found.disruptions] == [Reason.NEVER_JOINED, Reason.IDLE]
    assert all(each.decrement for each in found.disruptions)


def test_beside_another_scaler_nothing_goes_and_nothing_is_taken_back() -> None:
    snapshot = world("i-one", desired=2, failed=frozenset({seen.group().name}), other_autoscaler=OTHER)
    assert decided(snapshot) == Plan(memory=IDLE)


def test_a_plan_says_what_it_takes_back_starts_and_taints() -> None:
    group = "workers-a-m5.xlarge"
    taken_back = world("i-one", desired=3, failed=frozenset({seen.group().name}))
    assert ("resize", f"node group {group} from 3 to 1", "a launch failed") in words(taken_back)
    waiting = world(pods=[seen.pod("waits")])
    assert words(waiting) == [("resize", f"node group {group} from 0 to 1", "pods that wait for a node: 1")]
    assert words(world("i-one")) == [("taint", "node one", "Idle")]


@pytest.mark.parametrize(("seconds", "want"), [(4, []), (5, [("terminate", "Idle")])])
def test_an_idle_instance_ends_a_while_after_its_node_was_marked(seconds: int, want: list[tuple[str, str]]) -> None:
    snapshot = world("i-one", taint=Reason.IDLE, marked={"one": seen.NOW - seconds})
    assert [(verb, why) for verb, _, why in words(snapshot)] == want


def test_a_mark_without_reason_comes_off_unless_the_provider_takes_the_instance() -> None:
    busy = [seen.pod("works", node="one")]
    assert words(world("i-one", taint=Reason.IDLE, pods=busy)) == [("untaint", "node one", "it is not to go any more")]
    assert words(world("i-one", taint="Used", pods=busy))[0][0] == "untaint"  # a word of an earlier release
    assert words(world("i-one", taint=Reason.INTERRUPTED, pods=busy)) == []
    unsure = frozenset({"aws:///a/i-one"})
    assert words(world("i-one", taint=Reason.REPLACED, pods=busy, unsure=unsure)) == []


def test_pods_of_an_instance_that_the_provider_takes_are_evicted_unless_they_must_not_be() -> None:
    held = {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}}
    pods = [seen.pod("works", node="one"), seen.pod("held", node="one", metadata=held)]
    snapshot = world("i-one", pods=pods, doomed=frozenset({"i-one"}))
    want = [("taint", "node one", "Interrupted"), ("evict", "pod default/works", "Interrupted")]
    assert words(snapshot) == want


def test_what_never_came_is_waited_for_no_more_even_where_a_minimum_keeps_it_asked_for() -> None:
    least, other = seen.group(desired=1, minimum=1), seen.group(zone="b")
    asked = seen.snapshot(groups=(least, other), pods=[seen.pod("waits")])
    assert decided(asked).launches == ()
    short = {least.key: Unavailable(until=seen.NOW + 100, reason="NeverLaunched")}
    overdue = dataclasses.replace(asked, overdue=frozenset({least.name}), unavailable=short)
    assert [launch.group for launch in decided(overdue).launches] == [other.name]
