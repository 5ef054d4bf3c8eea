"""What one leader of capacity learned and the next one needs, in virtual time: it is written down first."""

import asyncio

import pytest

from autoscaler.api import keys
from autoscaler.kube import kinds
from autoscaler.simulation import virtual_time
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.capacity_replicas import Death, replica
from tests.scenarios.capacity_services import Service
from tests.scenarios.capacity_world import World, runtime


@pytest.mark.accept("G12")
@pytest.mark.parametrize("is_after", [False, True])
def test_a_notice_of_interruption_is_known_to_the_next_leader(*, is_after: bool) -> None:
    """Whoever heard of it is killed at its first write for it, before or after this is done."""

    async def scenario() -> None:
        world = World()
        world.add_pool(zones=("a", "b"))
        service = Service(world, "web")
        async with runtime(world):
            await asyncio.sleep(5)
            service.start()
            await asyncio.sleep(60)
        (node,) = service.running().values()
        (instance,) = world.cloud.instances.values()
        death = Death(at=1, is_after=is_after, told=lambda what: "/nodes/" in what or "/pods/" in what)
        async with replica(world, "mortal", death=death):
            await asyncio.sleep(5)
            world.cloud.interrupt(instance.id)
            await asyncio.sleep(5)
            assert death.is_dead
            async with replica(world, "next"):
                await asyncio.sleep(100)  # the provider takes it away after two minutes
                assert service.running()
                assert node not in service.running().values()

    virtual_time.run(scenario())


@simulated
async def test_pods_that_could_not_leave_under_one_leader_are_asked_by_the_next() -> None:
    world = World()
    world.add_pool(zones=("a", "b"))
    service = Service(world, "web")
    service.guard(available=1)
    async with runtime(world):
        await asyncio.sleep(5)
        service.start()
        await asyncio.sleep(60)
        (instance,) = world.cloud.instances.values()
        before = service.running()
        world.cloud.interrupt(instance.id)
        await asyncio.sleep(10)
        assert service.running() == before
    world.patch(kinds.DISRUPTION_BUDGETS, "web", {"spec": {"minAvailable": 0}})
    async with runtime(world, "b"):
        await asyncio.sleep(90)
        assert before.keys() & service.running().keys() == set(), "it was never asked to leave"


@simulated
async def test_an_instance_that_was_not_taken_away_after_all_is_used_again() -> None:
    world = World()
    world.add_pool(zones=("a",))
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("one", cpu="3")
        await asyncio.sleep(60)
        (node,) = world.nodes()
        long_ago = str(int(virtual_time.clock().now()) - 3601)
        world.patch(
            kinds.NODES, node["metadata"]["name"], {"metadata": {"annotations": {keys.INTERRUPTED_AT: long_ago}}}
        )
        await asyncio.sleep(60)
        assert world.bound() == {"one": node["metadata"]["name"]}
        assert not world.nodes()[0]["spec"].get("taints")
