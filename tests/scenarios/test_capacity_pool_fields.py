"""Fields of a pool do what they say, also where no stack made its node groups."""

import asyncio
from typing import Any

from autoscaler.api import resources
from autoscaler.kube import kinds
from tests import builders
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.capacity_world import World, runtime

POOLS = kinds.custom(resources.InstancePool)


def status(world: World) -> dict[str, Any]:
    (pool,) = world.all(POOLS)
    told: dict[str, Any] = pool["status"]
    return told


def ready(world: World) -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in status(world)["conditions"] if each["type"] == "Ready")
    return found


@simulated
async def test_groups_of_another_architecture_than_the_pools_are_not_used() -> None:
    world = World()
    world.add_pool(types=("m5.xlarge", "m6g.xlarge"), zones=("a",), architectures=["arm64"])
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("one")
        await asyncio.sleep(60)
        assert world.desired() == {"workers-a-m6g.xlarge": 1}
        reasons = {each["name"]: each.get("reason") for each in status(world)["nodeGroups"]}
        want = "its instances are amd64, and the pool's architectures are arm64"
        assert reasons == {"workers-a-m5.xlarge": want, "workers-a-m6g.xlarge": None}


@simulated
async def test_a_pool_says_which_generation_it_acted_on() -> None:
    world = World()
    world.add_pool()
    async with runtime(world):
        await asyncio.sleep(5)
        first = status(world)["observedGeneration"]
        world.patch(POOLS, "workers", {"spec": {"enabled": False}})
        await asyncio.sleep(5)
        (pool,) = world.all(POOLS)
        second = status(world)["observedGeneration"]
        assert second == pool["metadata"]["generation"] == first + 1


@simulated
async def test_a_pool_says_where_the_labels_of_its_tags_are_missing() -> None:
    world = World()
    world.add_pool(zones=("a",), tags=["nvme", "disk=500"], labels={"tag.sluice.dev/nvme": ""})
    async with runtime(world):
        await asyncio.sleep(5)
        labels = "tag.sluice.dev/nvme=, tag.sluice.dev/disk=500"
        want = f"nodes of workers-a-m5.xlarge lack labels of the pool's tags ({labels})"
        assert ready(world)["message"].startswith(want)


@simulated
async def test_a_pool_that_has_its_tags_says_nothing_of_them() -> None:
    world = World()
    world.add_pool(zones=("a",), tags=["disk=500"], labels={"tag.sluice.dev/disk": "500"})
    async with runtime(world):
        await asyncio.sleep(5)
        assert (ready(world)["status"], ready(world).get("message", "")) == ("True", "")


@simulated
async def test_a_pool_of_fixed_nodes_counts_them() -> None:
    world = World()
    pool = builders.resource(
        "InstancePool", name="rack", providerAccount="aws", specifications={"nodeSelector": {"rack": "one"}}
    )
    world.cluster.create(POOLS, pool)
    async with runtime(world):
        await asyncio.sleep(5)
        assert (ready(world)["status"], ready(world)["reason"]) == ("False", "StaticNodes")
        for name, rack in (("a", "one"), ("b", "one"), ("c", "two")):
            world.cluster.create(kinds.NODES, {"metadata": {"name": name, "labels": {"rack": rack}}})
        await asyncio.sleep(90)
        assert ready(world)["message"] == "2 nodes have the labels rack=one"
        assert (ready(world)["status"], status(world)["activeInstances"]) == ("True", 2)
