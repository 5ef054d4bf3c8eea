"""Many guests at once, and many at rest: modest sizes of what `tests.bench` measures in full."""

import asyncio

import pytest

from tests.autoscaler.kube.cluster import simulated
from tests.bench.machine_groups import Fleet
from tests.scenarios import machine_world

pytestmark = pytest.mark.simulated
WITHIN_SECONDS = 10.0


@simulated
async def test_guests_of_one_type_that_come_at_once_are_told_soon_and_placed_one_right_after_the_other() -> None:
    fleet = Fleet(1, 6)
    fleet.make()
    async with machine_world.runtime(fleet.world, fleet.work.build):
        await asyncio.sleep(30)
        names = fleet.add_guests(60, "guest")
        found = await fleet.until_placed(names, 2 * WITHIN_SECONDS)
        assert found["placed"] == 60
        assert found["placed_or_told_after"] <= 1.0
        assert found["all_placed_after"] <= 60 * 0.05  # a promise, a deletion, an opening and a binding each


@pytest.mark.accept("M13", part="many guests at rest cause no write")
@simulated
async def test_guests_of_many_types_that_come_at_once_are_placed_and_cause_no_write_from_then_on() -> None:
    fleet = Fleet(8, 2)
    fleet.make()
    async with machine_world.runtime(fleet.world, fleet.work.build):
        await asyncio.sleep(30)
        found = await fleet.until_placed(fleet.add_guests(100, "guest"), WITHIN_SECONDS)
        assert found["placed"] == 100
        await asyncio.sleep(30)
        fleet.world.writes.clear()
        await asyncio.sleep(600)
        assert not +fleet.world.writes
