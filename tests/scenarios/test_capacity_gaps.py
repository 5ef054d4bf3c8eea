"""Gaps, in virtual time: after a watch, the API server or the Lease was away, nothing is ended for a while."""

import asyncio

import pytest
from prometheus_client import parser

from autoscaler.api import keys
from autoscaler.kube import kinds
from autoscaler.runtime import process
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


async def cut_every(world: World, seconds: float) -> None:
    """Break all watches again and again; they come back at once."""
    while True:
        await asyncio.sleep(seconds)
        world.cluster.faults.cut_watches("a")


def held_seconds(replica: process.Process) -> list[float]:
    families = parser.text_string_to_metric_families(replica.metrics.render().decode())
    (held,) = (family for family in families if family.name == "sluice_removals_held_seconds")
    return [sample.value for sample in held.samples]


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
async def test_a_watch_that_breaks_and_goes_on_at_once_where_it_was_is_no_gap() -> None:
    world = World()
    async with runtime(world):
        await idle(world)
        await asyncio.sleep(25)
        world.cluster.faults.cut_watches("a")
        assert await ended_after(world, within=300) <= 15


@simulated
async def test_watches_that_are_cut_every_twenty_seconds_hold_up_no_removal() -> None:
    world = World()
    async with runtime(world) as replica:
        cutting = asyncio.create_task(cut_every(world, 20))
        await idle(world)
        assert 30 <= await ended_after(world, within=300) <= 45
        assert held_seconds(replica) == [0]
        cutting.cancel()


@simulated
async def test_watches_that_are_cut_again_and_again_hold_up_removals_and_a_metric_says_for_how_long() -> None:
    world = World()
    async with runtime(world) as replica:
        await idle(world)
        cutting = asyncio.create_task(cut_every(world, 4))
        await asyncio.sleep(600)
        assert world.desired()
        assert 580 <= held_seconds(replica)[0] <= 600
        cutting.cancel()
        assert 55 <= await ended_after(world, within=300) <= 75
        await asyncio.sleep(1)
        assert held_seconds(replica) == [0]


@simulated
async def test_history_that_was_lost_while_a_watch_was_away_is_a_gap_however_short() -> None:
    world = World()
    async with runtime(world):
        await idle(world)
        await asyncio.sleep(25)
        world.cluster.faults.cut_watches("a")
        world.add_pod("news", cpu="100")
        world.cluster.compact()
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
