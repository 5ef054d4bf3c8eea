"""Changes that no generation shows, in virtual time: a quiet cluster takes note of them all the same."""

import asyncio

from autoscaler.api import keys
from tests import builders
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.capacity_world import NAMESPACE, runtime
from tests.scenarios.test_scopes_in_use import POOLS, SCOPES, Team


@simulated
async def test_a_pool_that_is_replaced_by_another_of_its_name_is_planned_on_at_once() -> None:
    world = Team(has_drain_object=False)
    world.add_pool(zones=("a",), enabled=False)
    async with runtime(world):
        await asyncio.sleep(20)
        world.add_pod("works")
        await asyncio.sleep(100)
        assert not world.bound()
        world.patch(POOLS, "workers", {"metadata": {"finalizers": None}})
        await asyncio.sleep(0.001)
        world.delete(POOLS, "workers")
        world.cluster.create(POOLS, builders.resource("InstancePool", name="workers"))
        await asyncio.sleep(60)
        assert set(world.bound()) == {"works"}


@simulated
async def test_a_scope_that_is_replaced_by_another_of_its_name_says_something_too() -> None:
    world = Team()
    world.add_scope()
    async with runtime(world):
        await asyncio.sleep(20)
        world.delete(SCOPES, "research")
        world.add_scope()
        await asyncio.sleep(10)
        assert "month" in (world.scope() or {}).get("status", {})


@simulated
async def test_a_scope_in_use_is_held_again_when_somebody_took_the_finalizer_off() -> None:
    world = Team()
    world.add_scope()
    world.label(NAMESPACE, "research")
    async with runtime(world):
        await asyncio.sleep(20)
        assert world.finalizers() == [keys.FINALIZER]
        world.patch(SCOPES, "research", {"metadata": {"finalizers": None}})
        await asyncio.sleep(10)
        assert world.finalizers() == [keys.FINALIZER]


@simulated
async def test_a_scope_says_at_once_which_pools_are_given_to_it() -> None:
    world = Team()
    world.add_scope()
    world.add_pool("own", zones=("a",), instanceWide=False, scope="other")
    async with runtime(world):
        await asyncio.sleep(20)
        assert world.in_use() == {}
        world.patch(POOLS, "own", {"metadata": {"labels": {keys.SCOPE: "research"}}})
        await asyncio.sleep(10)
        assert world.in_use()["message"] == "pools of this scope alone: own"
