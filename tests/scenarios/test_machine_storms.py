"""Many guests at once, and many at rest: modest sizes of what `tests.bench` measures in full."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import pytest

from tests.autoscaler.kube.cluster import simulated
from tests.bench.machine_groups import Fleet
from tests.scenarios import machine_world

pytestmark = pytest.mark.simulated
WITHIN_SECONDS = 10.0
"""A thousand guests at once are all placed or told by then."""


@pytest.mark.accept("M14", part="many guests of one type at once are told, and placed soon")
@simulated
async def test_guests_of_one_type_that_come_at_once_are_told_and_placed_soon() -> None:
    fleet = Fleet(1, 20)
    fleet.make()
    async with machine_world.runtime(fleet.world, fleet.work.build):
        await asyncio.sleep(30)
        found = await fleet.until_placed(fleet.add_guests(200, "guest"), 2 * WITHIN_SECONDS)
        assert found["placed"] == 200
        assert found["placed_or_told_after"] <= 1.0
        assert found["all_placed_after"] <= WITHIN_SECONDS * 200 / 1000


@pytest.mark.accept("M13", part="many guests at rest cause no write")
@simulated
async def test_guests_of_many_types_that_come_at_once_are_placed_and_cause_no_write_from_then_on() -> None:
    fleet = Fleet(10, 5)
    fleet.make()
    async with machine_world.runtime(fleet.world, fleet.work.build):
        await asyncio.sleep(30)
        found = await fleet.until_placed(fleet.add_guests(500, "guest"), WITHIN_SECONDS)
        assert found["placed"] == 500
        await asyncio.sleep(30)
        fleet.world.writes.clear()
        await asyncio.sleep(600)
        assert not +fleet.world.writes


@simulated
async def test_a_change_takes_as_many_steps_beside_many_guests_as_beside_few() -> None:
    few, many = await _calls_of_a_change(guests=20, nodes=2), await _calls_of_a_change(guests=120, nodes=12)
    assert many <= 1.1 * few


async def _calls_of_a_change(*, guests: int, nodes: int) -> int:
    """Count the calls of our own functions while a guest comes and goes."""
    fleet = Fleet(1, nodes)
    fleet.make()
    async with machine_world.runtime(fleet.world, fleet.work.build):
        await asyncio.sleep(30)
        await fleet.until_placed(fleet.add_guests(guests, "stay"), WITHIN_SECONDS)
        await _come_and_go(fleet)
        with _counted("/autoscaler/machines/") as calls:
            await _come_and_go(fleet)
        return len(calls)


async def _come_and_go(fleet: Fleet) -> None:
    await fleet.until_placed(fleet.add_guests(1, "change"), WITHIN_SECONDS)
    fleet.world.delete_guest("change-0")
    await asyncio.sleep(30)


@contextmanager
def _counted(part: str) -> Iterator[list[None]]:
    """Note the calls of functions whose file's path has this part."""
    calls: list[None] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and part in frame.f_code.co_filename:
            calls.append(None)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(before)
