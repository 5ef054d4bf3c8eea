"""What is learned in virtual time from nodes that are not what they should be, and what is not."""

import asyncio

import msgspec
import pytest

from autoscaler.api import resources
from autoscaler.kube import kinds, port
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.capacity_world import NAMESPACE, World, runtime

POOLS = kinds.custom(resources.InstancePool)


@pytest.mark.accept("G21")
@simulated
async def test_instances_that_offer_less_than_they_should_are_learned_from_and_never_run_away() -> None:
    world = World()
    world.allocatable = {"cpu": "2"}
    world.add_pool(zones=("a",))
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("large", cpu="3")
        await asyncio.sleep(3600)
        assert len(world.cloud.instances) == 1
        assert "cpu: wants 3, has 2 " in world.events("NotTriggerScaleUp")[0]["message"]


@pytest.mark.accept("G21")
@simulated
async def test_what_is_learned_in_several_groups_is_kept_in_status_for_each_and_for_the_next_leader() -> None:
    world = World()
    world.allocatable = {"cpu": "2"}
    world.add_pool(types=("m5.xlarge", "m5.2xlarge"), limits__maxIdleSeconds=60)
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("large", cpu="3")
        await asyncio.sleep(3600)
        tried = len(world.cloud.instances)
        assert tried <= len(world.cloud.groups)  # none a second time
        assert world.desired() == {}
        (pool,) = world.all(POOLS)
        learned = [each["learned"]["cpu"] for each in pool["status"]["nodeGroups"] if "learned" in each]
        assert learned == ["2000m"] * tried
    async with runtime(world, "b"):
        await asyncio.sleep(3600)
        assert len(world.cloud.instances) == tried
        assert "cpu: wants 3, has 2 " in world.events("NotTriggerScaleUp")[-1]["message"]


@pytest.mark.accept("G21")
@simulated
async def test_instances_that_refuse_a_pod_for_reasons_nobody_knows_are_given_up_after_one() -> None:
    world = World(schedules=False)
    world.add_pool(zones=("a",), limits__maxIdleSeconds=36_000)
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("unwanted")
        await asyncio.sleep(3600)
        assert len(world.cloud.instances) == 1
        assert "did not take such a pod" in world.events("NotTriggerScaleUp")[0]["message"]


@simulated
async def test_a_scheduler_that_is_only_slow_brings_no_instance_too_many() -> None:
    world = World(schedules=False)
    world.add_pool(zones=("a",), limits__maxIdleSeconds=36_000)
    async with runtime(world):
        await asyncio.sleep(5)
        for number in range(24):
            world.add_pod(f"p-{number:02d}")
        await asyncio.sleep(50)
        nodes = [node["metadata"]["name"] for node in world.nodes()]
        assert len(nodes) == 8  # three pods fit on each
        world.add_pool("other", zones=("b",))
        for number in range(24):
            bind(world, f"p-{number:02d}", nodes[number % 8])
            await asyncio.sleep(10)
        assert len(world.cloud.instances) == 8


def bind(world: World, pod: str, node: str) -> None:
    """Do what a scheduler does."""
    body = {"metadata": {"name": pod}, "target": {"kind": "Node", "name": node}}
    path = kinds.PODS.path(pod, NAMESPACE, "binding")
    request = port.Request(method="POST", path=path, body=msgspec.json.encode(body))
    port.required(world.cluster.server.handle(request, "scheduler"))
