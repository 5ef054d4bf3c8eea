"""Capacity looks at what changed alone; what was not written down is not forgotten for that."""

import asyncio
from typing import Any

from autoscaler.api import keys
from autoscaler.kube import kinds
from autoscaler.simulation.cluster import faults
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.capacity_world import NAMESPACE, World, runtime

SOON_SECONDS = 30  # what was refused again and again is tried twice a minute
"""Much less than the minute after which everything is looked at anyway."""
WRITES = faults.Matching(method="PATCH", path="/instances/")


async def world_with_node() -> World:
    world = World()
    world.add_pool(zones=("a",), minimum=2)
    await asyncio.sleep(60)
    return world


def running(world: World) -> list[int]:
    """Return how many pods each Instance object says to run."""
    return sorted(len(one["status"].get("running", ())) for one in world.instances())


def bind(world: World, name: str) -> None:
    world.add_pod(name, nodeName=world.nodes()[0]["metadata"]["name"])


def pause(world: World, paused: str | None) -> None:
    annotations: dict[str, Any] = {keys.PAUSED: paused}
    world.patch(kinds.NAMESPACES, NAMESPACE, {"metadata": {"annotations": annotations}})


@simulated
async def test_a_status_that_could_not_be_written_is_written_soon_after() -> None:
    world = await world_with_node()
    async with runtime(world):
        await asyncio.sleep(125)
        world.cluster.faults.add(faults.Answer(code=500), WRITES, times=None)
        bind(world, "pod")
        await asyncio.sleep(20)
        assert running(world) == [0, 0]
        world.cluster.faults.clear()
        await asyncio.sleep(SOON_SECONDS)
        assert running(world) == [0, 1]


@simulated
async def test_after_a_cycle_that_was_broken_off_everything_is_looked_at_again() -> None:
    world = await world_with_node()
    async with runtime(world):
        await asyncio.sleep(125)
        world.cluster.faults.add(faults.Delay(seconds=30), WRITES, times=None)
        bind(world, "pod")
        await asyncio.sleep(2)
        pause(world, "true")
        await asyncio.sleep(5)
        world.cluster.faults.clear()
        assert running(world) == [0, 0]
        pause(world, None)
        await asyncio.sleep(SOON_SECONDS)
        assert running(world) == [0, 1]


@simulated
async def test_what_a_pod_used_is_written_down_with_its_end() -> None:
    world = await world_with_node()
    world.run_seconds = 15
    async with runtime(world):
        await asyncio.sleep(125)
        bind(world, "pod")
        await asyncio.sleep(3)
        assert running(world) == [0, 1]
        await asyncio.sleep(15)
        assert running(world) == [0, 0]
