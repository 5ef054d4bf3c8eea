"""Where a cluster's nodes live: a network of its own, or subnets that are there already."""

import ipaddress
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from autoscaler.api.resources.pools import ZoneName
from components.config.base import Cidr, Problem, Section, SubnetId, VpcId, absent

PREFIXES: Final = (16, 20)
"""Eight zones, each with a private and a public subnet, must fit."""


class NatGateways(StrEnum):
    SINGLE = "single"
    PER_ZONE = "per-zone"


class Network(Section):
    """A network of the cluster's own (cidr), or one that is there already (vpcId and subnetIds)."""

    cidr: Cidr | None = None
    """The addresses of a network to make, from /16 to /20. Each zone gets a private subnet of a sixteenth."""
    nat_gateways: NatGateways | None = None
    """How a new network's nodes reach the internet: single is cheaper, per-zone survives the loss of a zone.
    Default: single."""
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
        if self.cidr is None:
            yield from self._adopted()
        else:
            yield from self._made()

    def _made(self) -> Iterator[Problem]:
        prefix = ipaddress.IPv4Network(self.cidr or "").prefixlen
        if not PREFIXES[0] <= prefix <= PREFIXES[1]:
            yield Problem(path=("cidr",), value=self.cidr, message="must be from /16 to /20, to fit eight zones")
        if self.service_cidr and ipaddress.IPv4Network(self.service_cidr).overlaps(
            ipaddress.IPv4Network(self.cidr or "")
        ):
            yield Problem(path=("serviceCidr",), value=self.service_cidr, message="must not overlap cidr")
        if self.subnet_ids is not None:
            yield Problem(path=("subnetIds",), value=self.subnet_ids, message="goes with vpcId")

    def _adopted(self) -> Iterator[Problem]:
        if not self.subnet_ids:
            yield absent("subnetIds", message="must name a private subnet for each zone, as {zone: subnet-…}")
        if self.nat_gateways is not None:
            yield Problem(path=("natGateways",), value=self.nat_gateways, message="goes with cidr")
