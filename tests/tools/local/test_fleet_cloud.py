"""What the fleet reads from EC2 and Auto Scaling, and what it refuses there."""

from typing import Any

import pytest

from tools.local import fleet_cloud, fleet_nodes


def described(architectures: list[str], gpus: list[dict[str, Any]] | None = None) -> Any:
    """Return an instance type as EC2's DescribeInstanceTypes does."""
    found: dict[str, Any] = {
        "InstanceType": "x1.test",
        "ProcessorInfo": {"SupportedArchitectures": architectures},
        "VCpuInfo": {"DefaultVCpus": 4},
        "MemoryInfo": {"SizeInMiB": 1024},
        "NetworkInfo": {"MaximumNetworkInterfaces": 2, "Ipv4AddressesPerInterface": 6},
    }
    return found | ({"GpuInfo": {"Gpus": gpus}} if gpus else {})


def test_an_instance_type_is_taken_from_its_description() -> None:
    want = fleet_nodes.InstanceType(
        name="x1.test",
        architecture="amd64",
        cores=4,
        memory_bytes=1024**3,
        nvidia_gpus=0,
        network_interfaces=2,
        addresses_per_interface=6,
    )
    assert fleet_cloud.instance_type(described(["i386", "x86_64"])) == want


@pytest.mark.parametrize(
    ("gpus", "want"),
    [
        ([{"Manufacturer": "NVIDIA", "Count": 4}], 4),
        ([{"Manufacturer": "AMD", "Count": 4}], 0),
        ([{"Manufacturer": "Nvidia", "Count": 1}, {"Manufacturer": "NVIDIA", "Count": 2}], 3),
    ],
)
def test_only_nvidias_gpus_count(gpus: list[dict[str, Any]], want: int) -> None:
    found = fleet_cloud.instance_type(described(["arm64"], gpus))
    assert (found.nvidia_gpus, found.architecture) == (want, "arm64")
