"""One node is tried for pods that only an old lesson refuses: when it is due, within limits, one of each kind."""

import dataclasses
from typing import Any

import pytest

from autoscaler.capacity import decide
from autoscaler.capacity.model import Policy
from autoscaler.capacity.plan import Plan
from autoscaler.capacity.scaleup import learned_allocatable
from autoscaler.capacity.snapshot import Learned
from tests.autoscaler.capacity import seen

ZONES = (seen.group(zone="a", template=None), seen.group(zone="b", template=None))
KIND = learned_allocatable.kind_of(ZONES[0])


def plan(cpu: str = "3", *, retry_at: float | None = seen.NOW - 1, is_tried: bool = False, **more: Any) -> Plan:
    lesson = Learned(amounts={"cpu": 2000}, templates={}, retry_at=retry_at, is_tried=is_tried)
    pods = [seen.pod("one", cpu=cpu), seen.pod("two", cpu=cpu)]
    snapshot = seen.snapshot(pods=pods, learned={KIND: lesson}, **{"groups": ZONES, **more})
    return decide.decide(snapshot, Policy())


def test_one_pod_gets_one_node_and_the_others_are_told() -> None:
    made = plan()
    (launch,) = made.launches
    assert (launch.after, [pod.meta.uid for pod in launch.pods]) == (1, ["one"])
    assert made.retries == {launch.key}
    assert [pod.meta.uid for each in made.unserved for pod in each.pods] == ["two"]


def test_one_node_of_a_kind_is_tried_whoever_waits() -> None:
    lesson = Learned(amounts={"cpu": 2000}, templates={}, retry_at=seen.NOW - 1)
    pods = [seen.pod("one", cpu="3"), seen.pod("two", cpu="3500m")]
    made = decide.decide(seen.snapshot(pods=pods, groups=ZONES, learned={KIND: lesson}), Policy())
    assert [launch.after for launch in made.launches] == [1]
    assert len([pod for each in made.unserved for pod in each.pods]) == 1


@pytest.mark.parametrize("retry_at", [None, seen.NOW + 1], ids=["a-node-shows-it", "not-yet"])
def test_what_is_trusted_is_not_tried(retry_at: float | None) -> None:
    made = plan(retry_at=retry_at)
    assert not made.launches
    assert len(made.unserved) == 1


def test_a_pod_that_the_type_itself_does_not_take_gets_none() -> None:
    assert not plan(cpu="5").launches


def test_limits_hold() -> None:
    full = {"workers": seen.pool(limits={"maxActiveInstances": 0})}
    assert not plan(pools=full).launches
    assert not plan(groups=tuple(dataclasses.replace(group, maximum=0) for group in ZONES)).launches


def test_nothing_is_tried_while_a_node_of_the_kind_is_on_its_way() -> None:
    coming = (dataclasses.replace(ZONES[0], desired=1), ZONES[1])
    made = plan(groups=coming)
    assert not made.launches
    assert len(made.unserved) == 1


def test_a_pod_counts_on_the_node_that_is_tried_for_it() -> None:
    coming = (dataclasses.replace(ZONES[0], desired=1), ZONES[1])
    made = plan(groups=coming, is_tried=True)
    assert not made.launches
    assert [pod.meta.uid for each in made.unserved for pod in each.pods] == ["two"]


def test_nothing_is_tried_beside_other_launches() -> None:
    pods = [seen.pod("small", cpu="1"), seen.pod("one", cpu="3")]
    lesson = Learned(amounts={"cpu": 2000}, templates={}, retry_at=seen.NOW - 1)
    both = decide.decide(seen.snapshot(pods=pods, groups=ZONES, learned={KIND: lesson}), Policy())
    assert not both.retries
    assert [pod.meta.uid for launch in both.launches for pod in launch.pods] == ["small"]
