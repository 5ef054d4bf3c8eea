"""An instance refresh that launches before it terminates, in virtual time: the group's size is left alone."""

import asyncio

import pytest

from autoscaler.cloud import port as cloud
from autoscaler.simulation.cloud.model import Group, Pace
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.capacity_world import World, runtime

WARMUP_SECONDS = 900.0
LASTS_SECONDS = 1000.0
"""How long one replacement takes, with a little more."""


async def sizes(group: Group, seconds: float, *, every_seconds: float = 1.0) -> set[int]:
    """Return all desired capacities that a group has meanwhile."""
    found = {group.desired}
    for _ in range(int(seconds / every_seconds)):
        await asyncio.sleep(every_seconds)
        found.add(group.desired)
    return found


def launched(world: World) -> int:
    return len(world.cloud.instances)


@pytest.mark.accept("G15")
@simulated
async def test_desired_is_not_raised_for_instances_that_a_refresh_launches_first() -> None:
    world = World()
    world.add_pool(zones=("a",), limits__maxIdleSeconds=60)
    (group,) = world.cloud.groups.values()
    async with runtime(world):
        await asyncio.sleep(5)
        for number in range(2):
            world.add_pod(f"works-{number}", cpu="3")
        await asyncio.sleep(60)
        old = {one.id for one in group.members}
        assert (group.desired, len(old)) == (2, 2)
        world.cloud.refresh(group.name, warmup_seconds=WARMUP_SECONDS)
        assert await sizes(group, 60) == {2}
        assert len(group.members) == 3  # one more, which is idle
        assert await sizes(group, 800) == {2}  # for longer than idle instances stay
        assert old <= {one.id for one in group.members}
        assert max(await sizes(group, LASTS_SECONDS + 60)) == 2
        assert not old & {one.id for one in group.members}
        assert launched(world) == 4


@simulated
async def test_a_group_at_its_minimum_gets_as_many_instances_as_the_refresh_launches_and_no_more() -> None:
    world = World()
    world.add_pool(zones=("a",), minimum=1, limits__maxIdleSeconds=60)
    (group,) = world.cloud.groups.values()
    async with runtime(world):
        await asyncio.sleep(300)
        world.cloud.refresh(group.name, warmup_seconds=WARMUP_SECONDS)
        assert await sizes(group, 2 * LASTS_SECONDS) == {1}
        assert (launched(world), len(group.members)) == (2, 1)


@simulated
async def test_a_refresh_to_another_launch_template_is_not_done_a_second_time_by_us() -> None:
    world = World()
    world.add_pool(zones=("a",), limits__maxIdleSeconds=60)
    (group,) = world.cloud.groups.values()
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("works-1", cpu="3")
        await asyncio.sleep(60)
        world.cloud.refresh(group.name, warmup_seconds=WARMUP_SECONDS)
        await asyncio.sleep(60)
        assert len(group.members) == 2
        world.add_pod("works-2", cpu="3")  # on the new one, so that it is no spare for what the old one has
        await asyncio.sleep(30)
        world.cloud.retemplate(group.name, cloud.Template(image_id="ami-2", user_data_sha256="1" * 64))
        assert await sizes(group, 700) == {1}
        assert launched(world) == 2


@simulated
async def test_what_stays_for_longer_than_any_replacement_takes_counts_again() -> None:
    world = World()
    world.add_pool(zones=("a",), limits__maxIdleSeconds=60)
    (group,) = world.cloud.groups.values()
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("works", cpu="3")
        await asyncio.sleep(60)
        world.cloud.refresh(group.name, warmup_seconds=10 * 3600)  # which nobody ever ends
        assert await sizes(group, 7000) == {1}
        assert len(group.members) == 2
        group.replacing = 0  # it was cancelled
        assert await sizes(group, 600) == {1, 2}
        assert (group.desired, len(group.members)) == (1, 1)
        assert set(world.bound()) == {"works"}


@simulated
async def test_instances_that_were_asked_for_once_count_at_once_whoever_lowered_desired() -> None:
    world = World()
    world.add_pool(zones=("a",), limits__maxIdleSeconds=36_000)
    (group,) = world.cloud.groups.values()
    async with runtime(world):
        await asyncio.sleep(5)
        for number in range(2):
            world.add_pod(f"works-{number}", cpu="3")
        await asyncio.sleep(60)
        world.cloud.set_desired(group, 1)  # by hand: both are protected, and stay
        await asyncio.sleep(120)
        assert (group.desired, len(group.members)) == (2, 2)


@simulated
async def test_an_additional_instance_that_never_joins_is_ended_and_desired_stays() -> None:
    world = World()
    world.add_pool(zones=("a",), registrationTimeoutSeconds=120)
    (group,) = world.cloud.groups.values()
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("works", cpu="3")
        await asyncio.sleep(60)
        world.silent.add("a")
        world.cloud.refresh(group.name, warmup_seconds=10 * 3600)
        assert await sizes(group, 200, every_seconds=0.02) == {1}
        ended = [one for one in world.cloud.instances.values() if one.ended_at is not None]
        assert len(ended) == 1
        assert set(world.bound()) == {"works"}


@pytest.mark.accept("G15")
@simulated
async def test_an_instance_that_comes_after_its_launch_was_taken_back_counts_at_once() -> None:
    world = World()
    world.add_pool(zones=("a",), limits__maxIdleSeconds=36_000)
    (group,) = world.cloud.groups.values()
    world.cloud.be_late(group.name, 60)
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("one", cpu="3")
        await asyncio.sleep(5)  # accepted by now, and nobody can see it
        world.cloud.set_desired(group, 0)
        world.delete_pod("one")
        await asyncio.sleep(120)
        assert (group.desired, len(group.members)) == (1, 1)


@simulated
async def test_desired_is_raised_for_those_alone_that_were_asked_for() -> None:
    world = World(pace=Pace(reaction_seconds=0.0))
    world.add_pool(zones=("a",), limits__maxIdleSeconds=36_000)
    (group,) = world.cloud.groups.values()
    async with runtime(world):
        await asyncio.sleep(5)
        for number in range(2):
            world.add_pod(f"works-{number}", cpu="3")
        await asyncio.sleep(60)
        world.cloud.set_desired(group, 1)
        world.cloud.refresh(group.name, warmup_seconds=WARMUP_SECONDS)
        assert await sizes(group, 300, every_seconds=0.1) == {1, 2}
        assert (group.desired, len(group.members)) == (2, 3)


@simulated
async def test_a_change_of_leader_does_not_make_a_replacement_take_longer() -> None:
    world = World()
    world.add_pool(zones=("a",), limits__maxIdleSeconds=120)
    (group,) = world.cloud.groups.values()
    async with runtime(world):
        await asyncio.sleep(5)
        for number in range(2):
            world.add_pod(f"works-{number}", cpu="3")
        await asyncio.sleep(3 * 3600)
    world.cloud.set_desired(group, 1)  # while nobody leads: both are protected, and stay
    async with runtime(world, "b"):
        await asyncio.sleep(120)
        assert (group.desired, len(group.members)) == (2, 2)
        for number in range(2):
            world.delete_pod(f"works-{number}")
        await asyncio.sleep(300)
        assert len(group.members) == 0
