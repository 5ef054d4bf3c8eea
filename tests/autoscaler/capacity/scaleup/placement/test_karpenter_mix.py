"""Karpenter's own benchmark mix, small: every pod placed, every constraint kept, no more nodes than it needs."""

import pytest

from autoscaler.capacity import model
from autoscaler.capacity.scaleup import placement
from tests.autoscaler.capacity import checker
from tests.bench import planning


@pytest.mark.parametrize(("mix", "pods"), [("plain", 100), ("plain", 1000), ("mixed", 100), ("mixed", 1000)])
def test_all_pods_are_placed_on_no_more_nodes_than_karpenter_takes(mix: str, pods: int) -> None:
    demands = planning.karpenter_demands(pods, mixed=mix == "mixed")
    asked = model.Situation(demands=demands, groups=planning.karpenter_groups())
    result = placement.place(asked)
    assert result.unplaced == ()
    assert checker.violations(asked, result) == []
    assert sum(result.new_nodes().values()) <= planning.PEER[mix][pods][1]


def test_pods_heavy_in_cpu_and_pods_heavy_in_memory_share_nodes() -> None:
    asked = model.Situation(demands=planning.karpenter_demands(5000, mixed=False), groups=planning.karpenter_groups())
    cpu_millis = sum(demand.count * demand.shape.requests["cpu"] for demand in asked.demands)
    result = placement.place(asked)
    assert sum(result.new_nodes().values()) <= cpu_millis / 399_900 + 1  # largest first, alone, takes 12
