"""What EC2 offers where is data: read strictly, and every error says which file and what to do."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from components.regions import offerings, region_files

ROOT = Path(__file__).parents[3]
TEXT = """\
region: eu-west-1
zones: {eu-west-1a: euw1-az3, eu-west-1b: euw1-az1}
types:
  c5.18xlarge: {architecture: amd64, vcpus: 72, memoryMib: 147456, networkInterfaces: 15, addressesPerInterface: 50, zones: [eu-west-1a, eu-west-1b]}
  p3.8xlarge: {architecture: amd64, vcpus: 32, memoryMib: 249856, gpus: 4, gpuName: V100, networkInterfaces: 8, addressesPerInterface: 30, zones: [eu-west-1b]}
"""  # noqa: E501  # one line per type, as in the files


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "eu-west-1.yaml").write_text(TEXT)
    return tmp_path


@pytest.mark.accept("G4")
def test_a_type_is_offered_in_the_zones_the_file_lists(directory: Path) -> None:
    read = offerings.load("eu-west-1", directory)
    assert read.types["c5.18xlarge"].zones == ("eu-west-1a", "eu-west-1b")
    assert read.types["p3.8xlarge"].zones == ("eu-west-1b",)
    assert "z9.huge" not in read.types
    assert not read.example


def test_a_type_tells_what_an_instance_has(directory: Path) -> None:
    offer = offerings.load("eu-west-1", directory).types["p3.8xlarge"]
    assert (offer.architecture, offer.vcpus, offer.gpus, offer.gpu_name) == ("amd64", 32, 4, "V100")
    assert offer.memory_bytes == 244 * 1024**3


@pytest.mark.parametrize(
    ("vcpus", "interfaces", "addresses", "want"),
    [(2, 3, 10, 29), (16, 8, 30, 110), (32, 8, 30, 234), (72, 15, 50, 250)],
)
def test_pods_are_limited_by_addresses_and_by_ekss_ceiling(
    vcpus: int, interfaces: int, addresses: int, want: int
) -> None:
    offer = offerings.InstanceTypeOffer(
        architecture="amd64",
        vcpus=vcpus,
        memory_mib=1,
        network_interfaces=interfaces,
        addresses_per_interface=addresses,
        zones=("eu-west-1a",),
    )
    assert offer.max_pods == want


def test_a_region_without_a_file_says_which_there_are_and_what_to_run(directory: Path) -> None:
    want = r"us-east-1\.yaml: there are no offerings of us-east-1 \(there: eu-west-1\): run `make offerings REGION=us-e"
    with pytest.raises(offerings.OfferingsError, match=want):
        offerings.load("us-east-1", directory)


@pytest.mark.parametrize(
    ("change", "want"),
    [
        (("region: eu-west-1", "region: eu-west-2"), "not availability zones of eu-west-2"),
        (("eu-west-1a: euw1-az3", "eu-west-1-lhr-1a: euw1-az3"), "eu-west-1-lhr-1a are not availability zones"),
        (("zones: [eu-west-1b]", "zones: [eu-west-1c]"), r"types\.p3\.8xlarge: zones eu-west-1c are not among"),
        (("zones: [eu-west-1b]", "zones: []"), r"types\.p3\.8xlarge\.zones"),
        (("zones: [eu-west-1b]", "zones: [eu-west-1b, eu-west-1a]"), "must be in order, each once"),
        (("vcpus: 72", "vcpus: 72, price: 3"), r"types\.c5\.18xlarge\.price: Extra inputs are not permitted"),
        (("vcpus: 72", "vcpus: many"), r"types\.c5\.18xlarge\.vcpus"),
        (("architecture: amd64, vcpus: 72", "architecture: x86_64, vcpus: 72"), r"c5\.18xlarge\.architecture"),
        ((", gpuName: V100", ""), "gpus is 4 and gpuName is None"),
        (("types:", "types: ["), "not YAML"),
        ((TEXT, ""), "the file: Input should be a valid dictionary"),
    ],
)
def test_a_broken_file_is_named_with_its_fault_and_the_way_out(
    directory: Path, change: tuple[str, str], want: str
) -> None:
    (directory / "eu-west-1.yaml").write_text(TEXT.replace(*change))
    with pytest.raises(offerings.OfferingsError, match=want) as caught:
        offerings.load("eu-west-1", directory)
    assert str(directory / "eu-west-1.yaml") in str(caught.value)
    assert "make offerings REGION=eu-west-1" in str(caught.value)


def test_a_file_of_another_region_is_refused(directory: Path) -> None:
    (directory / "us-east-1.yaml").write_text(TEXT)
    with pytest.raises(offerings.OfferingsError, match="holds the offerings of eu-west-1, not of us-east-1"):
        offerings.load("us-east-1", directory)


def test_only_the_first_faults_of_many_are_told() -> None:
    with pytest.raises(ValueError, match=r"; and 3 more$"):
        offerings.parse(TEXT.replace("vcpus", "cpus").replace("memoryMib", "memory"))


def test_offerings_cannot_be_changed(directory: Path) -> None:
    read: Any = offerings.load("eu-west-1", directory)
    with pytest.raises(ValueError, match="frozen"):
        read.types["p3.8xlarge"].vcpus = 1


@pytest.mark.parametrize("region", ["eu-west-1", "us-east-1", "us-west-2"])
def test_the_files_of_the_repository_load_and_say_that_they_are_examples(region: str) -> None:
    read = offerings.load(region, ROOT / offerings.DIRECTORY)
    assert read.example
    assert len(read.types) > 500
    assert set(read.types["c5.18xlarge"].zones) <= set(read.zones)


def test_files_are_read_in_c_where_that_is_there() -> None:
    assert region_files._LOADER is getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@pytest.mark.accept("G4")
@pytest.mark.parametrize("region", ["eu-west-1", "us-east-1", "us-west-2"])
def test_the_gpu_type_of_seed_002_is_not_in_every_zone(region: str) -> None:
    read = offerings.load(region, ROOT / offerings.DIRECTORY)
    assert len(read.types["p3.8xlarge"].zones) == 2 < len(read.zones)
    assert read.types["p3.8xlarge"].gpus == 4
