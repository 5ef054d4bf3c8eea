"""What is told about worker pools under load: changes of state are never lost, and what repeats is counted."""

import asyncio
import re

import pytest

from autoscaler.kube.writing import events
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.worker_world import World, runtime

MOMENT_SECONDS = 3.0
"""So soon a change of state is told."""


def told(world: World, reason: str) -> int:
    """Return of how many workers the events with this reason tell, all repeats together."""
    found = world.events().get(reason, [])
    return sum(event["count"] * int(re.findall("[0-9]+", event["message"])[0]) for event in found)


async def change_and_see_told(world: World, status: str) -> None:
    """Pause the pool or shut it down, and see that it is told, once, in a moment."""
    world.change(status=status)
    await asyncio.sleep(MOMENT_SECONDS)
    assert [event["count"] for event in world.events().get(status, [])] == [1], status


@pytest.mark.accept("W17", part="Paused and Shutdown after 15 minutes of load, and counts that lose nothing")
@simulated
async def test_a_pool_that_was_busy_for_long_tells_that_it_is_paused_and_shut_down() -> None:
    world = World(job_seconds=1.0)
    world.add(poolCapacity=100, queue__interval="00:00:05", workerSpec__idleTimeoutMinutes=1)
    async with runtime(world, "prod-us"):
        for _second in range(15 * 60):  # whenever a poll comes, it finds two jobs
            world.line.length = 2
            await asyncio.sleep(1)
        made = world.made["pool"]
        assert made >= 350
        await change_and_see_told(world, "Paused")
        await asyncio.sleep(2 * events.REPEAT_SECONDS)
        left = len(world.pods())
        await change_and_see_told(world, "Shutdown")
        assert (world.made["pool"], world.pods()) == (made, [])
        await asyncio.sleep(2 * events.REPEAT_SECONDS)
        assert (told(world, "CreatedWorkers"), told(world, "CleanUp")) == (made, made - left)
        assert world.events().keys() == {"Adopted", "CreatedWorkers", "CleanUp", "Paused", "Shutdown"}
        assert [world.events()[once][0]["count"] for once in ("Adopted", "Paused", "Shutdown")] == [1, 1, 1]
        everything = [event for each in world.events().values() for event in each]
        assert {event["source"]["component"] for event in everything} == {"prod-us"}
        assert len({event["message"] for event in everything}) == len(everything), "the same again is counted"


@pytest.mark.accept("W17", part="Paused and Shutdown while everything else is told in ever different words")
@simulated
async def test_a_pool_of_which_too_much_is_told_tells_that_it_is_paused_and_shut_down() -> None:
    world = World(job_seconds=7200.0)
    world.add(poolCapacity=2000, queue__interval="00:00:01")
    async with runtime(world):
        for jobs in range(1, events.BURST + 15):
            world.line.length = jobs
            await asyncio.sleep(1)
            world.line.length = 0  # whoever starts has taken one
            await asyncio.sleep(3)
        assert len(world.events()["CreatedWorkers"]) < events.BURST + 14, "some were too many"
        await change_and_see_told(world, "Paused")
        await change_and_see_told(world, "Shutdown")
