"""Pods of a machine type tolerate its nodes' taints and require their labels, as seed 001 writes them."""

import pytest

from autoscaler.api import machine_pods
from autoscaler.api.machine_catalogue import NodeLabel

pytestmark = [
    pytest.mark.accept("M2", part="tolerations and node selection"),
    pytest.mark.accept("M4", part="tolerations and affinity"),
]


def test_both_taints_of_a_node_are_tolerated() -> None:
    assert machine_pods.tolerations("general", "xlarge") == [
        {"key": "machine.sluice.dev/xlarge", "operator": "Equal", "value": "general", "effect": "NoSchedule"},
        {"key": "sluice.dev/node-pool", "operator": "Equal", "value": "ready", "effect": "NoSchedule"},
    ]


def test_a_type_that_depends_on_another_tolerates_the_others_nodes_too() -> None:
    parents = {"key": "machine.sluice.dev/xlarge", "operator": "Equal", "value": "general", "effect": "NoSchedule"}
    own, ready = machine_pods.tolerations("general", "small")
    assert machine_pods.tolerations("general", "small", "xlarge") == [own, parents, ready]


def test_the_type_a_ready_node_and_the_gpu_are_required() -> None:
    want = [
        {"key": "machine.sluice.dev/xlarge", "operator": "In", "values": ["general"]},
        {"key": "sluice.dev/node-pool", "operator": "In", "values": ["ready"]},
    ]
    gpu = {"key": "nvidia.com/gpu.family", "operator": "In", "values": ["ampere"]}
    assert machine_pods.node_requirements("general", "xlarge", None) == want
    assert machine_pods.node_requirements("general", "xlarge", NodeLabel("nvidia.com/gpu.family", "ampere")) == [
        *want,
        gpu,
    ]
