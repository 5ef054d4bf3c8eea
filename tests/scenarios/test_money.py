"""Money in virtual time: a limit of it is kept, what has no price is not started under one, the cheaper is chosen."""

import asyncio
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from autoscaler.api import resources
from autoscaler.api.resources.pools import CapacityType
from autoscaler.api.settings.scaling import EXPANDERS, Expander, PriceList, Scaling
from autoscaler.cloud.prices import MICROS, Prices
from autoscaler.kube import kinds
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cloud import ledger
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.capacity_world import World, runtime

POOLS = kinds.custom(resources.InstancePool)
OD, SPOT = CapacityType.ON_DEMAND, CapacityType.SPOT
HOUR = 3600


def priced(*expanders: Expander, **hourly: float) -> Scaling:
    """Scale by prices of on-demand instances; `m5_xlarge` stands for m5.xlarge."""
    listed = {name.replace("_", "."): {OD: Decimal(str(price))} for name, price in hourly.items()}
    return Scaling(expanders=expanders or EXPANDERS, prices=PriceList(hourly=listed))


def pool(world: World, name: str = "workers") -> dict[str, Any]:
    (found,) = (each for each in world.all(POOLS) if each["metadata"]["name"] == name)
    return found


def standing(world: World) -> dict[str, str]:
    return {each["type"]: each["reason"] for each in pool(world)["status"]["conditions"]}


@pytest.mark.accept("P22")
@simulated
async def test_a_limit_of_money_stops_launches_spares_work_and_lets_idle_instances_go() -> None:
    world = World()
    world.add_pool(limits__maxIdleSeconds=10 * HOUR, limits__targetMaxCostPerMonth=8)
    scaling = priced(m5_xlarge=1)
    async with runtime(world, scaling=scaling):
        for number in range(3):
            world.add_pod(f"works-{number}", cpu="3")
        await asyncio.sleep(120)
        working = world.bound()
        assert len(working) == 3
        await asyncio.sleep(HOUR)
        world.delete_pod("works-2")
        await asyncio.sleep(HOUR)
        assert len(world.nodes()) == 3  # one of them idle, and within the limit
        assert 5.5 < float(pool(world)["status"]["costThisMonth"]) < 6.5
        await asyncio.sleep(HOUR)
        assert standing(world)["WithinBudget"] == "BudgetSpent"
        assert set(world.bound()) == {"works-0", "works-1"}
        assert len(world.nodes()) == 2  # the idle one went for the budget, hours before its time
        world.add_pod("late", cpu="3")
        await asyncio.sleep(HOUR)
        assert world.bound() == {name: node for name, node in working.items() if name != "works-2"}
        assert "the pool may cost 8.00 a month" in world.events("NotTriggerScaleUp")[-1]["message"]
        assert len(world.cloud.instances) == 3
        told, prices = float(pool(world)["status"]["costThisMonth"]), Prices.of(scaling.prices)
        billed = ledger.cost_micros(world.cloud.instances.values(), prices, world.cloud.clock.now()) / MICROS
        assert abs(told - billed) < 0.2  # the status is written once a minute


@pytest.mark.accept("P22")
def test_a_new_month_has_its_money_anew() -> None:
    async def evening() -> None:
        world = World()
        world.add_pool(limits__maxIdleSeconds=300, limits__targetMaxCostPerMonth=4)
        async with runtime(world, scaling=priced(m5_xlarge=1)):
            for number in range(4):
                world.add_pod(f"early-{number}", cpu="3")
            await asyncio.sleep(HOUR)
            for number in range(4):
                world.delete_pod(f"early-{number}")
            await asyncio.sleep(HOUR / 4)
            assert world.nodes() == []
            world.add_pod("late", cpu="3")
            await asyncio.sleep(HOUR / 2)
            assert world.bound() == {}
            assert standing(world)["WithinBudget"] == "BudgetSpent"
            assert float(pool(world)["status"]["costThisMonth"]) > 4
            await asyncio.sleep(HOUR / 2)
            assert set(world.bound()) == {"late"}
            assert pool(world)["status"]["month"] == "2026-02"
            assert float(pool(world)["status"].get("costThisMonth", 0)) < 1
            assert standing(world)["WithinBudget"] == "WithinBudget"

    virtual_time.run(evening(), start=datetime(2026, 1, 31, 22, 0, tzinfo=UTC).timestamp())


@pytest.mark.accept("P22")
@simulated
async def test_the_cheaper_of_two_types_that_fit_is_chosen_and_the_fuller_one_without_prices() -> None:
    small, large = "m5.xlarge", "m5.2xlarge"  # of the same make, so that the larger one can be made the cheaper
    for expanders, want in (
        ((Expander.PRICE, Expander.LEAST_WASTE, Expander.BALANCED), large),
        (EXPANDERS, small),
    ):
        world = World()
        world.add_pool(types=(small, large))
        async with runtime(world, scaling=priced(*expanders, m5_xlarge=0.21, m5_2xlarge=0.2)):
            world.add_pod("one", cpu="3")
            await asyncio.sleep(120)
            assert [instance.key.instance_type for instance in world.cloud.instances.values()] == [want]


@pytest.mark.accept("P22")
@simulated
async def test_what_has_no_price_is_not_started_under_a_limit_of_money_and_says_so() -> None:
    world = World()
    world.add_pool(types=("m5.xlarge", "m5.2xlarge"), limits__targetMaxCostPerMonth=100)
    async with runtime(world, scaling=priced(m5_2xlarge=0.4)):
        world.add_pod("one", cpu="3")
        world.add_pod("huge", cpu="60")
        await asyncio.sleep(120)
        assert [instance.key.instance_type for instance in world.cloud.instances.values()] == ["m5.2xlarge"]
        told = world.events("NotTriggerScaleUp")[-1]["message"]
        assert "targetMaxCostPerMonth is 100 and m5.xlarge on-demand has no price: add it to the stack's prices" in told


@simulated
async def test_without_any_price_nothing_is_started_under_a_limit_of_money() -> None:
    world = World()
    world.add_pool(limits__targetMaxCostPerMonth=100)
    async with runtime(world):
        world.add_pod("one")
        await asyncio.sleep(120)
        assert not world.cloud.instances
        assert "m5.xlarge on-demand has no price" in world.events("NotTriggerScaleUp")[-1]["message"]
        world.add_pool("free")
        await asyncio.sleep(120)
        assert [instance.key.pool for instance in world.cloud.instances.values()] == ["free"]
        assert "costThisMonth" not in pool(world, "free")["status"]


@pytest.mark.accept("P24")
@simulated
async def test_a_budget_of_money_is_warned_about_at_80_percent_in_condition_event_and_metric() -> None:
    world = World()
    world.add_pool(
        limits__maxIdleSeconds=300, limits__targetMaxCostPerMonth=100, limits__targetMaxSecondsPerMonth=10**7
    )
    async with runtime(world, scaling=priced(m5_xlarge=30)) as running:
        world.add_pod("one", cpu="3")
        await asyncio.sleep(2.6 * HOUR)
        assert standing(world)["WithinBudget"] == "WithinBudget"
        assert world.events("BudgetNearlyUsed") == []
        await asyncio.sleep(0.13 * HOUR)
        assert standing(world)["WithinBudget"] == "BudgetNearlyUsed"
        (message,) = (each["message"] for each in pool(world)["status"]["conditions"] if each["type"] == "WithinBudget")
        assert message == "the pool may cost 100.00 a month: 80 % or more is used"
        (event,) = world.events("BudgetNearlyUsed")
        assert event["type"] == "Warning"
        assert event["involvedObject"]["name"] == "workers"
        assert event["message"].startswith("the pool may cost 100.00 a month: 80.")
        shown = running.metrics.render().decode()
        (ratio,) = (
            float(line.rpartition(" ")[2])
            for line in shown.splitlines()
            if line.startswith('sluice_budget_used_ratio{kind="PoolCostPerMonth",pool="workers"')
        )
        assert 0.8 <= ratio < 0.83
        assert 'sluice_pool_month_to_date_cost{currency="USD",pool="workers"} 8' in shown
