"""Limits in virtual time: of pools, of the cluster, and of a month; each is kept, and named where it holds back."""

import asyncio
from collections import Counter

import pytest

from autoscaler.api import keys, resources
from autoscaler.api.settings.scaling import Scaling
from autoscaler.kube import kinds
from autoscaler.simulation.cluster.store import Change
from tests import builders
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.capacity_world import World, runtime

POOLS = kinds.custom(resources.InstancePool)


@pytest.mark.accept("P5", "P6")
@simulated
async def test_limits_hold_and_each_is_named() -> None:
    world = World()
    world.add_pool(limits__maxActiveInstances=2)
    world.add_pool("off", enabled=False)
    async with runtime(world, scaling=Scaling(nodes=50)):
        await asyncio.sleep(5)
        for number in range(30):
            world.add_pod(f"p-{number}")
        await asyncio.sleep(120)
        assert len(world.nodes()) == 2
        assert len(world.bound()) == 6
        message = world.events("NotTriggerScaleUp")[0]["message"]
        assert "the pool has 2 of at most 2 instances" in message
        assert "the pool is disabled" in message


@pytest.mark.parametrize("limit", ["pool", "cluster"])
@pytest.mark.parametrize("is_listed", [True, False], ids=["by priority", "alike"])
def test_limited_instances_are_large_ones_before_the_next_pool_serves(limit: str, is_listed: bool) -> None:  # noqa: FBT001
    @simulated
    async def story() -> None:
        world = World()
        world.add_pool(
            types=("m5.xlarge", "c5.2xlarge"), zones=("a",), limits__maxActiveInstances=10 if limit == "pool" else 99
        )
        world.add_pool("gpu", types=("p3.8xlarge",), zones=("a",))
        if is_listed:
            pools = [{"name": "workers", "priority": 2}, {"name": "gpu", "priority": 1}]
            world.cluster.create(kinds.custom(resources.Scope), builders.resource("Scope", pools=pools))
            world.patch(kinds.NAMESPACES, "default", {"metadata": {"labels": {keys.SCOPE: "research"}}})
        async with runtime(world, scaling=Scaling(nodes=10 if limit == "cluster" else 99)):
            await asyncio.sleep(5)
            for number in range(68):
                world.add_pod(f"p-{number}")
            await asyncio.sleep(120)
        types = Counter(node["metadata"]["labels"][keys.INSTANCE_TYPE] for node in world.nodes())
        assert (types, len(world.bound())) == ({"c5.2xlarge": 10}, 68)

    story()


@pytest.mark.accept("G24")
@simulated
async def test_the_clusters_ceilings_hold() -> None:
    world = World()
    world.add_pool()
    async with runtime(world, scaling=Scaling(cores=12)):
        await asyncio.sleep(5)
        for number in range(30):
            world.add_pod(f"p-{number}")
        await asyncio.sleep(120)
        assert len(world.nodes()) == 3
        assert "the cluster has 12 of at most 12 cores" in world.events("NotTriggerScaleUp")[0]["message"]


@pytest.mark.accept("P7")
@simulated
async def test_a_budget_that_is_reached_starts_nothing_more_and_ends_no_work() -> None:
    world = World()
    world.add_pool(limits__maxIdleSeconds=300, limits__targetMaxSecondsPerMonth=7200)
    async with runtime(world):
        for number in range(20):
            world.add_pod(f"p-{number}", cpu="3")
        await asyncio.sleep(3600)
        bound = world.bound()
        assert 1 <= len(bound) < 20
        assert "the pool may use 2 h of instances a month" in world.events("NotTriggerScaleUp")[0]["message"]
        await asyncio.sleep(4 * 3600)
        assert world.bound() == bound  # far over the limit by now, and nobody was killed


@pytest.mark.accept("P8")
@simulated
async def test_idle_instances_beyond_a_lowered_limit_go_at_once() -> None:
    world = World()
    world.add_pool(limits__maxIdleSeconds=36_000)
    async with runtime(world):
        for number in range(5):
            world.add_pod(f"p-{number}", cpu="3")
        await asyncio.sleep(120)
        for number in range(4):
            world.delete_pod(f"p-{number}")
        await asyncio.sleep(60)
        assert len(world.nodes()) == 5
        world.patch(POOLS, "workers", {"spec": {"limits": {"maxActiveInstances": 3}}})
        await asyncio.sleep(2)
        (pool,) = world.all(POOLS)
        (ready,) = [each for each in pool["status"]["conditions"] if each["type"] == "Ready"]
        assert ready["message"].startswith("5 instances are active and maxActiveInstances is 3")
        await asyncio.sleep(118)
        assert len(world.nodes()) == 3
        assert "p-4" in world.bound()


@simulated
async def test_a_budget_is_warned_about_before_it_is_spent_and_pools_and_scopes_tell_what_they_used() -> None:
    world = World()
    world.add_pool(limits__maxIdleSeconds=300, limits__targetMaxSecondsPerMonth=10_000)
    world.cluster.create(kinds.custom(resources.Scope), builders.resource("Scope", pools=[{"name": "workers"}]))
    world.patch(kinds.NAMESPACES, "default", {"metadata": {"labels": {keys.SCOPE: "research"}}})
    async with runtime(world) as running:
        world.add_pod("one", cpu="3")
        await asyncio.sleep(7500)
        (pool,) = world.all(POOLS)
        assert 7000 < pool["status"]["secondsThisMonth"] <= 7500
        assert {each["type"]: each["status"] for each in pool["status"]["conditions"]}["WithinBudget"] == "True"
        await asyncio.sleep(900)
        (pool,) = world.all(POOLS)
        assert {each["type"]: each["reason"] for each in pool["status"]["conditions"]}["WithinBudget"] != "WithinBudget"
        assert world.events("BudgetNearlyUsed") or world.events("BudgetCommitted")
        assert (
            b'sluice_budget_used_ratio{kind="PoolSecondsPerMonth",pool="workers",scope=""} 0.8'
            in running.metrics.render()
        )
        world.delete_pod("one")
        await asyncio.sleep(60)
        (scope,) = world.all(kinds.custom(resources.Scope))
        (used,) = scope["status"]["pools"]
        assert used["samples"] == 1
        assert 8000 < used["meanDurationSeconds"] < 8500
        assert used["secondsThisMonth"] > 6000  # three of four processors


@simulated
async def test_pools_and_scopes_say_every_five_minutes_what_was_used() -> None:
    world = World()
    world.add_pool()
    world.cluster.create(kinds.custom(resources.Scope), builders.resource("Scope", pools=[{"name": "workers"}]))
    world.patch(kinds.NAMESPACES, "default", {"metadata": {"labels": {keys.SCOPE: "research"}}})
    said: dict[str, list[int]] = {"workers": [], "research": []}

    def listen(change: Change) -> None:
        status = change.shown.object.get("status", {})
        used = [status.get("secondsThisMonth", 0), *(each["secondsThisMonth"] for each in status.get("pools", ()))]
        said[change.key.name].append(max(used))

    for kind in (POOLS, kinds.custom(resources.Scope)):
        world.cluster.server.store.collection(kind).listeners.append(listen)
    async with runtime(world):
        for number in range(3):
            world.add_pod(f"p-{number}", cpu="3")
        await asyncio.sleep(3600)
    for used in said.values():
        assert 10 <= len(set(used)) <= 14
        assert used[-1] > 3 * (3600 - 300 - 120) * 0.7  # a pod has three of four processors, and takes a while to begin
