"""Nodes and pods that somebody wants left alone, and pods that are no reason to keep a node, in virtual time."""

import asyncio

import pytest

from autoscaler.api import keys, resources
from autoscaler.cloud import port as cloud
from autoscaler.kube import kinds, objects, port
from autoscaler.runtime.commands import explain
from autoscaler.simulation import virtual_time
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.capacity_services import Service
from tests.scenarios.capacity_world import Body, World, runtime

POOLS = kinds.custom(resources.InstancePool)
NEW = cloud.Template(image_id="ami-2", user_data_sha256="1" * 64)
ON_NODES = (keys.SCALE_DOWN_DISABLED, keys.KARPENTER_DO_NOT_DISRUPT, keys.DO_NOT_DISRUPT)
ON_PODS = (keys.KARPENTER_DO_NOT_DISRUPT, keys.DO_NOT_DISRUPT)


def annotate(world: World, node: str, key: str, value: str | None = "true") -> None:
    world.patch(kinds.NODES, node, {"metadata": {"annotations": {key: value}}})


def ended(world: World) -> set[str]:
    return {f"ip-{one.id}" for one in world.cloud.instances.values() if not one.counts}


async def explained(world: World, pod: str) -> str:
    return "\n".join(
        await explain.lines(world.cluster.client(), "pod", objects.Key("default", pod), now=virtual_time.clock().now())
    )


def condition(world: World, kind: str) -> Body:
    (pool,) = world.all(POOLS)
    return next((each for each in pool["status"]["conditions"] if each["type"] == kind), {})


@pytest.mark.accept("G31", part="annotations, simulated")
@pytest.mark.parametrize("key", ON_NODES)
def test_an_idle_node_that_is_annotated_stays_until_it_is_not(key: str) -> None:
    async def scenario() -> None:
        world = World()
        world.add_pool(zones=("a",), limits__maxIdleSeconds=60)
        async with runtime(world):
            await asyncio.sleep(5)
            for name in ("one", "two"):
                world.add_pod(name, cpu="3")
            await asyncio.sleep(60)
            kept = world.bound()["one"]
            annotate(world, kept, key)
            assert "one" in world.bound()
            assert key in await explained(world, "one")
            for name in ("one", "two"):
                world.delete_pod(name)
            await asyncio.sleep(3600)
            assert len(ended(world)) == 1
            assert [node["metadata"]["name"] for node in world.nodes()] == [kept]
            assert not world.nodes()[0]["spec"].get("taints")
            annotate(world, kept, key, "false")
            await asyncio.sleep(120)
            assert world.nodes() == []

    virtual_time.run(scenario())


@pytest.mark.accept("G31", part="annotations, simulated")
@simulated
async def test_an_annotation_that_comes_while_a_node_is_marked_saves_it() -> None:
    world = World()
    world.add_pool(zones=("a",), limits__maxIdleSeconds=60)
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("one", cpu="3")
        await asyncio.sleep(60)
        world.delete_pod("one")
        await asyncio.sleep(63)
        (node,) = world.nodes()
        assert node["spec"]["taints"]
        annotate(world, node["metadata"]["name"], keys.DO_NOT_DISRUPT)
        await asyncio.sleep(600)
        assert not ended(world)
        assert not world.nodes()[0]["spec"].get("taints")


@pytest.mark.accept("G31", part="annotations, simulated")
@simulated
async def test_an_outdated_node_that_is_annotated_stays_and_does_not_hold_up_the_others() -> None:
    world = World()
    world.add_pool(zones=("a",), limits__maxIdleSeconds=36_000)
    service = Service(world, "web")
    async with runtime(world):
        await asyncio.sleep(5)
        service.start(2)
        world.add_pod("one", cpu="3")
        await asyncio.sleep(60)
        world.delete_pod("one")
        first = {node["metadata"]["name"] for node in world.nodes()}
        busy = min(service.running().values())
        (idle,) = first - set(service.running().values())
        for node in (busy, idle):
            annotate(world, node, keys.DO_NOT_DISRUPT)
        for name in world.cloud.groups:
            world.cloud.retemplate(name, NEW)
        await asyncio.sleep(1800)
        assert ended(world) == first - {busy, idle}
        assert f"2 are kept by an annotation ({min(busy, idle)}" in condition(world, "UpToDate")["message"]
        for node in (busy, idle):
            annotate(world, node, keys.DO_NOT_DISRUPT, None)
        await asyncio.sleep(1800)
        assert first <= ended(world)
        assert len(service.running()) == 2


@pytest.mark.accept("G31", part="annotations, simulated")
@pytest.mark.parametrize("key", ON_PODS)
def test_a_pod_that_is_annotated_is_evicted_for_an_interruption_and_nothing_else(key: str) -> None:
    async def scenario() -> None:
        world = World()
        world.add_pool(zones=("a",), limits__maxIdleSeconds=60)
        service = Service(world, "web", annotations={key: "true"})
        async with runtime(world):
            await asyncio.sleep(5)
            service.start()
            await asyncio.sleep(60)
            before = service.running()
            (pod,) = before
            assert key in await explained(world, pod)
            for name in world.cloud.groups:
                world.cloud.retemplate(name, NEW)
            await asyncio.sleep(1800)
            assert service.running() == before
            world.cloud.interrupt(next(iter(world.cloud.instances)))
            await asyncio.sleep(100)
            assert not before.keys() & service.running().keys()

    virtual_time.run(scenario())


@pytest.mark.accept("G31", part="annotations, simulated")
@simulated
async def test_a_pool_that_is_removed_waits_for_annotated_nodes_and_names_them() -> None:
    world = World()
    world.add_pool(zones=("a",), limits__maxIdleSeconds=36_000)
    service = Service(world, "web")
    async with runtime(world):
        await asyncio.sleep(5)
        service.start()
        await asyncio.sleep(60)
        before = service.running()
        (node,) = before.values()
        annotate(world, node, keys.DO_NOT_DISRUPT)
        port.required(world.cluster.server.handle(port.Request(method="DELETE", path=POOLS.path("workers")), "admin"))
        await asyncio.sleep(600)
        assert service.running() == before
        assert f"node {node} is kept by {keys.DO_NOT_DISRUPT}" in condition(world, "Draining")["message"]
        annotate(world, node, keys.DO_NOT_DISRUPT, None)
        await asyncio.sleep(120)
        assert world.all(POOLS) == []


@pytest.mark.parametrize(("priority", "want"), [(-11, 1), (-10, 0)])
def test_pods_for_which_no_instance_is_started_keep_none_either(priority: int, want: int) -> None:
    async def scenario() -> None:
        world = World()
        world.add_pool(zones=("a",), limits__maxIdleSeconds=60)
        world.cluster.create(kinds.PRIORITY_CLASSES, {"metadata": {"name": "low"}, "value": priority})
        async with runtime(world):
            await asyncio.sleep(5)
            world.add_pod("one", cpu="3")
            await asyncio.sleep(60)
            for number in range(3):
                world.add_pod(f"left-over-{number}", cpu="100m", priorityClassName="low")
            await asyncio.sleep(10)
            assert len(world.bound()) == 4
            world.delete_pod("one")
            for number in range(3):  # none of their ends begins the time anew
                await asyncio.sleep(30)
                world.delete_pod(f"left-over-{number}")
                world.add_pod(f"next-{number}", cpu="100m", priorityClassName="low")
            assert len(ended(world)) == want

    virtual_time.run(scenario())
