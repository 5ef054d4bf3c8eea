"""Pods that must share a node with others, in virtual time."""

import asyncio
from typing import Any

import pytest

from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.capacity_world import Body, World, runtime

HOST = "kubernetes.io/hostname"


def near(app: str, key: str = HOST) -> dict[str, Any]:
    term: Body = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def told(world: World, pod: str) -> list[str]:
    """Return why a pod was told that no instance is started for it."""
    return [each["message"] for each in world.events("NotTriggerScaleUp") if each["involvedObject"]["name"] == pod]


@pytest.mark.accept("G30")
@simulated
async def test_pods_that_stay_together_get_one_instance_that_holds_all_of_them() -> None:
    world = World()
    world.add_pool(types=("m5.large", "m5.xlarge", "m5.2xlarge"))
    async with runtime(world):
        await asyncio.sleep(5)
        for number in range(5):
            world.add_pod(f"web-{number}", labels={"app": "web"}, affinity=near("web"))
        await asyncio.sleep(300)
        assert len(world.bound()) == 5
        assert len(set(world.bound().values())) == len(world.cloud.instances) == 1
        assert told(world, "web-0") == []
        world.add_pod("late", cpu="4", labels={"app": "web"}, affinity=near("web"))
        await asyncio.sleep(300)
        assert len(world.cloud.instances) == 1
        assert "the pod must share a node with one that it names" in told(world, "late")[0]


@pytest.mark.accept("G30")
@simulated
async def test_pods_that_no_node_holds_all_of_start_nothing_and_are_told_so() -> None:
    world = World()
    world.add_pool()
    async with runtime(world):
        await asyncio.sleep(5)
        for number in range(5):
            world.add_pod(f"web-{number}", labels={"app": "web"}, affinity=near("web"))
        await asyncio.sleep(600)
        assert len(world.cloud.instances) == 0
        assert "all 5 pods must share one node, and none takes them all" in told(world, "web-0")[0]
        assert "cpu: wants 5, has 3.92" in told(world, "web-0")[0]


@pytest.mark.accept("G30")
@simulated
async def test_a_pod_joins_the_one_it_names_where_there_is_room_and_is_told_where_there_is_none() -> None:
    world = World()
    world.add_pool(limits__maxIdleSeconds=36_000)
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("cache", labels={"app": "cache"})
        world.add_pod("other", cpu="3")  # on another node, which has room for half a core
        await asyncio.sleep(120)
        for number in range(6):
            world.add_pod(f"web-{number}", cpu="500m", affinity=near("cache"))
        await asyncio.sleep(20)  # before anything is learned from nodes that do not take it
        joined = {pod for pod, node in world.bound().items() if node == world.bound()["cache"]} - {"cache"}
        assert (len(world.cloud.instances), len(world.bound()), len(joined)) == (2, 7, 5)
        (left,) = {f"web-{number}" for number in range(6)} - joined
        assert "the pod must share a node with one that it names" in told(world, left)[0]
