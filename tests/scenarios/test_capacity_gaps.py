"""Gaps, in virtual time: after a watch, the API server or the Lease was away, nothing is ended for a while."""

import asyncio

import pytest

from autoscaler.api import keys
from autoscaler.kube import kinds
from autoscaler.simulation.cluster import faults
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios import running
from tests.scenarios.capacity_world import World, runtime

pytestmark = pytest.mark.accept("R3", part="nothing is ended")
IDLE_SECONDS = 30
IDLE_FROM = 45
"""When the pod goes; its node has been idle for long enough half a minute later."""


async def idle(world: World) -> None:
    """Have one instance, which falls idle."""
    world.add_pool(zones=("a",), limits__maxIdleSeconds=IDLE_SECONDS)
    world.add_pod("works", cpu="3")
    await asyncio.sleep(IDLE_FROM)
    assert world.bound()
    world.delete_pod("works")


def pause(world: World, value: str | None) -> None:
    world.patch(kinds.NAMESPACES, running.NAMESPACE, {"metadata": {"annotations": {keys.PAUSED: value}}})


def cut(world: World, path: str) -> None:
    """Break the watches of one kind, and let none of them come back until faults are cleared."""
    world.cluster.faults.add(faults.Refuse(), faults.Matching(method=faults.WATCH, path=path), times=None)
    world.cluster.faults.cut_watches("a")


async def ended_after(world: World, *, within: float) -> float:
    """Return after how many seconds the instance ended."""
    for second in range(int(within)):
        if not world.desired():
            return second
        await asyncio.sleep(1)
    raise AssertionError("it never ended")


@simulated
async def test_without_a_gap_an_idle_instance_goes_in_its_time() -> None:
    world = World()
    async with runtime(world):
        await idle(world)
        assert 30 <= await ended_after(world, within=60) <= 40


@pytest.mark.parametrize("path", ["/pods", "/nodes"])
def test_while_a_watch_is_away_and_a_minute_after_its_return_nothing_is_ended(path: str) -> None:
    @simulated
    async def play() -> None:
        world = World()
        async with runtime(world):
            await idle(world)
            await asyncio.sleep(10)
            cut(world, path)
            await asyncio.sleep(40)  # shorter than a minute: what is known is still trusted, and cycles go on
            assert world.desired()
            world.cluster.faults.clear()
            assert 60 <= await ended_after(world, within=300) <= 200

    play()


@simulated
async def test_a_watch_that_breaks_for_a_moment_is_a_gap_too() -> None:
    world = World()
    async with runtime(world):
        await idle(world)
        await asyncio.sleep(25)
        world.cluster.faults.cut_watches("a")
        await asyncio.sleep(0.3)
        world.add_pod("news", cpu="100")  # no node has room: the watch goes on at once
        assert await ended_after(world, within=300) > 50


@simulated
async def test_a_watch_that_the_server_ends_in_its_time_is_no_gap() -> None:
    world = World()
    async with runtime(world):
        await idle(world)
        for _ in range(8):  # watches end after five to ten minutes
            assert await ended_after(world, within=90) <= 40
            world.add_pod("works", cpu="3")
            await asyncio.sleep(IDLE_FROM)
            assert world.bound()
            world.delete_pod("works")


@simulated
async def test_who_was_paused_went_on_watching_and_ends_what_is_idle_at_once() -> None:
    world = World()
    async with runtime(world):
        await idle(world)
        await asyncio.sleep(10)
        pause(world, "true")
        await asyncio.sleep(60)
        assert world.desired()
        pause(world, None)
        assert await ended_after(world, within=60) <= 10


@simulated
async def test_the_start_of_a_runtime_is_no_gap() -> None:
    world = World()
    async with runtime(world):
        await idle(world)
    await asyncio.sleep(60)
    async with runtime(world, "b"):
        assert await ended_after(world, within=100) <= 55  # it counts from what was written down, or what it saw itself


@simulated
async def test_a_lease_that_could_not_be_kept_is_a_gap_although_no_watch_broke() -> None:
    world = World()
    async with runtime(world):
        await idle(world)
        await asyncio.sleep(10)
        world.cluster.faults.add(faults.Refuse(), faults.Matching(path="/leases", username="a"), times=None)
        await asyncio.sleep(40)
        assert world.desired()
        world.cluster.faults.clear()
        assert await ended_after(world, within=300) >= 60


@simulated
async def test_a_runtime_that_was_cut_off_waits_although_it_came_back_between_two_cycles() -> None:
    world = World()
    async with runtime(world):
        await idle(world)
        await asyncio.sleep(5)
        world.cluster.faults.partition("a")
        await asyncio.sleep(12)
        world.cluster.faults.clear()
        assert await ended_after(world, within=300) > 60
