"""What EC2 offers in a region: which instance type in which zone, and what an instance of it has.

It is data, kept in the repository and reviewed like code, so that a preview asks nobody and is the same everywhere.
Only `load` reads a file. Nothing here may ask AWS: `python -m tools.offerings` does that and writes the files.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Self

import pydantic
from pydantic import Field

from autoscaler.api import node_resources
from autoscaler.api.resources.pools import Architecture, InstanceTypeName
from components.regions import region_files

DIRECTORY: Final = Path("stacks/offerings")

_Positive = Annotated[int, Field(ge=1)]


class OfferingsError(Exception):
    """The offerings of a region are missing or cannot be used; the message names the file and what to do."""


class InstanceTypeOffer(region_files.Strict):
    """An instance type: what an instance of it has, and which zones offer it."""

    architecture: Architecture
    """As Kubernetes names it: amd64 or arm64."""
    vcpus: _Positive
    memory_mib: _Positive
    gpus: Annotated[int, Field(ge=0)] = 0
    """NVIDIA GPUs. Those of other makers are not counted: no device plugin of ours offers them."""
    gpu_name: str | None = None
    """What EC2 calls the GPU, such as V100; None without GPUs."""
    network_interfaces: _Positive
    addresses_per_interface: _Positive
    """IPv4 addresses that each network interface takes."""
    zones: Annotated[tuple[str, ...], Field(min_length=1)]
    """The zones that offer it, in order."""

    @pydantic.model_validator(mode="after")
    def _consistent(self) -> Self:
        if bool(self.gpus) != bool(self.gpu_name):
            raise ValueError(f"gpus is {self.gpus} and gpuName is {self.gpu_name}: give both or neither")
        if list(self.zones) != sorted(set(self.zones)):
            raise ValueError(f"zones {', '.join(self.zones)} must be in order, each once")
        return self

    @property
    def memory_bytes(self) -> int:
        return self.memory_mib * node_resources.MIB

    @property
    def max_pods(self) -> int:
        """The most pods a node takes."""
        return node_resources.max_pods(
            vcpus=self.vcpus,
            network_interfaces=self.network_interfaces,
            addresses_per_interface=self.addresses_per_interface,
        )


class Offerings(region_files.Strict):
    """What EC2 offers in one region."""

    region: region_files.Region
    example: bool = False
    """True for data that nobody has checked against AWS yet."""
    zones: Annotated[Mapping[str, str], Field(min_length=1)]
    """Availability zones by name, with their ids, which mean the same place in every account. No Local Zones."""
    types: Mapping[InstanceTypeName, InstanceTypeOffer]

    @pydantic.model_validator(mode="after")
    def _consistent(self) -> Self:
        strange = [zone for zone in self.zones if not is_availability_zone(zone, self.region)]
        if strange:
            raise ValueError(f"zones: {', '.join(strange)} are not availability zones of {self.region}")
        for name, offer in self.types.items():
            unknown = [zone for zone in offer.zones if zone not in self.zones]
            if unknown:
                raise ValueError(f"types.{name}: zones {', '.join(unknown)} are not among {', '.join(self.zones)}")
        return self


def is_availability_zone(zone: str, region: str) -> bool:
    """Tell availability zones (eu-west-1a) from Local and Wavelength Zones (us-west-2-lax-1a), which we leave out."""
    return re.fullmatch(re.escape(region) + "[a-z]", zone) is not None


def path(region: str, directory: Path = DIRECTORY) -> Path:
    """Return where a region's offerings are kept."""
    return directory / f"{region}.yaml"


def load(region: str, directory: Path = DIRECTORY, *, account: str = "") -> Offerings:
    """Read a region's offerings; raise OfferingsError if they are missing, broken or another region's.

    An account's own file comes first, if it has one: zone names mean other places in other accounts.
    """
    own = path(region, directory / account) if account.isdecimal() else path(region, directory)
    file = own if own.exists() else path(region, directory)
    refresh = f"run `make offerings REGION={region}` and review the difference"
    try:
        read = parse(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        there = ", ".join(sorted(each.stem for each in directory.glob("*.yaml"))) or "none"
        raise OfferingsError(f"{file}: there are no offerings of {region} (there: {there}): {refresh}") from error
    except (OSError, ValueError) as error:
        raise OfferingsError(f"{file} cannot be used: {error}: {refresh}") from error
    if read.region != region:
        raise OfferingsError(f"{file} holds the offerings of {read.region}, not of {region}: {refresh}")
    return read


def parse(text: str) -> Offerings:
    """Read offerings from YAML; raise ValueError that names what is wrong."""
    return region_files.parse(text, Offerings)
