"""How much of a node one machine may take."""

from typing import Any

import pytest

from autoscaler.machines.nodes import host_limits
from autoscaler.machines.nodes.host_limits import Refusal
from tests.autoscaler.machines.node_builders import child, entry, machine, machine_type

pytestmark = pytest.mark.accept("M9", part="hostLimit")
GPU = {"type": "nvidia.com/gpu", "num": 2, "family": "ampere"}
GIB = 1 << 30


def refusals(*types: Any, **allocatable: int) -> tuple[Refusal, ...]:
    spec = machine("general", entry(), types=types).resource.spec
    names = [each.name for each in spec.machine_types]
    there = {"cpu": 8000, "memory": 32 * GIB, "nvidia.com/gpu": 8, **allocatable}
    return host_limits.refusals(names, host_limits.of(spec), there)


@pytest.mark.parametrize(
    ("there", "want"),
    [
        ({"cpu": 4000}, None),
        ({"cpu": 3999}, "cpu"),
        ({"memory": 8 * GIB}, None),
        ({"memory": 8 * GIB - 1}, "memory"),
        ({"nvidia.com/gpu": 4}, None),
        ({"nvidia.com/gpu": 3}, "nvidia.com/gpu"),
    ],
    ids=str,
)
def test_each_resource_is_compared_with_what_the_node_can_give(there: dict[str, int], want: str | None) -> None:
    got = refusals(machine_type(hostLimit=50, gpu=GPU), **there)
    assert [each.resource for each in got] == ([want] if want else [])


def test_a_type_without_a_limit_may_take_all() -> None:
    assert refusals(machine_type(cpu="64")) == ()


def test_a_child_is_compared_with_what_it_derives_from_its_parent() -> None:
    parent = machine_type(cpu="7", memory="1Gi")
    assert refusals(parent, child(ratio=50, hostLimit=43), cpu=8000)[0].requested == 3500
    assert refusals(parent, child(ratio=50, hostLimit=44), cpu=8000) == ()


def test_a_refusal_says_the_numbers() -> None:
    (got,) = refusals(machine_type(hostLimit=20, cpu="2"))
    assert got.worded() == "one medium would take 25 % of the node's cpu, and its hostLimit is 20 %"
    (got,) = refusals(machine_type(hostLimit=99, gpu=GPU), **{"nvidia.com/gpu": 0})
    assert got.worded() == "the node has no nvidia.com/gpu, which medium takes"
