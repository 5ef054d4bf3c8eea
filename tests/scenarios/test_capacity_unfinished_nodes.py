"""Nodes that are not finished, in virtual time: they are waited for, and nothing is ended or started for them."""

import asyncio
from typing import Any

import pytest

from autoscaler.api import keys, resources
from autoscaler.kube import kinds
from autoscaler.simulation import virtual_time
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.capacity_world import World, runtime

POOLS = kinds.custom(resources.InstancePool)
GPU = "p3.8xlarge"
STARTING = {"key": "efs.csi.aws.com/agent-not-ready", "effect": "NoSchedule"}


def ended(world: World) -> int:
    """Count the instances that were ended."""
    return sum(not one.counts for one in world.cloud.instances.values())


def gpu_world(*zones: str, timeout_seconds: int = 900) -> World:
    """Make a pool whose nodes announce no GPUs, and are ended after a minute without work."""
    world = World()
    world.allocatable = {keys.GPU_RESOURCE: "0"}
    world.add_pool(
        "gpu", types=(GPU,), zones=zones, registrationTimeoutSeconds=timeout_seconds, limits__maxIdleSeconds=60
    )
    return world


def ask_for_gpu(world: World) -> None:
    requests = {"cpu": "1", "memory": "1Gi", keys.GPU_RESOURCE: "1"}
    container = {"name": "main", "image": "app:1", "resources": {"requests": requests, "limits": requests}}
    world.add_pod("train", containers=[container])


def announce(world: World, node: str) -> None:
    """Do what a device plugin does."""
    world.patch(kinds.NODES, node, {"status": {"allocatable": {keys.GPU_RESOURCE: "4"}}}, "status")


@pytest.mark.accept("G20")
@pytest.mark.parametrize("zones", ["a", "abc"])
def test_a_node_whose_gpus_take_longer_than_an_idle_one_may_live_is_waited_for(zones: str) -> None:
    async def scenario() -> None:
        world = gpu_world(*zones)
        async with runtime(world):
            await asyncio.sleep(5)
            ask_for_gpu(world)
            await asyncio.sleep(600)
            assert (len(world.cloud.instances), ended(world)) == (1, 0)
            (node,) = world.nodes()
            announce(world, node["metadata"]["name"])
            await asyncio.sleep(60)
            assert world.bound() == {"train": node["metadata"]["name"]}
            assert len(world.cloud.instances) == 1

    virtual_time.run(scenario())


@pytest.mark.accept("G20")
@simulated
async def test_a_node_whose_gpus_do_not_come_in_time_is_ended_and_the_next_zone_is_tried() -> None:
    world = gpu_world("a", "b", timeout_seconds=300)
    async with runtime(world):
        await asyncio.sleep(5)
        ask_for_gpu(world)
        await asyncio.sleep(320)
        assert (len(world.cloud.instances), ended(world)) == (1, 0)
        await asyncio.sleep(100)
        assert (len(world.cloud.instances), ended(world)) == (2, 1)
        assert len({one.key.zone for one in world.cloud.instances.values()}) == 2
        (pool,) = world.all(POOLS)
        assert "it does not offer nvidia.com/gpu" in str(pool["status"]["nodeGroups"])
        await asyncio.sleep(3600)
        assert len(world.cloud.instances) <= 8, (
            "each zone is asked again after 3, 6, 12 ... minutes besides the timeout"
        )


@simulated
async def test_a_node_without_its_gpus_is_not_ended_while_something_works_on_it() -> None:
    world = gpu_world("a", timeout_seconds=300)
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("plain", cpu="1")
        await asyncio.sleep(1200)
        assert (len(world.cloud.instances), ended(world)) == (1, 0)
        world.delete_pod("plain")
        await asyncio.sleep(30)
        assert ended(world) == 1


LISTED: dict[str, Any] = {"startupTaints": [STARTING]}


@pytest.mark.accept("G29", part="simulated")
@pytest.mark.parametrize("spec", [{}, LISTED], ids=["unlisted", "listed"])
def test_a_start_up_taint_on_young_nodes_starts_no_second_instance(spec: dict[str, Any]) -> None:
    async def scenario() -> None:
        world = World()
        world.add_pool(zones=("a",), registrationTimeoutSeconds=900, limits__maxIdleSeconds=120, **spec)
        world.extra_taints = (STARTING,)
        async with runtime(world):
            await asyncio.sleep(5)
            for number in range(10):
                world.add_pod(f"p-{number}", cpu="3")
            await asyncio.sleep(300)
            assert (len(world.cloud.instances), ended(world)) == (10, 0)
            for node in world.nodes():
                world.patch(kinds.NODES, node["metadata"]["name"], {"spec": {"taints": None}})
            await asyncio.sleep(30)
            assert len(world.bound()) == 10
            assert len(world.cloud.instances) == 10

    virtual_time.run(scenario())


@pytest.mark.accept("G29", part="simulated")
@simulated
async def test_a_listed_taint_that_group_tags_declare_keeps_no_pod_from_starting_an_instance() -> None:
    world = World()
    world.add_pool(zones=("a",), taints=(STARTING,), limits__maxIdleSeconds=120, **LISTED)
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("one", cpu="3")
        await asyncio.sleep(300)
        assert (len(world.cloud.instances), ended(world)) == (1, 0)
        world.patch(kinds.NODES, world.nodes()[0]["metadata"]["name"], {"spec": {"taints": None}})
        await asyncio.sleep(30)
        assert set(world.bound()) == {"one"}


@simulated
async def test_a_listed_taint_that_stays_ends_the_node_after_its_time() -> None:
    world = World()
    world.add_pool(zones=("a",), registrationTimeoutSeconds=300, limits__maxIdleSeconds=3600, **LISTED)
    world.extra_taints = (STARTING,)
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("one", cpu="3")
        await asyncio.sleep(310)
        assert (len(world.cloud.instances), ended(world)) == (1, 0)
        await asyncio.sleep(90)
        assert ended(world) == 1
        await asyncio.sleep(3600)
        assert len(world.cloud.instances) <= 5


@pytest.mark.accept("G20")
@simulated
async def test_gpus_that_only_the_instance_type_has_are_waited_for_although_no_tag_declares_them() -> None:
    world = gpu_world("a", timeout_seconds=300)
    for group in world.cloud.groups.values():
        group.spec = group.spec.model_copy(update={"resources": {}})
    async with runtime(world):
        await asyncio.sleep(5)
        ask_for_gpu(world)
        await asyncio.sleep(250)
        assert (len(world.cloud.instances), ended(world)) == (1, 0)
        announce(world, world.nodes()[0]["metadata"]["name"])
        await asyncio.sleep(60)
        assert set(world.bound()) == {"train"}


@simulated
async def test_a_node_is_idle_from_when_it_was_finished_and_not_from_when_it_was_ready() -> None:
    world = World()
    world.add_pool(zones=("a",), registrationTimeoutSeconds=900, limits__maxIdleSeconds=120)
    world.extra_taints = (STARTING,)
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("one", cpu="3")
        await asyncio.sleep(60)
        world.delete_pod("one")
        await asyncio.sleep(300)
        assert (len(world.cloud.instances), ended(world)) == (1, 0)
        (node,) = world.nodes()
        world.patch(kinds.NODES, node["metadata"]["name"], {"spec": {"taints": None}})
        await asyncio.sleep(110)
        assert ended(world) == 0
        await asyncio.sleep(30)
        assert ended(world) == 1


@simulated
async def test_a_taint_that_stays_ends_nothing_before_its_time_and_starts_fewer_and_fewer() -> None:
    world = World()
    world.add_pool(zones=("a",), registrationTimeoutSeconds=300, limits__maxIdleSeconds=3600)
    world.extra_taints = (STARTING,)
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("one", cpu="3")
        await asyncio.sleep(3600)
        assert ended(world) == 0
        assert len(world.cloud.instances) <= 5


@simulated
async def test_a_device_plugin_that_restarts_ends_nothing() -> None:
    world = World()
    world.add_pool("gpu", types=(GPU,), zones=("a",), registrationTimeoutSeconds=60, limits__maxIdleSeconds=3600)
    async with runtime(world):
        await asyncio.sleep(5)
        ask_for_gpu(world)
        await asyncio.sleep(120)
        (node,) = world.nodes()
        assert world.bound()
        world.delete_pod("train")
        await asyncio.sleep(60)
        room = {"status": {"allocatable": {keys.GPU_RESOURCE: "0"}}}
        world.patch(kinds.NODES, node["metadata"]["name"], room, "status")
        await asyncio.sleep(120)
        assert ended(world) == 0


@pytest.mark.accept("R3", part="nothing is ended")
@simulated
async def test_after_the_api_server_was_away_no_instance_is_ended_that_pods_still_wait_for() -> None:
    world = World(schedules=False)
    world.add_pool(zones=("a",), limits__maxIdleSeconds=20)
    async with runtime(world):
        await asyncio.sleep(5)
        for number in range(9):
            world.add_pod(f"p-{number}", cpu="3")
        await asyncio.sleep(36)
        assert len(world.nodes()) == 9
        world.cluster.faults.partition("a")  # the scheduler is cut off too: nobody binds anything
        await asyncio.sleep(30)
        world.cluster.faults.clear()
        for second in range(45):
            world.patch(kinds.PODS, "p-0", {"metadata": {"labels": {"second": str(second)}}})  # it is busy again
            await asyncio.sleep(1)
        assert (len(world.cloud.instances), ended(world)) == (9, 0)
        for number, node in enumerate(world.nodes()):
            world.bind(f"p-{number}", node["metadata"]["name"])
        await asyncio.sleep(90)
        assert (len(world.cloud.instances), ended(world)) == (9, 0)
