"""Sizes of groups in virtual time: failed launches are noticed, and every size is the group's own at that moment."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from autoscaler.cloud import port as cloud
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cloud import faults
from autoscaler.simulation.cloud.client import SimulatedClient
from autoscaler.simulation.cloud.model import Obstacle, Pace
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.capacity_world import World, runtime

A = "workers-a-m5.xlarge"
SHORT = Obstacle(failure=cloud.LaunchFailure.INSUFFICIENT_CAPACITY)
AT_ONCE = Pace(reaction_seconds=0.0)


def after_next(client: SimulatedClient, call: str, act: Callable[[], None], *, where: Callable[[Any], bool]) -> None:
    """Let something happen right after the next answer of a call that holds a certain thing."""
    plain = getattr(client, call)

    async def ask(*arguments: Any, **options: Any) -> Any:
        answer = await plain(*arguments, **options)
        if where(answer):
            delattr(client, call)
            act()
        return answer

    setattr(client, call, ask)


@pytest.mark.accept("G15")
@pytest.mark.parametrize(("news", "within_seconds"), [(True, 2.5), (False, 8.0)])
def test_a_launch_that_failed_is_noticed_from_events_and_without_them_from_activities(
    *, news: bool, within_seconds: float
) -> None:
    async def scenario() -> None:
        world = World()
        world.add_pool(zones=("a",))
        world.cloud.hinder(SHORT)
        if not news:
            world.cloud.faults.add(faults.Effect.REFUSE, faults.Call.NEWS, times=None)
        async with runtime(world):
            await asyncio.sleep(5)
            world.add_pod("one")
            await asyncio.sleep(0.5)
            assert world.desired() == {A: 1}
            await asyncio.sleep(within_seconds - 0.5)
            assert world.desired() == {}

    virtual_time.run(scenario())


@pytest.mark.accept("G15")
@simulated
async def test_an_instance_that_comes_while_its_group_is_given_up_is_not_ended_by_the_size_that_is_taken_back() -> None:
    world = World(pace=AT_ONCE)
    world.add_pool(zones=("a",), limits__maxIdleSeconds=36_000)
    world.cloud.hinder(SHORT)
    (group,) = world.cloud.groups.values()

    def come() -> None:
        world.cloud.relieve()
        world.cloud.set_desired(group, 2)

    async with runtime(world):
        await asyncio.sleep(5)
        after_next(world.clients["aws"], "activities", come, where=lambda found: any(one.failure for one in found))
        world.add_pod("one", cpu="3")
        await asyncio.sleep(60)
        assert len(world.cloud.instances) == 2
        assert all(one.counts for one in world.cloud.instances.values())
        assert set(world.bound()) == {"one"}


@pytest.mark.accept("G15")
@simulated
async def test_what_somebody_asked_for_meanwhile_is_not_undone_where_a_late_instance_is_kept() -> None:
    world = World()
    world.add_pool(zones=("a",), limits__maxIdleSeconds=36_000)
    (group,) = world.cloud.groups.values()
    world.cloud.be_late(group.name, 60)
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("one", cpu="3")
        await asyncio.sleep(5)  # accepted by now, and nobody can see it
        world.cloud.set_desired(group, 0)  # as somebody does who gives it up
        world.cloud.be_late(group.name, None)
        world.delete_pod("one")
        after_next(world.clients["aws"], "lives", lambda: world.cloud.set_desired(group, 5), where=bool)
        sizes = set()
        for _ in range(1200):
            await asyncio.sleep(0.1)
            sizes.add(group.desired)
        assert sizes == {0, 5}
        assert all(one.counts for one in world.cloud.instances.values())
        assert len(world.cloud.instances) == 5


@pytest.mark.parametrize(("most", "want"), [(0, 0), (2, 2)])
def test_idle_instances_beyond_a_groups_maximum_go_without_a_change_of_its_desired_capacity(
    most: int, want: int
) -> None:
    """The maximum was lowered while they worked: the group wants fewer than it has, and protects them."""

    async def scenario() -> None:
        world = World()
        world.add_pool(zones=("a",), limits__maxIdleSeconds=60)
        async with runtime(world):
            await asyncio.sleep(5)
            for number in range(5):
                world.add_pod(f"p-{number}", cpu="3")
            await asyncio.sleep(60)
            (group,) = world.cloud.groups.values()
            world.cloud.resize(group.name, minimum=most, maximum=most)
            await asyncio.sleep(90)
            assert len(group.members) == 5
            for number in range(5):
                world.delete_pod(f"p-{number}")
            await asyncio.sleep(600)
            assert (len(group.members), group.desired) == (want, want)
            assert len(world.cloud.instances) == 5

    virtual_time.run(scenario())
