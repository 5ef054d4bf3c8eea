"""Examples are named, and money is not limited by them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from components import loading
from components.config import problems, reading
from tests.components import configs

YOURS = "210987654321"
LIMIT = "sluice:clusters.bench.nodePools.work.limits.targetMaxCostPerMonth"
ROOT = Path(__file__).parents[3]


def raw(account: str = YOURS, *, acted_on: bool = False, **cluster: Any) -> reading.Raw:
    pools = {"services": configs.SERVICES, "work": configs.pool(limits={"targetMaxCostPerMonth": 10})}
    given = configs.cluster(**{"nodePools": pools, **cluster})
    sluice = configs.values(accountId=account, alarms={"emails": ["a@x.org"]}, clusters={"bench": given})
    return replace(configs.raw(sluice), is_acted_on=acted_on)


def checked(tmp_path: Path, kind: str) -> Path:
    """The repository's data as if somebody had read it from AWS."""
    text = (ROOT / "stacks" / kind / "eu-west-1.yaml").read_text().replace("example: true\n", "")
    (tmp_path / kind).mkdir()
    (tmp_path / kind / "eu-west-1.yaml").write_text(text)
    return tmp_path / kind


@pytest.mark.accept("S20", part="example offerings and prices are named in check and preview")
def test_example_offerings_and_prices_are_named(tmp_path: Path) -> None:
    told = loading.load(raw()).warnings
    assert any(one.startswith("stacks/offerings/eu-west-1.yaml is example data") for one in told)
    assert any(one.startswith("stacks/prices/eu-west-1.yaml has example prices") for one in told)
    assert not loading.load(raw(), checked(tmp_path, "offerings"), checked(tmp_path, "prices")).warnings


@pytest.mark.accept("S20", part="example accounts are named")
@pytest.mark.parametrize(("account", "want"), [("111122223333", True), ("444455556666", True), (YOURS, False)])
def test_accounts_of_the_documentation_are_named(account: str, *, want: bool) -> None:
    told = loading.load(raw(account)).warnings
    assert any(f"sluice:accountId {account} is an account of AWS' documentation" in one for one in told) is want


@pytest.mark.accept("S20", part="example prices are never enforced as money")
def test_money_is_not_limited_by_example_prices(tmp_path: Path) -> None:
    assert loading.load(raw()).groups  # a check or a preview
    with pytest.raises(problems.ConfigError) as caught:
        loading.load(raw(acted_on=True))
    assert f"{LIMIT} = 10: would be kept by the example prices of stacks/prices/eu-west-1.yaml" in str(caught.value)
    assert loading.load(raw(acted_on=True), price_directory=checked(tmp_path, "prices")).groups


def test_where_no_money_is_spent_or_kept_examples_will_do() -> None:
    assert loading.load(raw(configs.ACCOUNT, acted_on=True)).groups  # what moto plays
    assert loading.load(raw(acted_on=True, nodePools={"services": configs.SERVICES})).groups
    assert loading.load(raw(acted_on=True, autoscaler={"nodeScaler": "cluster-autoscaler"})).groups
