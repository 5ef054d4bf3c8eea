"""Worker pools in careless hands: what is changed all the time, and what goes wrong beside what goes well."""

import asyncio

import pytest

from autoscaler.kube import kinds
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.worker_world import World, runtime

pytestmark = pytest.mark.simulated


def running(world: World) -> int:
    return sum(pod["status"].get("phase") == "Running" for pod in world.pods())


@simulated
async def test_a_pool_that_is_changed_faster_than_its_queue_answers_follows_it_all_the_same() -> None:
    world = World(job_seconds=7200)
    world.line.length, world.line.seconds = 3, 1.5
    world.add(poolCapacity=10)
    async with runtime(world):
        for second in range(60):
            world.change(poolCapacity=10 + second % 2)
            await asyncio.sleep(1)
        assert running(world) >= 3
        assert world.status()["queueSize"] == world.line.length == 0


@pytest.mark.parametrize("turns", [121, 129, 137])
def test_a_shutdown_is_told_although_the_pool_was_full_and_had_room_by_turns(turns: int) -> None:
    @simulated
    async def test() -> None:
        world = World(job_seconds=7200)
        world.line.length = 5
        world.add(poolCapacity=2, queue__interval="00:00:01")
        async with runtime(world):
            await asyncio.sleep(60)
            for turn in range(turns):
                world.line.length = 0 if turn % 2 else 10 + turn
                await asyncio.sleep(1)
            world.change(status="Shutdown")
            await asyncio.sleep(120)
            (event,) = world.events()["Shutdown"]
            assert event["count"] == 1

    test()


@simulated
async def test_a_bad_template_is_held_back_although_workers_of_the_one_before_do_well() -> None:
    world = World(job_seconds=7200)
    world.line.length = 1
    world.add(poolCapacity=100, queue__interval="00:00:01")
    async with runtime(world):
        await asyncio.sleep(120)
        assert running(world) == 1
        world.exit_code = 1
        containers = [{"name": "worker", "image": "worker:2"}]
        world.patch(kinds.DEPLOYMENTS, "worker", {"spec": {"template": {"spec": {"containers": containers}}}})
        world.line.length = 99
        await asyncio.sleep(600)
        assert world.made["pool"] <= 1000  # 10,000 without a pause
        world.exit_code = 0
        await asyncio.sleep(310)
        assert running(world) > 1
