"""A scope's pools by priority, in virtual time: a limit, a shortage or an outage goes on to the next."""

import asyncio
from typing import Any

import pytest

from autoscaler.api import keys, resources
from autoscaler.cloud import port as cloud
from autoscaler.kube import kinds
from autoscaler.simulation.cloud import faults
from autoscaler.simulation.cloud.model import Obstacle
from tests import builders
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.capacity_world import World, runtime

PODS = 3


def site(**best: Any) -> World:
    """A scope with three pools in no order, each in an account and a zone of its own."""
    world = World()
    entries = [{"name": "third", "priority": -5}, {"name": "first", "priority": 10}, {"name": "second", "priority": 0}]
    for name, zone, fields in (("first", "a", best), ("second", "b", {}), ("third", "c", {})):
        account = builders.resource("ProviderAccount", name=f"of-{name}")
        world.cluster.create(kinds.custom(resources.ProviderAccount), account)
        world.add_pool(name, zones=(zone,), providerAccount=f"of-{name}", **fields)
    world.cluster.create(kinds.custom(resources.Scope), builders.resource("Scope", pools=entries))
    world.patch(kinds.NAMESPACES, "default", {"metadata": {"labels": {keys.SCOPE: "research"}}})
    return world


def used(world: World) -> list[str]:
    return [instance.key.pool for instance in world.cloud.instances.values()]


async def fill(world: World, name: str) -> None:
    """Add pods that fill an instance each."""
    for number in range(PODS):
        world.add_pod(f"{name}-{number}", cpu="3")
    await asyncio.sleep(120)
    assert {f"{name}-{number}" for number in range(PODS)} <= set(world.bound())


@pytest.mark.accept("P10")
@simulated
async def test_the_highest_priority_is_launched_first_and_a_limit_goes_on_to_the_next() -> None:
    world = site(limits__maxActiveInstances=1)
    async with runtime(world):
        await fill(world, "p")
        assert sorted(used(world)) == ["first", "second", "second"]


@pytest.mark.accept("P10")
@simulated
async def test_a_shortage_goes_on_to_the_next_and_ends() -> None:
    world = site()
    world.cloud.hinder(Obstacle(failure=cloud.LaunchFailure.INSUFFICIENT_CAPACITY, zone="a"))
    async with runtime(world):
        await fill(world, "p")
        assert set(used(world)) == {"second"}
        world.cloud.relieve()
        await asyncio.sleep(1800)
        await fill(world, "q")
        assert used(world)[PODS:] == ["first"] * PODS


@pytest.mark.accept("P10")
@simulated
async def test_an_account_that_does_not_answer_is_passed_by_until_it_does() -> None:
    world = site()
    async with runtime(world):
        await asyncio.sleep(90)
        world.clients["of-first"].faults.add(faults.Effect.REFUSE, times=None)
        await fill(world, "p")
        assert set(used(world)) == {"second"}
        (pool,) = (
            each for each in world.all(kinds.custom(resources.InstancePool)) if each["metadata"]["name"] == "first"
        )
        assert pool["status"]["nodeGroups"][0]["reason"].startswith("account of-first does not answer: ")
        world.clients["of-first"].faults.clear()
        await asyncio.sleep(120)
        await fill(world, "q")
        assert used(world)[PODS:] == ["first"] * PODS


@simulated
async def test_a_single_call_that_fails_sends_nobody_elsewhere() -> None:
    world = site()
    async with runtime(world):
        await asyncio.sleep(90)
        world.clients["of-first"].faults.add(faults.Effect.THROTTLE, faults.Call.GROUPS, times=4)
        await fill(world, "p")
        assert set(used(world)) == {"first"}


@simulated
async def test_pods_that_can_go_nowhere_else_wait_and_go_on_as_soon_as_the_account_answers() -> None:
    world = site()
    async with runtime(world):
        await asyncio.sleep(90)
        world.clients["of-first"].faults.add(faults.Effect.REFUSE, times=None)
        world.add_pod("bound", cpu="3", nodeSelector={keys.INSTANCE_POOL: "first"})
        await asyncio.sleep(300)
        assert "account of-first does not answer" in world.events("NotTriggerScaleUp")[-1]["message"]
        world.clients["of-first"].faults.clear()
        await asyncio.sleep(120)
        assert set(world.bound()) == {"bound"}
