import ipaddress
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.config.network import NatGateways
from components.networking import subnets

BLOCKS = st.builds(
    lambda prefix, base: str(ipaddress.IPv4Network((base >> (32 - prefix) << (32 - prefix), prefix))),
    st.integers(min_value=16, max_value=20),
    st.integers(min_value=0x0A000000, max_value=0x0AFFFFFF),
)
ZONES = st.sets(st.sampled_from([f"eu-west-1{letter}" for letter in subnets.LETTERS]), min_size=1)


def networks(carved: dict[str, subnets.Subnets]) -> list[ipaddress.IPv4Network]:
    return [ipaddress.IPv4Network(cidr) for one in carved.values() for cidr in (one.private, one.public)]


def test_a_zones_letter_decides_its_addresses() -> None:
    want = {
        "eu-west-1a": subnets.Subnets(private="10.32.0.0/20", public="10.32.16.0/24"),
        "eu-west-1c": subnets.Subnets(private="10.32.64.0/20", public="10.32.80.0/24"),
        "eu-west-1h": subnets.Subnets(private="10.32.224.0/20", public="10.32.240.0/24"),
    }
    assert subnets.carve("10.32.0.0/16", ["eu-west-1h", "eu-west-1c", "eu-west-1a"]) == want


def test_the_smallest_block_still_has_subnets_that_aws_allows() -> None:
    want = subnets.Subnets(private="10.0.0.0/24", public="10.0.1.0/28")
    assert subnets.carve("10.0.0.0/20", ["us-east-1a"]) == {"us-east-1a": want}


@given(cidr=BLOCKS, zones=ZONES)
def test_subnets_lie_in_the_block_and_never_overlap(cidr: str, zones: set[str]) -> None:
    made = networks(subnets.carve(cidr, zones))
    assert len(made) == 2 * len(zones)
    assert all(one.subnet_of(ipaddress.IPv4Network(cidr)) for one in made)
    assert not any(one.overlaps(other) for one, other in itertools.combinations(made, 2))


@given(cidr=BLOCKS, zones=ZONES, more=ZONES)
def test_adding_a_zone_moves_no_other(cidr: str, zones: set[str], more: set[str]) -> None:
    before, after = subnets.carve(cidr, zones), subnets.carve(cidr, zones | more)
    assert {zone: after[zone] for zone in before} == before


@pytest.mark.parametrize("zone", ["us-west-2-lax-1i", "us-east-1", ""])
def test_a_zone_without_a_letter_of_ours_is_refused(zone: str) -> None:
    with pytest.raises(subnets.SubnetError, match="must end with a letter from a to h"):
        subnets.carve("10.0.0.0/16", [zone])


def test_the_control_plane_avoids_zones_that_eks_does_not_support() -> None:
    zones = {"us-east-1a": "use1-az3", "us-east-1c": "use1-az2", "us-east-1b": "use1-az1", "us-east-1d": "use1-az4"}
    assert subnets.control_plane_zones(zones) == ("us-east-1b", "us-east-1c")


def test_a_region_with_one_fitting_zone_is_refused() -> None:
    with pytest.raises(subnets.SubnetError, match=r"two zones .* us-west-1a \(usw1-az2\), us-west-1b"):
        subnets.control_plane_zones({"us-west-1b": "usw1-az3", "us-west-1a": "usw1-az2"})


A, B, C = (f"eu-west-1{letter}" for letter in "abc")


@pytest.mark.parametrize(
    ("choice", "lasting", "control_plane", "want"),
    [
        (None, (B, C), (A, B), (A,)),
        (NatGateways.SINGLE, (B, C), (A, B), (A,)),
        (NatGateways.SINGLE, (), (), (A,)),
        (NatGateways.PER_ZONE, (B, C), (A, B), (B, C)),
        (NatGateways.PER_ZONE, (), (B, A), (A,)),
        (NatGateways.EVERY_ZONE, (B,), (A, B), (A, B, C)),
    ],
)
def test_gateways_stand_where_nodes_always_are_or_by_choice(
    choice: NatGateways | None, lasting: tuple[str, ...], control_plane: tuple[str, ...], want: tuple[str, ...]
) -> None:
    got = subnets.gateway_zones(choice, zones=(A, B, C), lasting=lasting, control_plane=control_plane)
    assert got == want


@pytest.mark.parametrize("zones", [(C,), (B, C), (A, B, C)])
def test_pools_that_come_and_go_do_not_move_the_single_gateway(zones: tuple[str, ...]) -> None:
    assert subnets.gateway_zones(None, zones=zones, lasting=(), control_plane=(A, B)) == (A,)
