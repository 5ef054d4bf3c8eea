"""What a node leaves for pods. Pure: the stack tells kubelets what to reserve, and the runtime expects the rest.

The formulas are those of EKS's node images (awslabs/amazon-eks-ami, nodeadm/internal/kubelet/config.go): cpu 6 % of the
first core, 1 % of the second, 0.5 % of two more and 0.25 % of the rest; memory 255 MiB and 11 MiB for each pod; 1 GiB
of disk. Pods are limited by the addresses that the VPC CNI can hand out, and to 110, or 250 above 30 vCPUs. A kubelet
also keeps free what its eviction thresholds say, and a virtual machine sees less memory than its type has.
"""

import math
from typing import Final

MIB: Final = 1024**2
GIB: Final = 1024**3
VM_MEMORY_OVERHEAD_PERCENT: Final = 7.5
"""So much of an instance's memory its node is expected not to have: hypervisor, firmware and kernel."""
EVICTION_HARD: Final = {"memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%"}
"""A kubelet's thresholds; what they keep free is not for pods."""

_EVICTION_MEMORY: Final = 100 * MIB
_EVICTION_DISK_PERCENT: Final = 10
_DISK_RESERVED: Final = GIB
_CPU_STEPS: Final = ((1000, 600), (2000, 100), (4000, 50))
"""Up to so many millis, so many ten-thousandths are reserved."""
_CPU_REST: Final = 25
_KUBELET_MIB: Final = 255
_POD_MIB: Final = 11
_PODS_MAX: Final = 110
_PODS_MAX_LARGE: Final = 250
_MANY_VCPUS: Final = 30


def max_pods(*, vcpus: int, network_interfaces: int, addresses_per_interface: int) -> int:
    """Return the most pods that a node takes."""
    addresses = network_interfaces * (addresses_per_interface - 1) + 2
    return min(addresses, _PODS_MAX_LARGE if vcpus > _MANY_VCPUS else _PODS_MAX)


def kube_reserved(*, vcpus: int, pods: int) -> dict[str, str]:
    """Write what a kubelet is to reserve for itself and the system."""
    return {
        "cpu": f"{reserved_cpu_millis(vcpus)}m",
        "memory": f"{reserved_memory(pods) // MIB}Mi",
        "ephemeral-storage": f"{_DISK_RESERVED // GIB}Gi",
    }


def reserved_cpu_millis(vcpus: int) -> int:
    """Return what is reserved of a node's cores."""
    total, start, reserved = vcpus * 1000, 0, 0
    for end, share in (*_CPU_STEPS, (max(total, _CPU_STEPS[-1][0]), _CPU_REST)):
        reserved += max(0, min(end, total) - start) * share // 10_000
        start = end
    return reserved


def reserved_memory(pods: int) -> int:
    """Return what is reserved of a node's memory, in bytes."""
    return (_KUBELET_MIB + _POD_MIB * pods) * MIB


def allocatable_memory(memory: int, *, pods: int, overhead_percent: float = VM_MEMORY_OVERHEAD_PERCENT) -> int:
    """Return what is expected to be left for pods of an instance's memory, in bytes, whole MiB."""
    seen = memory - math.ceil(memory * overhead_percent / 100)
    return max(0, seen - reserved_memory(pods) - _EVICTION_MEMORY) // MIB * MIB


def allocatable_disk(size: int) -> int:
    """Return what is left for pods of a root disk, in bytes."""
    return max(0, size - _DISK_RESERVED - size * _EVICTION_DISK_PERCENT // 100)
