"""Where a cluster's nodes live: a network of its own, or subnets that are there already."""

import ipaddress
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from autoscaler.api.resources.pools import ZoneName
from components.config.base import Cidr, Location, Problem, Section, SubnetId, VpcId, absent

PREFIXES: Final = (16, 20)
"""Eight zones, each with a private and a public subnet, must fit."""
SERVICE_PREFIXES: Final = (12, 24)
"""What EKS takes for Services."""
PRIVATE: Final = tuple(
    ipaddress.IPv4Network(block) for block in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")
)


def service_problems(text: str, network: str | None, *, path: Location) -> Iterator[Problem]:
    """Check the addresses of a cluster's Services."""
    block = ipaddress.IPv4Network(text)
    if not SERVICE_PREFIXES[0] <= block.prefixlen <= SERVICE_PREFIXES[1]:
        yield Problem(path=path, value=text, message="must be from /12 to /24")
    if network is not None and block.overlaps(ipaddress.IPv4Network(network)):
        yield Problem(path=path, value=text, message="must not overlap cidr")


class NatGateways(StrEnum):
    SINGLE = "single"
    PER_ZONE = "per-zone"
    EVERY_ZONE = "every-zone"


class Network(Section):
    """A network of the cluster's own (cidr), or one that is there already (vpcId and subnetIds)."""

    cidr: Cidr | None = None
    """The addresses of a network to make, from /16 to /20. Each zone gets a private subnet of a sixteenth."""
    nat_gateways: NatGateways | None = None
    """How a new network's nodes reach the internet: single is cheaper, per-zone survives the loss of a zone. It has a
    gateway in each zone in which a pool always has instances (minPerGroup), by which the other zones go out, too;
    every-zone has one in all zones. Each gateway takes an Elastic IP. Default: single."""
    service_cidr: Cidr | None = None
    """The addresses of a new cluster's Services, which must not be the network's. Default: 172.20.0.0/16, or
    10.100.0.0/16 in a network that has those."""
    vpc_id: VpcId | None = None
    """A network that is there already."""
    subnet_ids: Annotated[dict[ZoneName, SubnetId], Field(max_length=16)] | None = None
    """One private subnet of that network for each zone."""

    def problems(self) -> Iterator[Problem]:
        if (self.cidr is None) == (self.vpc_id is None):
            yield absent(message="give either cidr, for a new network, or vpcId and subnetIds, for one that is there")
            return
        if self.service_cidr is not None:
            yield from service_problems(self.service_cidr, self.cidr, path=("serviceCidr",))
        if self.cidr is None:
            yield from self._adopted()
        else:
            yield from self._made()

    def _made(self) -> Iterator[Problem]:
        block = ipaddress.IPv4Network(self.cidr or "")
        if not any(block.subnet_of(private) for private in PRIVATE):
            known = ", ".join(str(private) for private in PRIVATE)
            yield Problem(path=("cidr",), value=self.cidr, message=f"must be private: within {known}")
        if not PREFIXES[0] <= block.prefixlen <= PREFIXES[1]:
            yield Problem(path=("cidr",), value=self.cidr, message="must be from /16 to /20, to fit eight zones")
        if self.subnet_ids is not None:
            yield Problem(path=("subnetIds",), value=self.subnet_ids, message="goes with vpcId")

    def _adopted(self) -> Iterator[Problem]:
        if not self.subnet_ids:
            yield absent("subnetIds", message="must name a private subnet for each zone, as {zone: subnet-…}")
        seen: dict[str, str] = {}
        for zone, subnet in (self.subnet_ids or {}).items():
            if subnet in seen:
                yield Problem(
                    path=("subnetIds", zone), value=subnet, message=f"is the subnet of {seen[subnet]} already"
                )
            seen.setdefault(subnet, zone)
        if self.nat_gateways is not None:
            yield Problem(path=("natGateways",), value=self.nat_gateways, message="goes with cidr")
