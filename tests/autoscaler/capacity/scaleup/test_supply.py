"""What is free on nodes that are there, and which instances are on their way."""

import dataclasses
from typing import Any

import pytest

from autoscaler.api import keys
from autoscaler.capacity.scaleup import supply
from autoscaler.cloud import port as cloud
from tests.autoscaler.capacity import seen


def test_pods_that_are_bound_or_nominated_take_room_and_ended_ones_do_not() -> None:
    pods = [
        seen.pod("bound", node="node"),
        seen.pod("nominated", status={"nominatedNodeName": "node"}),
        seen.pod("ended", node="node", status={"phase": "Succeeded"}),
    ]
    (room,) = supply.rooms(seen.snapshot(pods=pods, nodes=[seen.node()]))
    assert (room.free["cpu"], room.free["pods"]) == (3920 - 2000, 58 - 2)
    assert len(room.residents) == 2


@pytest.mark.parametrize(
    "what",
    [
        {"ready": False},
        {"unschedulable": True},
        {"taints": [{"key": keys.REMOVING, "value": "Interrupted", "effect": "NoSchedule"}]},
    ],
    ids=str,
)
def test_nothing_is_free_on_a_node_that_takes_no_pods(what: dict[str, Any]) -> None:
    (room,) = supply.rooms(seen.snapshot(nodes=[seen.node(**what)]))
    assert room.free == {}


def test_what_was_asked_for_and_what_starts_is_on_its_way() -> None:
    group = seen.group("i-1", "i-2", desired=5)
    ready = seen.snapshot(groups=(group,), nodes=[seen.node(instance="i-1")])
    assert supply.on_the_way(ready, group) == 4
    (asked,) = supply.asked(ready)
    assert (asked.nodes, asked.template.allocatable["cpu"]) == (4, 3920)


def test_a_late_instance_counts_although_nobody_asks_for_it_any_more() -> None:
    group = seen.group("i-1", "i-2", desired=0)
    assert supply.on_the_way(seen.snapshot(groups=(group,)), group) == 2


@pytest.mark.parametrize(
    "what",
    [
        {"ready": False},
        {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]},
        {"taints": [{"key": "startup-taint.cluster-autoscaler.kubernetes.io/x", "effect": "NoSchedule"}]},
    ],
    ids=str,
)
def test_a_node_that_has_registered_and_is_not_ready_yet_is_on_its_way_but_not_for_ever(what: dict[str, Any]) -> None:
    group = seen.group("i-1")
    fresh = seen.snapshot(groups=(group,), nodes=[seen.node(**what)])
    assert supply.on_the_way(fresh, group) == 1
    (room,) = supply.rooms(fresh)
    assert room.free == {}  # or its room would count twice
    old = seen.snapshot(groups=(group,), nodes=[seen.node(**what)], now=seen.NOW + 901)
    assert supply.on_the_way(old, group) == 0


def test_a_ready_node_whose_gpu_has_not_appeared_is_on_its_way() -> None:
    group = seen.group("i-1", node=cloud.NodeTemplate(resources={keys.GPU_RESOURCE: 4}))
    assert supply.on_the_way(seen.snapshot(groups=(group,), nodes=[seen.node()]), group) == 1
    assert supply.on_the_way(seen.snapshot(groups=(group,), nodes=[seen.node(gpus=4)]), group) == 0


def test_a_node_that_is_marked_as_idle_is_room_for_pods_that_come_meanwhile() -> None:
    marked = seen.node(taints=[{"key": keys.REMOVING, "value": "Idle", "effect": "NoSchedule"}])
    (room,) = supply.rooms(seen.snapshot(nodes=[marked], groups=(seen.group("i-1"),)))
    assert (room.free["cpu"], room.taints) == (3920, ())
    (gone,) = supply.rooms(seen.snapshot(nodes=[marked], groups=(seen.group(),)))
    assert gone.free == {}  # its instance has ended, and only the node is still there


def test_an_instance_that_ends_is_neither_room_nor_in_the_way_of_one_that_comes() -> None:
    ending = cloud.Instance(id=cloud.InstanceId("i-1"), zone="a", lifecycle=cloud.Lifecycle.LEAVING)
    group = dataclasses.replace(seen.group(desired=1), instances=(ending,))
    snapshot = seen.snapshot(groups=(group,), nodes=[seen.node(instance="i-1")])
    (room,) = supply.rooms(snapshot)
    assert room.free == {}
    assert supply.on_the_way(snapshot, group) == 1
