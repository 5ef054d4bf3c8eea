"""`python -m tools.offerings REGION`: ask EC2 what it offers where, and write stacks/offerings/ACCOUNT/REGION.yaml.

It writes what EC2 says and tells what changed; whether that is fine is for people to decide, in the diff. It never
asks for prices, and it changes nothing in AWS.
"""

import argparse
import difflib
import math
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import boto3
import botocore.config
import botocore.exceptions
import yaml

from autoscaler.api import node_resources
from autoscaler.cloud import catalogue
from autoscaler.cloud.aws import ec2_documents
from components.regions import offerings

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_ec2.type_defs import InstanceTypeInfoTypeDef

CONFIG: Final = botocore.config.Config(
    retries={"mode": "standard", "max_attempts": 5}, connect_timeout=10, read_timeout=60
)
SHOWN_MAX: Final = 12
_SUPPLEMENT: Final = ("p2.xlarge", "p2.8xlarge", "p2.16xlarge", "p3.2xlarge", "p3.8xlarge", "p3.16xlarge")
_SUPPLEMENT_ZONES: Final = 2
EXAMPLE_NOTE: Final = "example data, not checked against AWS; run make offerings REGION={region} before the first up"


class RefreshError(Exception):
    """EC2 could not be asked; the message says why and what to do. No file was touched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """What EC2 said: the offerings, and what was left out of them."""

    offerings: offerings.Offerings
    undescribed: tuple[str, ...]
    """Types that are offered, but of which EC2 does not say what they have."""
    foreign: tuple[str, ...]
    """Types whose processors Kubernetes nodes of ours cannot have, such as mac2.metal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """How new offerings differ from old ones."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    zones_lost: Mapping[str, tuple[str, ...]]
    """By type: zones that no longer offer it. A stack that uses them would lose those groups."""
    zones_gained: Mapping[str, tuple[str, ...]]
    altered: tuple[str, ...]
    """Types that have other amounts than before."""

    def __bool__(self) -> bool:
        return any((self.added, self.removed, self.zones_lost, self.zones_gained, self.altered))


def main(argv: Sequence[str] | None = None) -> int:
    """Refresh one region's file and print what changed; return the exit code."""
    arguments = _parser().parse_args(argv)
    try:
        fetched = fetch(connect(arguments.region), arguments.region, example=arguments.example)
        directory = arguments.directory if arguments.example else arguments.directory / account(arguments.region)
    except RefreshError as error:
        print(f"the offerings of {arguments.region} are as they were: {error}", file=sys.stderr)
        return 1
    file = offerings.path(arguments.region, directory)
    before = _before(arguments.region, directory)
    write(file, render(fetched.offerings))
    print("\n".join(_report(file, fetched, before)))
    return 0


def connect(region: str) -> "EC2Client":
    """Return a client for a region that exists; credentials come from wherever boto3 finds them."""
    try:
        session = boto3.session.Session(region_name=region)
        _check_region(session, region)
        return session.client("ec2", config=CONFIG)
    except botocore.exceptions.BotoCoreError as error:
        raise RefreshError(f"no connection to EC2 in {region}: {error}") from error


def account(region: str) -> str:
    """Ask whose credentials these are: zone names mean other places in other accounts."""
    try:
        caller = boto3.session.Session(region_name=region).client("sts", config=CONFIG).get_caller_identity()
        return str(caller["Account"])
    except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError) as error:
        raise RefreshError(f"cannot tell which account these credentials are of: {error}") from error


def fetch(client: "EC2Client", region: str, *, example: bool = False) -> Fetched:
    """Ask EC2 for zones, offerings and types, and put them together."""
    try:
        zones = _zones(client, region)
        offered = _offered(client, zones)
        described = _described(client)
    except botocore.exceptions.NoCredentialsError as error:
        raise RefreshError(
            "there are no AWS credentials: log in (`aws sso login`) or set AWS_PROFILE, then try again"
        ) from error
    except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError) as error:
        raise RefreshError(
            f"EC2 in {region} did not answer as expected: {error}; the caller needs ec2:DescribeAvailabilityZones,"
            " ec2:DescribeInstanceTypeOfferings and ec2:DescribeInstanceTypes, and the region must be enabled"
        ) from error
    types = {name: ec2_documents.instance_type(described[name]) for name in offered if name in described}
    usable = {name: _offer(kind, offered[name]) for name, kind in types.items() if kind is not None}
    if example:
        usable = _supplement(tuple(zones)) | usable
    return Fetched(
        offerings=offerings.Offerings(
            region=region, example=example, zones=zones, types=dict(sorted(usable.items(), key=_natural))
        ),
        undescribed=tuple(sorted(offered.keys() - described.keys())),
        foreign=tuple(sorted(types.keys() - usable.keys())),
    )


def render(found: offerings.Offerings) -> str:
    """Write offerings as YAML, one line per zone and per type, so that a change is a changed line."""
    note = [f"# {EXAMPLE_NOTE.format(region=found.region)}"] if found.example else []
    lines = [
        f"# What EC2 offers where in {found.region}. `make offerings` writes this file; review a change like code.",
        *note,
        f"region: {found.region}",
        *(["example: true"] if found.example else []),
        "zones:",
        *(f"  {zone}: {identifier}" for zone, identifier in sorted(found.zones.items())),
        "types:",
        *(f"  {name}: {_line(offer)}" for name, offer in found.types.items()),
    ]
    return "\n".join(lines) + "\n"


def compare(old: offerings.Offerings | None, new: offerings.Offerings) -> Changes:
    """Find what changed; without old offerings everything is added."""
    before = old.types if old else {}
    both = [(name, before[name], offer) for name, offer in new.types.items() if name in before]
    return Changes(
        added=tuple(name for name in new.types if name not in before),
        removed=tuple(name for name in before if name not in new.types),
        zones_lost=_missing((name, was.zones, now.zones) for name, was, now in both),
        zones_gained=_missing((name, now.zones, was.zones) for name, was, now in both),
        altered=tuple(name for name, was, now in both if was.model_copy(update={"zones": now.zones}) != now),
    )


def write(file: Path, text: str) -> None:
    """Replace a file as a whole: whoever reads it meanwhile sees the old or the new one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=file.parent, suffix=".new", delete=False) as new:
        new.write(text)
    Path(new.name).chmod(0o644)
    os.replace(new.name, file)  # noqa: PTH105  # atomic, and named for it


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.offerings", description=__doc__.partition("\n")[0])
    parser.add_argument("region", metavar="REGION", help="the AWS region, such as eu-west-1")
    parser.add_argument("--directory", type=Path, default=offerings.DIRECTORY, help="default: %(default)s")
    parser.add_argument(
        "--example",
        action="store_true",
        help="mark the file as example data (of a simulated AWS), with retired GPU types added",
    )
    return parser


def _check_region(session: boto3.session.Session, region: str) -> None:
    known = [
        each
        for partition in session.get_available_partitions()
        for each in session.get_available_regions("ec2", partition)
    ]
    if region not in known:
        close = difflib.get_close_matches(region, known, n=3)
        hint = f"did you mean {' or '.join(close)}?" if close else "see `aws ec2 describe-regions --all-regions`"
        raise RefreshError(f"{region} is no region that boto3 {boto3.__version__} knows: {hint}")


def _zones(client: "EC2Client", region: str) -> dict[str, str]:
    answer = client.describe_availability_zones(
        Filters=[{"Name": "zone-type", "Values": ["availability-zone"]}, {"Name": "state", "Values": ["available"]}]
    )
    zones = {
        zone["ZoneName"]: zone["ZoneId"]
        for zone in answer["AvailabilityZones"]
        if zone["State"] == "available" and offerings.is_availability_zone(zone["ZoneName"], region)
    }
    if not zones:
        raise RefreshError(f"EC2 names no available zone of {region}: is the region enabled for this account?")
    return dict(sorted(zones.items()))


def _offered(client: "EC2Client", zones: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the zones that offer each type."""
    found: dict[str, set[str]] = defaultdict(set)
    pages = client.get_paginator("describe_instance_type_offerings").paginate(LocationType="availability-zone")
    for page in pages:
        for offering in page["InstanceTypeOfferings"]:
            if offering["Location"] in zones:
                found[offering["InstanceType"]].add(offering["Location"])
    return {name: tuple(sorted(where)) for name, where in found.items()}


def _described(client: "EC2Client") -> "dict[str, InstanceTypeInfoTypeDef]":
    pages = client.get_paginator("describe_instance_types").paginate()
    return {kind["InstanceType"]: kind for page in pages for kind in page["InstanceTypes"]}


def _offer(kind: catalogue.InstanceType, zones: tuple[str, ...]) -> offerings.InstanceTypeOffer:
    return offerings.InstanceTypeOffer(
        architecture=kind.architecture,
        vcpus=kind.vcpus,
        memory_mib=kind.memory_bytes // node_resources.MIB,
        gpus=kind.gpus,
        gpu_name=kind.gpu_name,
        network_interfaces=kind.network_interfaces,
        addresses_per_interface=kind.addresses_per_interface,
        zones=zones,
    )


def _supplement(zones: Sequence[str]) -> dict[str, offerings.InstanceTypeOffer]:
    """Add to example data the retired GPU types that stacks still name, as EC2 documents them, in some zones only."""
    some = tuple(zones[:_SUPPLEMENT_ZONES])
    return {name: _offer(catalogue.bundled()[name], some) for name in _SUPPLEMENT}


def _natural(item: tuple[str, offerings.InstanceTypeOffer]) -> tuple[str, int, str]:
    """Sort by family, then by size as far as processors tell it, so that neighbours are alike."""
    name, offer = item
    return (name.partition(".")[0], offer.vcpus, name)


def _line(offer: offerings.InstanceTypeOffer) -> str:
    fields = offer.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return yaml.safe_dump(fields, default_flow_style=True, width=math.inf, sort_keys=False).strip()


def _missing(
    pairs: Iterable[tuple[str, tuple[str, ...], tuple[str, ...]]],
) -> dict[str, tuple[str, ...]]:
    """Return, by type, what the first has and the second lacks, where there is any."""
    found = {name: tuple(zone for zone in first if zone not in second) for name, first, second in pairs}
    return {name: zones for name, zones in found.items() if zones}


def _before(region: str, directory: Path) -> offerings.Offerings | None:
    """Return what the file held; None if there is none or it was broken, for then all is new."""
    try:
        return offerings.load(region, directory)
    except offerings.OfferingsError:
        return None


def _report(file: Path, fetched: Fetched, before: offerings.Offerings | None) -> Iterator[str]:
    found = fetched.offerings
    changes = compare(before, found)
    yield f"{file}: {len(found.types)} types in {len(found.zones)} zones of {found.region}" + (
        "" if changes else ", as before"
    )
    for what, names in (
        ("added", changes.added if before else ()),
        ("other amounts", changes.altered),
        ("offered, but not described, and left out", fetched.undescribed),
        ("left out, no Linux nodes", fetched.foreign),
    ):
        if names:
            yield f"  {what} ({len(names)}): {_some(names)}"
    yield from (f"  {name} is no longer offered in any zone" for name in changes.removed)
    yield from (f"  {name} is no longer offered in {', '.join(lost)}" for name, lost in changes.zones_lost.items())
    if changes.zones_gained:
        yield f"  more zones ({len(changes.zones_gained)}): {_some(tuple(changes.zones_gained))}"
    if found.example:
        yield f"  {EXAMPLE_NOTE.format(region=found.region)}"


def _some(names: Sequence[str]) -> str:
    more = len(names) - SHOWN_MAX
    return ", ".join(names[:SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")


if __name__ == "__main__":
    sys.exit(main())
