"""`python -m tools.prices REGION`: ask AWS what instances cost there, and write stacks/prices/REGION.yaml.

On-demand prices are the public ones of Linux on shared hardware, from the Pricing API. A spot price moves all the time:
what is written is the highest of all zones just now. Both are what AWS lists, without anybody's discounts. Whether a
change is fine is for people to decide, in the diff. It changes nothing in AWS.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import ROUND_UP, Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import boto3
import botocore.exceptions

from autoscaler.api.resources.pools import CapacityType
from autoscaler.api.settings.scaling import PRICE_PLACES
from components.regions import prices
from tools import offerings

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client

Hourly = dict[str, dict[CapacityType, Decimal]]
SHOWN_MAX: Final = 12
ENDPOINTS: Final[Mapping[str, str]] = {"cn-": "cn-northwest-1"}
"""The Pricing API is in a few regions only, and tells of all others."""
ENDPOINT: Final = "us-east-1"
PRODUCTS: Final[Mapping[str, str]] = {
    "operatingSystem": "Linux",
    "preInstalledSw": "NA",
    "tenancy": "Shared",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
}
LINUX: Final = "Linux/UNIX"
_STEP: Final = Decimal(1).scaleb(-PRICE_PLACES)


class PricingClient(Protocol):
    """What is asked of boto3's client of the Pricing API."""

    def get_paginator(self, operation_name: str) -> Any:  # noqa: ANN401  # boto3's, of which there are no types here
        """Return a paginator."""
        ...


def main(argv: Sequence[str] | None = None) -> int:
    """Refresh one region's file and print what changed; return the exit code."""
    arguments = _parser().parse_args(argv)
    region, file = arguments.region, prices.path(arguments.region, arguments.directory)
    try:
        found = fetch(offerings.connect(region), connect(region), region)
    except offerings.RefreshError as error:
        print(f"the prices of {region} are as they were: {error}", file=sys.stderr)
        return 1
    before = _before(region, arguments.directory)
    offerings.write(file, render(found))
    print("\n".join(_report(file, before, found)))
    return 0


def connect(region: str) -> PricingClient:
    """Return a client of the Pricing API that knows a region's prices."""
    endpoint = next((where for begin, where in ENDPOINTS.items() if region.startswith(begin)), ENDPOINT)
    try:
        client: PricingClient = boto3.client("pricing", region_name=endpoint, config=offerings.CONFIG)
    except botocore.exceptions.BotoCoreError as error:
        raise offerings.RefreshError(f"no connection to the Pricing API in {endpoint}: {error}") from error
    return client


def fetch(ec2: "EC2Client", pricing: PricingClient, region: str) -> prices.RegionPrices:
    """Ask for both kinds of prices, and put them together; raise RefreshError if there is none, or AWS does not say."""
    try:
        currency, on_demand = _on_demand(pricing, region)
        spot = _spot(ec2)
    except botocore.exceptions.NoCredentialsError as error:
        raise offerings.RefreshError(
            "there are no AWS credentials: log in (`aws sso login`) or set AWS_PROFILE, then try again"
        ) from error
    except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError) as error:
        raise offerings.RefreshError(
            f"AWS did not answer as expected: {error}; the caller needs pricing:GetProducts and"
            " ec2:DescribeSpotPriceHistory, and the region must be enabled"
        ) from error
    hourly: Hourly = {kind: {CapacityType.ON_DEMAND: price} for kind, price in on_demand.items()}
    for kind in spot.keys() & hourly.keys():
        hourly[kind][CapacityType.SPOT] = spot[kind]
    return prices.RegionPrices(region=region, currency=currency, hourly=dict(sorted(hourly.items(), key=_natural)))


def render(found: prices.RegionPrices) -> str:
    """Write prices as YAML, one line per type, so that a change is a changed line."""
    lines = [
        f"# What EC2 costs an hour in {found.region}. `make prices` writes this file; review a change like code.",
        *([f"# example numbers, not checked against AWS; run make prices REGION={found.region}"] * found.example),
        f"region: {found.region}",
        *(["example: true"] * found.example),
        f"currency: {found.currency}",
        "hourly:",
        *(f"  {name}: {_line(by_capacity)}" for name, by_capacity in found.hourly.items()),
    ]
    return "\n".join(lines) + "\n"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.prices", description=__doc__.partition("\n")[0])
    parser.add_argument("region", metavar="REGION", help="the AWS region, such as eu-west-1")
    parser.add_argument("--directory", type=Path, default=prices.DIRECTORY, help="default: %(default)s")
    return parser


def _on_demand(client: PricingClient, region: str) -> tuple[str, dict[str, Decimal]]:
    """Return the currency, and prices by type."""
    wanted = {"regionCode": region, **PRODUCTS}
    filters = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in wanted.items()]
    pages = client.get_paginator("get_products").paginate(ServiceCode="AmazonEC2", Filters=filters)
    found: dict[str, Decimal] = {}
    currencies: set[str] = set()
    for kind, currency, price in (each for page in pages for text in page["PriceList"] for each in _product(text)):
        found[kind] = max(price, found.get(kind, price))
        currencies.add(currency)
    if len(currencies) != 1:
        named = ", ".join(sorted(currencies)) or "no price at all"
        raise offerings.RefreshError(f"the Pricing API names {named} for {region}: one currency was expected")
    return currencies.pop(), found


def _product(text: str) -> Iterator[tuple[str, str, Decimal]]:
    """Read one product: its type with each price of an hour; none for what costs nothing, as reserved hours do."""
    product = json.loads(text)
    kind = product["product"]["attributes"].get("instanceType")
    for term in product.get("terms", {}).get("OnDemand", {}).values():
        for dimension in term["priceDimensions"].values():
            for currency, amount in dimension["pricePerUnit"].items():
                if kind and dimension["unit"] == "Hrs" and (price := _price(amount)):
                    yield kind, currency, price


def _spot(client: "EC2Client") -> dict[str, Decimal]:
    """Return the highest price of all zones just now, by type."""
    pages = client.get_paginator("describe_spot_price_history").paginate(
        StartTime=datetime.now(UTC), ProductDescriptions=[LINUX]
    )
    found: dict[str, Decimal] = {}
    for each in (each for page in pages for each in page["SpotPriceHistory"]):
        kind, price = each["InstanceType"], _price(each["SpotPrice"])
        found[kind] = max(price, found.get(kind, price))
    return {kind: price for kind, price in found.items() if price}


def _price(text: str) -> Decimal:
    """Read an amount, rounded up as all costs are."""
    try:
        return Decimal(text).quantize(_STEP, rounding=ROUND_UP)
    except InvalidOperation as error:
        raise offerings.RefreshError(f"AWS names a price that is no number: {text!r}") from error


def _natural(item: tuple[str, Mapping[CapacityType, Decimal]]) -> tuple[str, Decimal, str]:
    """Sort by family, then by price, so that sizes follow one another."""
    name, by_capacity = item
    return (name.partition(".")[0], by_capacity[CapacityType.ON_DEMAND], name)


def _line(by_capacity: Mapping[CapacityType, Decimal]) -> str:
    return "{" + ", ".join(f"{capacity}: {_digits(price)}" for capacity, price in sorted(by_capacity.items())) + "}"


def _digits(price: Decimal) -> str:
    """Write a number without needless zeros, never as a power of ten."""
    whole, _, part = f"{price:f}".partition(".")
    return f"{whole}.{part.rstrip('0').ljust(1, '0')}"


def _before(region: str, directory: Path) -> prices.RegionPrices | None:
    """Return what the file held; None if there is none or it was broken, for then all is new."""
    try:
        return prices.load(region, directory)
    except prices.PricesError:
        return None


def _report(file: Path, before: prices.RegionPrices | None, found: prices.RegionPrices) -> Iterator[str]:
    yield f"{file}: {len(found.hourly)} types in {found.currency}"
    if before is None:
        return
    old, new = before.hourly, found.hourly
    altered = [kind for kind in new if kind in old and old[kind] != new[kind]]
    for what, names in (
        ("added", [kind for kind in new if kind not in old]),
        ("other prices", altered),
        ("no longer sold", [kind for kind in old if kind not in new]),
    ):
        if names:
            yield f"  {what} ({len(names)}): {_some(names)}"


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = len(listed) - SHOWN_MAX
    return ", ".join(listed[:SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")


if __name__ == "__main__":
    sys.exit(main())
