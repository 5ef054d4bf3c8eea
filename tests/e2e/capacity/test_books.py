"""What a month may take, on real parts: warned about at 80 percent, kept in seconds and in money, by the books."""

import json
from datetime import UTC, datetime

import pytest

from autoscaler.api import keys, version
from tests import builders
from tests.e2e import replicas, waiting
from tests.e2e.capacity import conftest
from tests.e2e.capacity.site import Object, Site

PRICES = {"hourly": {"m5.large": {"on-demand": "0.50"}, "m5.xlarge": {"on-demand": "0.20"}}}
"""The larger type is the cheaper one, so that nobody chooses it for another reason."""
INSTANCES = f"/apis/{version.GROUP_VERSION}/instances"


def enter(site: Site, pool: str, **usage: int) -> None:
    """Enter an instance into the books that is gone, and what it has used of this month."""
    site.make("instances", builders.resource("Instance", name=f"{pool}-007", pool=pool, number=7))
    status = {"phase": "Terminated", "months": {f"{datetime.now(UTC):%Y-%m}": usage}}
    site.plane.api.merge(f"{INSTANCES}/{pool}-007/status", {"status": status})


def budget(site: Site, pool: str) -> Object:
    found = site.status(pool).get("conditions", ())
    return next((each for each in found if each["type"] == "WithinBudget"), {})


def warnings(site: Site, pool: str) -> dict[str, str]:
    """Return what was told of a pool, by reason."""
    query = {"fieldSelector": f"involvedObject.kind=InstancePool,involvedObject.name={pool}"}
    listed = site.plane.api.get("/api/v1/events", query)["items"]
    return {each["reason"]: each["message"] for each in listed if each["type"] == "Warning"}


def measured(runtime: replicas.Replica, name: str, pool: str) -> float | None:
    lines = [line for line in runtime.get("/metrics")[1].splitlines() if line.startswith(f"{name}{{")]
    return next((float(line.rpartition(" ")[2]) for line in lines if f'pool="{pool}"' in line), None)


@pytest.mark.accept("P24")
def test_at_80_percent_of_a_budget_condition_event_and_metric_warn_and_not_before(
    site: Site, start: conftest.Start
) -> None:
    near = site.add_pool("near", limits__targetMaxSecondsPerMonth=1_000_000)
    calm = site.add_pool("calm", limits__targetMaxSecondsPerMonth=1_000_000)
    enter(site, near, seconds=800_000)
    enter(site, calm, seconds=799_000)
    runtime = start()
    waiting.eventually(lambda: budget(site, near) and budget(site, calm))
    assert (budget(site, near)["status"], budget(site, near)["reason"]) == ("False", "BudgetNearlyUsed")
    assert budget(site, near)["message"] == "the pool may use 277 h 46 min of instances a month: 80 % or more is used"
    assert (budget(site, calm)["status"], budget(site, calm)["reason"]) == ("True", "WithinBudget")
    waiting.eventually(lambda: warnings(site, near))
    assert warnings(site, near).keys() == {"BudgetNearlyUsed"}
    assert "222 h 13 min used" in warnings(site, near)["BudgetNearlyUsed"]
    assert warnings(site, calm) == {}
    assert measured(runtime, "sluice_budget_used_ratio", near) == 0.8


@pytest.mark.accept("P22")
def test_money_that_is_spent_starts_nothing_and_the_next_pool_is_used(site: Site, start: conftest.Start) -> None:
    spent = site.add_pool("a-spent", limits__targetMaxCostPerMonth=12)
    left = site.add_pool("b-left", limits__targetMaxCostPerMonth=12)
    groups = [site.add_group(pool) for pool in (spent, left)]
    enter(site, spent, seconds=90_000, costMicros=12_500_000)
    runtime = start("--scaling", json.dumps({"prices": PRICES}))
    site.wait_known(*groups)
    site.add_pod("one")
    site.wait_bound("one")
    assert site.desired() == {groups[1]: 1}
    site.add_pod("two", nodeSelector={keys.INSTANCE_POOL: spent})
    site.wait_told("two", "NotTriggerScaleUp", "the pool may cost 12.00 a month: 12.50 used")
    assert site.status(spent)["costThisMonth"] == "12.50"
    assert budget(site, spent)["reason"] == "BudgetSpent"
    assert measured(runtime, "sluice_pool_month_to_date_cost", spent) == 12.5


@pytest.mark.accept("P22")
def test_the_cheaper_type_is_chosen_and_what_has_no_price_is_refused_under_a_limit(
    site: Site, start: conftest.Start
) -> None:
    pool = site.add_pool("priced", limits__targetMaxCostPerMonth=100)
    dear, cheap, unknown = (site.add_group(pool, kind=kind) for kind in ("m5.large", "m5.xlarge", "m5.2xlarge"))
    start("--scaling", json.dumps({"prices": PRICES, "expanders": ["price", "least-waste", "balanced"]}))
    site.wait_known(dear, cheap, unknown)
    site.add_pod("one")
    site.wait_bound("one")
    assert site.desired() == {cheap: 1}
    want = "targetMaxCostPerMonth is 100 and m5.2xlarge on-demand has no price: add it to the stack's prices"
    assert site.group_status(pool, unknown)["reason"] == want
