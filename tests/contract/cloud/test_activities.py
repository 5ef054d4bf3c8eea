"""Launches that fail are told with a reason, and cost nothing but the wait; lives, templates and news are told too."""

import asyncio
import contextlib

import pytest

from autoscaler.cloud import port
from tests.contract.cloud import worlds
from tests.contract.cloud.worlds import World


async def failures(world: World, name: port.GroupName, since: float) -> list[port.Activity]:
    found = await world.cloud.activities(name, since=since)
    return [one for one in found if one.failure is not None]


@pytest.mark.parametrize("failure", [port.LaunchFailure.INSUFFICIENT_CAPACITY, port.LaunchFailure.UNSUPPORTED])
async def test_a_launch_that_fails_is_an_activity_with_a_reason(world: World, failure: port.LaunchFailure) -> None:
    began = world.now() - 1
    name = await world.add(worlds.spec("short"))
    world.hinder(failure, zone=worlds.ZONE, instance_type="m5.large")
    outcome = await world.cloud.set_desired(await worlds.group_of(world, name), 2)
    assert outcome.verdict is port.Verdict.LANDED, "want of capacity is no error"

    async def failed() -> list[port.Activity]:
        return await failures(world, name, began)

    newest = (await worlds.eventually(failed))[0]
    assert newest.failure is failure
    assert newest.kind is port.ActivityKind.LAUNCH
    assert newest.started_at >= began
    assert "m5.large" in newest.message
    group = await worlds.group_of(world, name)
    assert (group.desired, group.missing) == (2, 2)
    assert await failures(world, name, world.now() + 60) == []


async def test_a_shortage_is_of_one_zone_and_type(world: World) -> None:
    world.hinder(port.LaunchFailure.INSUFFICIENT_CAPACITY, zone="eu-west-1a", instance_type="m5.large")
    await worlds.with_instances(world, "elsewhere", 1)


async def test_desired_that_was_taken_back_stays_so_after_the_shortage(world: World) -> None:
    name = await world.add(worlds.spec("withdrawn"))
    world.hinder(port.LaunchFailure.INSUFFICIENT_CAPACITY, zone=worlds.ZONE, instance_type="m5.large")
    await world.cloud.set_desired(await worlds.group_of(world, name), 1)
    await world.cloud.set_desired(await worlds.group_of(world, name), 0)
    world.relieve()
    await asyncio.sleep(3)
    group = await worlds.group_of(world, name)
    assert (group.desired, group.instances) == (0, ())


async def test_a_group_tries_again_by_itself_once_there_is_capacity(world: World) -> None:
    name = await world.add(worlds.spec("relieved"))
    began = world.now() - 1
    world.hinder(port.LaunchFailure.INSUFFICIENT_CAPACITY, zone=worlds.ZONE, instance_type="m5.large")
    await world.cloud.set_desired(await worlds.group_of(world, name), 1)
    await worlds.eventually(lambda: failures(world, name, began))
    world.relieve()
    group = await worlds.in_service(world, name, 1)
    done = [one for one in await world.cloud.activities(name, since=began) if one.failure is None]
    assert [(one.kind, one.instance) for one in done] == [(port.ActivityKind.LAUNCH, group.instances[0].id)]


async def test_a_life_has_a_beginning_and_an_end(world: World) -> None:
    began = world.now()
    group = await worlds.with_instances(world, "lived", 1)
    [instance] = group.instances
    life = (await world.cloud.lives([instance.id]))[instance.id]
    assert began - 2 <= life.launched_at <= world.now()
    assert not life.is_over
    assert life.ended_at is None
    await world.cloud.terminate(group, instance.id, decrement=True)

    async def over() -> port.InstanceTimes | None:
        known = await world.cloud.lives([instance.id])
        return known[instance.id] if known[instance.id].is_over else None

    ended = await worlds.eventually(over)
    assert ended.launched_at == life.launched_at
    assert ended.ended_at is not None
    assert life.launched_at <= ended.ended_at <= world.now()


async def test_an_unknown_instance_has_no_life(world: World) -> None:
    assert await world.cloud.lives([port.InstanceId("i-0123456789abcdef0")]) == {}


async def test_an_instance_keeps_the_template_it_was_started_from(world: World) -> None:
    group = await worlds.with_instances(world, "dated", 1)
    assert group.template is not None
    await world.retemplate(group.name)
    after = await worlds.group_of(world, group.name)
    assert after.template is not None
    assert after.template != group.template
    assert after.instances[0].template == group.instances[0].template
    known = await world.cloud.templates([group.template, after.template])
    assert known[group.template].image_id != known[after.template].image_id
    assert known[group.template].user_data_sha256 != known[after.template].user_data_sha256


async def test_news_of_spot_instances_arrives_and_is_forgotten_once_the_next_is_asked_for(world: World) -> None:
    group = await worlds.with_instances(world, "spot", 1)
    instance = group.instances[0].id
    await world.announce_rebalance(instance)
    await world.announce_interruption(instance)
    seen: list[port.Event] = []

    async with contextlib.aclosing(world.interruptions.batches()) as batches, asyncio.timeout(worlds.WITHIN_SECONDS):
        async for batch in batches:
            seen += [one for one in batch if not isinstance(one, port.GroupChanged)]
            if any(isinstance(one, port.SpotInterruption) for one in seen):
                break
    assert set(seen) == {port.RebalanceRecommended(instance=instance), port.SpotInterruption(instance=instance)}
