"""What AWS says of prices becomes a file that people can review.

The Pricing API is a stub that keeps to botocore's own description of it, since moto does not play it: that its products
look like this is as AWS documents them, not tried on AWS. The spot prices come from moto.
"""

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import boto3
import moto
import pytest
from botocore import stub

import components.regions.prices
from autoscaler.api.resources.pools import CapacityType
from tools import offerings, prices

REGION = "eu-west-1"
OD, SPOT = CapacityType.ON_DEMAND, CapacityType.SPOT


@pytest.fixture(autouse=True)
def _aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "made-up")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "made-up")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with moto.mock_aws():
        yield


def product(kind: str, *amounts: str, currency: str = "USD", unit: str = "Hrs") -> str:
    """A product with its terms, as the Pricing API writes them: JSON in a text."""
    dimensions = {
        f"SKU.TERM.{number}": {"unit": unit, "pricePerUnit": {currency: amount}}
        for number, amount in enumerate(amounts)
    }
    terms = {"OnDemand": {"SKU.TERM": {"priceDimensions": dimensions}}}
    return json.dumps({"product": {"attributes": {"instanceType": kind}}, "terms": terms})


def pricing(*pages: list[str]) -> Any:
    """A client that answers with these pages, if it is asked for what we need."""
    client = boto3.client("pricing", region_name=prices.ENDPOINT)
    stubber = stub.Stubber(client)
    wanted = {"regionCode": REGION, **prices.PRODUCTS}
    asked: dict[str, Any] = {
        "ServiceCode": "AmazonEC2",
        "Filters": [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in wanted.items()],
    }
    for number, page in enumerate(pages):
        more = {"NextToken": f"after-{number}"} if number + 1 < len(pages) else {}
        stubber.add_response("get_products", {"PriceList": page, **more}, asked)
        asked = {**asked, **more}
    stubber.activate()
    return client


def spot(*rows: tuple[str, str, str]) -> Any:
    client = boto3.client("ec2", region_name=REGION)
    stubber = stub.Stubber(client)
    history = [{"InstanceType": kind, "AvailabilityZone": zone, "SpotPrice": price} for kind, zone, price in rows]
    wanted = {"StartTime": stub.ANY, "ProductDescriptions": [prices.LINUX]}
    stubber.add_response("describe_spot_price_history", {"SpotPriceHistory": history}, wanted)
    stubber.activate()
    return client


def test_pages_are_joined_and_amounts_rounded_up() -> None:
    client = pricing([product("m5.large", "0.1070000000")], [product("t4g.nano", "0.00460000009", "0.0000000000")])
    found = prices.fetch(spot(), client, REGION)
    assert found.currency == "USD"
    assert found.hourly == {"m5.large": {OD: Decimal("0.107")}, "t4g.nano": {OD: Decimal("0.004601")}}


def test_the_dearest_zone_is_the_spot_price() -> None:
    rows = (("m5.large", "eu-west-1a", "0.041"), ("m5.large", "eu-west-1b", "0.044"), ("gone.large", "a", "0.1"))
    found = prices.fetch(spot(*rows), pricing([product("m5.large", "0.107")]), REGION)
    assert found.hourly == {"m5.large": {OD: Decimal("0.107"), SPOT: Decimal("0.044")}}


def test_moto_tells_spot_prices_as_ec2_does() -> None:
    ec2 = boto3.client("ec2", region_name=REGION)
    found = prices.fetch(ec2, pricing([product("m5.large", "0.107")]), REGION)
    assert found.hourly == {"m5.large": {OD: Decimal("0.107"), SPOT: Decimal("0.00001")}}


def test_what_is_no_hour_or_has_no_type_is_left_out() -> None:
    listed = [product("m5.large", "0.107"), product("m5.xlarge", "3", unit="Quantity"), product("", "1")]
    assert set(prices.fetch(spot(), pricing(listed), REGION).hourly) == {"m5.large"}


@pytest.mark.parametrize(
    ("listed", "want"),
    [
        ([], "names no price at all for eu-west-1"),
        ([product("a.b", "1"), product("c.d", "1", currency="CNY")], "names CNY, USD for eu-west-1"),
        ([product("a.b", "free")], "a price that is no number: 'free'"),
    ],
)
def test_prices_that_make_no_sense_are_refused(listed: list[str], want: str) -> None:
    with pytest.raises(offerings.RefreshError, match=want):
        prices.fetch(spot(), pricing(listed), REGION)


def test_a_refusal_names_the_rights_that_are_needed() -> None:
    client = boto3.client("pricing", region_name=prices.ENDPOINT)
    stubber = stub.Stubber(client)
    stubber.add_client_error("get_products", "AccessDeniedException", "no")
    stubber.activate()
    with pytest.raises(offerings.RefreshError, match="pricing:GetProducts and ec2:DescribeSpotPriceHistory"):
        prices.fetch(spot(), client, REGION)


def test_the_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    rows = (("m5.large", "eu-west-1a", "0.0000011"),)
    listed = [product("m5.xlarge", "0.214"), product("m5.large", "0.1"), product("c5.large", "100")]
    found = prices.fetch(spot(*rows), pricing(listed), REGION)
    text = prices.render(found)
    assert text.splitlines()[-3:] == [
        "  c5.large: {on-demand: 100.0}",
        "  m5.large: {on-demand: 0.1, spot: 0.000002}",
        "  m5.xlarge: {on-demand: 0.214}",
    ]
    offerings.write(components.regions.prices.path(REGION, tmp_path), text)
    assert components.regions.prices.load(REGION, tmp_path) == found


def test_the_command_writes_the_file_and_tells_what_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old = "region: eu-west-1\ncurrency: USD\nhourly:\n  m5.large: {on-demand: 0.1}\n  m1.large: {on-demand: 0.2}\n"
    components.regions.prices.path(REGION, tmp_path).write_text(old)
    listed = [product("m5.large", "0.107"), product("m7i.large", "0.11")]
    monkeypatch.setattr(prices, "connect", lambda _: pricing(listed))
    monkeypatch.setattr(offerings, "connect", lambda _: spot())
    assert prices.main([REGION, "--directory", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert "2 types in USD" in told
    assert "added (1): m7i.large" in told
    assert "other prices (1): m5.large" in told
    assert "no longer sold (1): m1.large" in told


def test_a_failure_leaves_the_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(prices, "connect", lambda _: pricing([]))
    monkeypatch.setattr(offerings, "connect", lambda _: spot())
    assert prices.main([REGION, "--directory", str(tmp_path)]) == 1
    assert "the prices of eu-west-1 are as they were" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("region", "want"), [("eu-west-1", "us-east-1"), ("cn-north-1", "cn-northwest-1")])
def test_the_api_is_asked_where_it_is(region: str, want: str) -> None:
    client: Any = prices.connect(region)
    assert client.meta.region_name == want
