"""What waiting pods are told, counted: every one of them, again when the cause changes, and never a flood of it."""

import asyncio
from collections import Counter

from autoscaler.api import resources
from autoscaler.kube import kinds
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.capacity_world import World, runtime

POOLS = kinds.custom(resources.InstancePool)
REFUSED = "NotTriggerScaleUp"


def told(world: World, name: str = "waits") -> Counter[str]:
    """Count what a pod was told, by its words."""
    found: Counter[str] = Counter()
    for event in world.events(REFUSED):
        if event["involvedObject"]["name"] == name:
            found[event["message"]] += event["count"]
    return found


@simulated
async def test_a_waiting_pod_is_told_when_the_cause_changes_though_the_reason_has_the_same_name() -> None:
    world = World()
    world.add_pool(enabled=False)
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("waits", cpu="64")
        await asyncio.sleep(61)
        assert len(told(world)) == 1
        world.patch(POOLS, "workers", {"spec": {"enabled": True}})
        await asyncio.sleep(5)
        disabled, small = told(world)
        assert "the pool is disabled" in disabled
        assert "cpu: wants 64, has 3.92" in small


@simulated
async def test_a_pod_that_waits_on_is_told_every_ten_minutes_and_it_is_counted() -> None:
    world = World()
    world.add_pool(enabled=False)
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("waits", cpu="64")
        await asyncio.sleep(3595)
        assert list(told(world).values()) == [6]


@simulated
async def test_a_cause_that_changes_every_five_seconds_is_told_once_a_minute() -> None:
    world = World()
    world.add_pool(enabled=False)
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("waits", cpu="64")
        for turn in range(120):
            await asyncio.sleep(5)
            world.patch(POOLS, "workers", {"spec": {"enabled": turn % 2 == 0}})
        assert 5 <= told(world).total() <= 11


@simulated
async def test_every_one_of_many_pods_is_told_and_only_so_many_at_once() -> None:
    world = World()
    world.add_pool(enabled=False)
    async with runtime(world):
        await asyncio.sleep(5)
        for number in range(450):
            world.add_pod(f"p-{number}", cpu="64")
        most, before = 0, 0
        for _ in range(60):
            await asyncio.sleep(1)
            now = len(world.events(REFUSED))
            most, before = max(most, now - before), now
        assert before == 450
        assert most <= 200


@simulated
async def test_every_pod_of_a_large_launch_is_told() -> None:
    world = World()
    world.add_pool(zones=("a",), maximum=100)
    async with runtime(world):
        await asyncio.sleep(5)
        for number in range(250):
            world.add_pod(f"p-{number}", cpu="1")
        await asyncio.sleep(60)
        assert len({event["involvedObject"]["name"] for event in world.events("TriggeredScaleUp")}) == 250
