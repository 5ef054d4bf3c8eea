"""What instance types are known to have, with or without AWS."""

import asyncio
import gzip
import json
from collections.abc import Collection, Mapping
from pathlib import Path

import moto
import pytest

from autoscaler.api import keys
from autoscaler.api.resources.pools import Architecture
from autoscaler.cloud import catalogue, port
from autoscaler.cloud.aws import ec2_documents

MIB = 1024**2


def test_the_table_says_what_ec2_says() -> None:
    """Moto brings EC2's own descriptions along; it may know types that came after the table."""
    text = gzip.decompress((Path(moto.__file__).parent / "ec2/resources/instance_types.json.gz").read_bytes())
    described = {name: ec2_documents.instance_type(found) for name, found in json.loads(text).items()}
    want = {name: kind for name, kind in described.items() if kind is not None and not name.startswith("mac")}
    known = catalogue.bundled()
    assert {name: kind for name, kind in known.items() if name in want} == {
        name: kind for name, kind in want.items() if name in known
    }
    assert len(set(want) - set(known)) < len(want) // 10, "write it anew with catalogue.render"


def test_the_table_is_written_as_render_writes_it() -> None:
    text = (Path(catalogue.__file__).parent / "instance_types.json").read_text()
    assert catalogue.render(catalogue.bundled().values()) == text


@pytest.mark.parametrize(
    ("name", "vcpus", "memory_gib", "gpus", "gpu_name"),
    [
        ("p2.xlarge", 4, 61, 1, "K80"),
        ("p2.8xlarge", 32, 488, 8, "K80"),
        ("p2.16xlarge", 64, 732, 16, "K80"),
        ("p3.2xlarge", 8, 61, 1, "V100"),
        ("p3.8xlarge", 32, 244, 4, "V100"),
        ("p3.16xlarge", 64, 488, 8, "V100"),
    ],
)
def test_types_that_ec2_no_longer_describes_are_known_all_the_same(
    name: str, vcpus: int, memory_gib: int, gpus: int, gpu_name: str
) -> None:
    known = catalogue.bundled()[name]
    assert (known.vcpus, known.memory_bytes // MIB) == (vcpus, memory_gib * 1024)
    assert (known.gpus, known.gpu_name) == (gpus, gpu_name)


@pytest.mark.parametrize(
    ("name", "pods", "cpu_millis", "memory_mib"),
    [
        ("m5.large", 29, 1930, 7577 - 255 - 11 * 29 - 100),
        ("t3.small", 11, 1930, 1894 - 255 - 11 * 11 - 100),
        ("m5.4xlarge", 110, 15_890, 60_620 - 255 - 11 * 110 - 100),
        ("c5.18xlarge", 250, 71_750, 136_396 - 255 - 11 * 250 - 100),
        ("r5.8xlarge", 234, 31_850, 242_483 - 255 - 11 * 234 - 100),
    ],
)
def test_allocatable_follows_eks_of_what_the_hypervisor_leaves(
    name: str, pods: int, cpu_millis: int, memory_mib: int
) -> None:
    want = {"cpu": cpu_millis, "memory": memory_mib * MIB, "pods": pods}
    assert catalogue.bundled()[name].allocatable() == want


def test_gpus_of_nvidia_are_a_resource() -> None:
    kind = catalogue.bundled()["p3.8xlarge"]
    assert kind.allocatable()[keys.GPU_RESOURCE] == 4
    assert keys.GPU_RESOURCE not in catalogue.bundled()["m5.large"].capacity()


def test_no_type_offers_more_than_it_has_nor_less_than_nothing() -> None:
    for kind in catalogue.bundled().values():
        capacity, allocatable = kind.capacity(), kind.allocatable()
        assert all(0 <= allocatable[name] <= amount for name, amount in capacity.items()), kind.name
        assert allocatable["cpu"] > 0


def test_a_groups_tags_add_to_what_the_type_has() -> None:
    node = port.NodeTemplate(resources={"ephemeral-storage": 20 * 1024**3, keys.GPU_RESOURCE: 2})
    expected = catalogue.expected(catalogue.bundled()["p3.8xlarge"], node)
    assert (expected["ephemeral-storage"], expected[keys.GPU_RESOURCE], expected["pods"]) == (20 * 1024**3, 2, 234)


class FakeSource:
    """Tells what it knows, counts, and fails on demand."""

    def __init__(self, *known: catalogue.InstanceType) -> None:
        self.known = {kind.name: kind for kind in known}
        self.asked: list[list[str]] = []
        self.error: port.CloudError | None = None

    async def instance_types(self, names: Collection[str]) -> Mapping[str, catalogue.InstanceType]:
        self.asked.append(sorted(names))
        if self.error is not None:
            raise self.error
        return {name: self.known[name] for name in names if name in self.known}


NEW = catalogue.InstanceType(
    name="z9.large",
    architecture=Architecture.ARM64,
    vcpus=2,
    memory_bytes=8192 * MIB,
    network_interfaces=3,
    addresses_per_interface=10,
)


def test_what_ec2_says_is_learned_once() -> None:
    source = FakeSource(NEW)
    known = catalogue.Catalogue(source)
    assert known.get("z9.large") is None
    for _ in range(2):
        asyncio.run(known.learn(["z9.large"]))
    assert known.get("z9.large") == NEW
    assert source.asked == [["z9.large"]]


def test_planning_does_not_depend_on_aws() -> None:
    source = FakeSource()
    source.error = port.CloudError(port.Reason.UNREACHABLE, "nobody there")
    known = catalogue.Catalogue(source)
    asyncio.run(known.learn(["m5.large"]))
    assert known.get("m5.large") == catalogue.bundled()["m5.large"]
    assert catalogue.Catalogue().get("m5.large") is not None
