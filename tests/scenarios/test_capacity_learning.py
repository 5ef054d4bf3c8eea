"""What is learned in virtual time from nodes that are not what they should be, and what is not."""

import asyncio

import msgspec
import pytest

from autoscaler.api import keys, resources
from autoscaler.kube import kinds, port
from autoscaler.simulation import virtual_time
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
async def test_what_is_learned_of_a_type_holds_for_all_its_groups_and_for_the_next_leader() -> None:
    world = World()
    world.allocatable = {"cpu": "2"}
    world.add_pool(types=("m5.xlarge", "m5.2xlarge"), limits__maxIdleSeconds=60)
    world.add_pool("more", types=("m5.xlarge", "m5.2xlarge"), limits__maxIdleSeconds=60)
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("large", cpu="3")
        await asyncio.sleep(400)
        assert len(world.cloud.instances) == 2  # one of each type, in two pools of three zones
        assert world.desired() == {}
        groups = [each for pool in world.all(POOLS) for each in pool["status"]["nodeGroups"]]
        assert [each["learned"]["cpu"] for each in groups if "learned" in each] == ["2000m"] * 2
        assert [each["allocatable"]["cpu"] for each in groups] == ["2000m"] * 12
    async with runtime(world, "b"):
        await asyncio.sleep(300)
        assert len(world.cloud.instances) == 2
        assert "cpu: wants 3, has 2 " in world.events("NotTriggerScaleUp")[-1]["message"]
        await asyncio.sleep(600)
        assert len(world.cloud.instances) == 4  # of each type, one more is tried


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


# Memory that an instance type has and its nodes have not


def memory_pod(world: World, name: str, mebibytes: int) -> None:
    requests = {"cpu": "1", "memory": f"{mebibytes}Mi"}
    world.add_pod(name, containers=[{"name": "main", "image": "app:1", "resources": {"requests": requests}}])


@pytest.mark.accept("G21")
@simulated
async def test_a_pod_that_does_not_quite_fit_what_hypervisor_and_kubelet_leave_starts_nothing() -> None:
    world = World()
    world.allocatable = {"memory": "14800Mi"}
    world.add_pool(types=("m5.xlarge", "m5a.xlarge", "m6i.xlarge", "m6a.xlarge", "m7i.xlarge", "m7a.xlarge"))
    async with runtime(world):
        await asyncio.sleep(5)
        memory_pod(world, "large", 15_300)
        await asyncio.sleep(1800)
        assert len(world.cloud.groups) == 18
        assert len(world.cloud.instances) == 0
        assert "memory: wants 14.9 GiB, has 13.8 GiB" in world.events("NotTriggerScaleUp")[0]["message"]


@simulated
async def test_nodes_that_offer_more_than_was_expected_teach_that_too() -> None:
    world = World()
    world.allocatable = {"memory": "14800Mi"}
    world.add_pool(zones=("a", "b"))
    async with runtime(world):
        await asyncio.sleep(5)
        memory_pod(world, "fits", 14_000)
        await asyncio.sleep(120)
        memory_pod(world, "larger", 14_700)
        await asyncio.sleep(120)
        assert set(world.bound()) == {"fits", "larger"}
        assert len(world.cloud.instances) == 2


# A device that is lost, and a type that has less than the catalogue says

WHOLE = "p3.16xlarge"


def gpu_pod(world: World, name: str, gpus: int) -> None:
    requests = {"cpu": "1", "memory": "1Gi", keys.GPU_RESOURCE: str(gpus)}
    container = {"name": "main", "image": "app:1", "resources": {"requests": requests, "limits": requests}}
    world.add_pod(name, containers=[container])


async def lose_a_gpu(world: World, *, of_capacity: bool) -> None:
    """Have a node lose one of its eight GPUs, fall idle and go."""
    await asyncio.sleep(5)
    gpu_pod(world, "first", 8)
    await asyncio.sleep(120)
    (node,) = world.nodes()
    room = {"allocatable": {keys.GPU_RESOURCE: "7"}, **({"capacity": {keys.GPU_RESOURCE: "7"}} if of_capacity else {})}
    world.patch(kinds.NODES, node["metadata"]["name"], {"status": room}, "status")
    await asyncio.sleep(30)
    world.delete_pod("first")
    await asyncio.sleep(180)
    assert not world.nodes()


@pytest.mark.parametrize("of_capacity", [False, True], ids=["the-kubelet-says-so", "nobody-says-so"])
@pytest.mark.parametrize("is_another", [False, True], ids=["same-leader", "another-leader"])
def test_a_type_whose_only_node_lost_a_gpu_serves_pods_that_need_all_of_them(
    *, of_capacity: bool, is_another: bool
) -> None:
    async def scenario() -> None:
        world = World()
        world.add_pool("gpu", types=(WHOLE,), zones=("a", "b"), limits__maxIdleSeconds=60)
        async with runtime(world):
            await lose_a_gpu(world, of_capacity=of_capacity)
            if not is_another:
                gpu_pod(world, "second", 8)
                await asyncio.sleep(900)
        if is_another:
            async with runtime(world, "b"):
                gpu_pod(world, "second", 8)
                await asyncio.sleep(900)
        assert set(world.bound()) == {"second"}
        assert len(world.cloud.instances) == 2

    virtual_time.run(scenario())


@pytest.mark.accept("G21")
@simulated
async def test_a_type_that_has_less_than_it_should_is_tried_ever_more_seldom_by_one_node_at_a_time() -> None:
    world = World()
    world.add_pool("gpu", types=(WHOLE,), limits__maxIdleSeconds=60)
    world.allocatable = {keys.GPU_RESOURCE: "7"}
    async with runtime(world):
        await asyncio.sleep(5)
        for number in range(10):
            gpu_pod(world, f"p-{number}", 8)
        await asyncio.sleep(500)
        first = len(world.cloud.instances)
        await asyncio.sleep(6 * 3600)
        half = len(world.cloud.instances)
    async with runtime(world, "b"):
        await asyncio.sleep(6 * 3600)
    assert first == 10  # nobody could know
    assert 3 <= half - first <= 6
    assert len(world.cloud.instances) - half <= 1
    assert not world.bound()
