"""What a node leaves for pods."""

import pytest

from autoscaler.api import node_resources

MIB, GIB = node_resources.MIB, node_resources.GIB


@pytest.mark.parametrize(("vcpus", "want"), [(1, 60), (2, 70), (4, 80), (8, 90), (32, 150), (96, 310)])
def test_reserved_cpu_grows_as_eks_says(vcpus: int, want: int) -> None:
    assert node_resources.reserved_cpu_millis(vcpus) == want


def test_a_kubelet_is_told_what_to_reserve() -> None:
    want = {"cpu": "80m", "memory": "893Mi", "ephemeral-storage": "1Gi"}
    assert node_resources.kube_reserved(vcpus=4, pods=58) == want


def test_memory_is_what_hypervisor_kubelet_and_eviction_leave() -> None:
    assert node_resources.allocatable_memory(16 * GIB, pods=58, overhead_percent=0) == (16_384 - 893 - 100) * MIB
    assert node_resources.allocatable_memory(16 * GIB, pods=58) == (15_155 - 893 - 100) * MIB
    assert node_resources.allocatable_memory(512 * MIB, pods=58) == 0


def test_disk_is_what_kubelet_and_eviction_leave() -> None:
    assert node_resources.allocatable_disk(50 * GIB) == 44 * GIB
    assert node_resources.allocatable_disk(GIB) == 0
