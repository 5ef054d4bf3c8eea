"""Prices are data: read strictly, handed on for what pools may start, and demanded where money is counted."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from autoscaler.api.resources.pools import CapacityType
from autoscaler.api.settings.scaling import PriceList
from components import loading
from components.config import problems
from components.regions import prices
from tests.components import configs

TEXT = """
region: eu-west-1
currency: EUR
hourly:
  m7i.large: {on-demand: 0.1}
  c5.18xlarge: {on-demand: 3.456, spot: 1.2}
"""


def written(directory: Path, text: str) -> Path:
    prices.path(configs.REGION, directory).write_text(text)
    return directory


def load(directory: Path, **fields: Any) -> loading.Loaded:
    sluice = configs.values(clusters={"bench": configs.cluster(**fields)}, alarms={"emails": ["a@example.com"]})
    return loading.load(configs.raw(sluice), price_directory=directory)


def test_a_cluster_gets_the_prices_of_what_its_pools_may_start(tmp_path: Path) -> None:
    pools = {"services": configs.SERVICES, "work": configs.pool(capacityType="spot")}
    want = PriceList(
        currency="EUR",
        hourly={
            "c5.18xlarge": {CapacityType.SPOT: Decimal("1.2")},
            "m7i.large": {CapacityType.ON_DEMAND: Decimal("0.1")},
        },
    )
    assert load(written(tmp_path, TEXT), nodePools=pools).prices == {"bench": want}


def test_nobody_needs_prices_who_counts_no_money(tmp_path: Path) -> None:
    assert load(tmp_path).prices == {"bench": PriceList()}


def test_a_limit_of_money_without_any_prices_is_refused_with_what_to_do(tmp_path: Path) -> None:
    pools = {"services": configs.SERVICES, "work": configs.pool(limits={"targetMaxCostPerMonth": 9})}
    with pytest.raises(problems.ConfigError, match=r"nodePools.work.*c5.18xlarge.*run `make prices REGION=eu-west-1`"):
        load(tmp_path, nodePools=pools)


def test_where_the_upstream_autoscaler_scales_no_price_is_needed(tmp_path: Path) -> None:
    pools = {"services": configs.SERVICES, "work": configs.pool(limits={"targetMaxCostPerMonth": 9})}
    assert load(tmp_path, nodePools=pools, autoscaler={"nodeScaler": "cluster-autoscaler"}).groups


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("region: [", "not YAML"),
        (TEXT.replace("eu-west-1", "eu-west-2"), "holds the prices of eu-west-2, not of eu-west-1"),
        (TEXT.replace("0.1}", "0}"), "hourly.m7i.large.on-demand: Input should be greater than 0"),
        (TEXT.replace("0.1}", "0.12345678}"), "no more than 6 decimal places"),
        (TEXT.replace("EUR", "euros"), "currency: String should match"),
        (TEXT + "notes: {}\n", "notes: Extra inputs are not permitted"),
    ],
)
def test_a_broken_file_is_named_with_what_is_wrong(tmp_path: Path, text: str, want: str) -> None:
    with pytest.raises(problems.ConfigError) as caught:
        load(written(tmp_path, text))
    assert str(prices.path(configs.REGION, tmp_path)) in str(caught.value)
    assert want in str(caught.value)
