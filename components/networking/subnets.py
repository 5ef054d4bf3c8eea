"""How a network's addresses are divided among zones, and which zones a control plane may stand in. Pure.

A zone's letter alone decides its addresses, so that adding or removing a zone never moves another zone's subnets.
"""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from components.config.network import NatGateways

LETTERS: Final = "abcdefgh"
"""Eight zones fit; no region has more."""
CONTROL_PLANE_ZONES: Final = 2
"""EKS wants subnets of two zones at least, and more bring nothing: it chooses two."""
_EIGHTH: Final = 3
_PUBLIC: Final = 8
"""A public subnet has the prefix of the block and eight bits more: all it holds is a NAT gateway."""
_WITHOUT_CONTROL_PLANE: Final = frozenset({"use1-az3", "usw1-az2", "cac1-az3"})
"""Zones in which EKS places no control plane. Nodes can be there all the same."""


class SubnetError(ValueError):
    """A network cannot be divided like this; the message says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subnets:
    """The two subnets of a zone."""

    private: str
    """Where nodes live: half of the zone's eighth."""
    public: str
    """Where its NAT gateway stands, if it has one. The rest of the eighth stays free."""


def carve(cidr: str, zones: Iterable[str]) -> dict[str, Subnets]:
    """Give each zone its eighth of the block, by its letter."""
    block = ipaddress.IPv4Network(cidr)
    eighths = list(block.subnets(prefixlen_diff=_EIGHTH))
    return {zone: _subnets(eighths[_position(zone)], block.prefixlen + _PUBLIC) for zone in sorted(zones)}


def control_plane_zones(zones: Mapping[str, str]) -> tuple[str, str]:
    """Choose two zones for the control plane, from zone names with their ids."""
    fit = sorted(zone for zone, zone_id in zones.items() if zone_id not in _WITHOUT_CONTROL_PLANE)
    if len(fit) < CONTROL_PLANE_ZONES:
        known = ", ".join(f"{zone} ({zone_id})" for zone, zone_id in sorted(zones.items()))
        raise SubnetError(f"EKS needs two zones that take control planes, and there are {known}: choose another region")
    return fit[0], fit[1]


def gateway_zones(
    choice: NatGateways | None, *, zones: Iterable[str], lasting: Sequence[str], control_plane: Sequence[str]
) -> tuple[str, ...]:
    """Say in which zones NAT gateways stand; those without one go out by the first of them.

    A single one stands where the control plane does, if there is one: pools that come and go do not move it.
    """
    if choice is NatGateways.EVERY_ZONE:
        return tuple(sorted({*zones, *control_plane}))
    if choice is NatGateways.PER_ZONE and lasting:
        return tuple(sorted(lasting))
    return tuple(sorted(control_plane or zones)[:1])


def _position(zone: str) -> int:
    position = LETTERS.find(zone[-1:]) if zone else -1
    if position < 0:
        raise SubnetError(f"zone {zone!r} must end with a letter from a to h, by which it gets its addresses")
    return position


def _subnets(eighth: ipaddress.IPv4Network, public_prefix: int) -> Subnets:
    private, rest = eighth.subnets(prefixlen_diff=1)
    public = next(rest.subnets(new_prefix=public_prefix))
    return Subnets(private=str(private), public=str(public))
