"""The simulated cloud by itself: what the contract cannot ask of moto, in virtual time."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies

from autoscaler.api.resources.pools import CapacityType
from autoscaler.api.settings.node_groups import NodeGroups
from autoscaler.cloud import port, prices
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cloud import SimulatedCloud, ledger
from autoscaler.simulation.cloud.cloud import ALL_PROTECTED
from autoscaler.simulation.cloud.model import Group, Obstacle, Pace
from tests.contract.cloud import worlds

PACE = Pace(reaction_seconds=1.0, pending_seconds=30.0, terminate_seconds=10.0, retry_seconds=30.0)
A = port.GroupName("a")


def run(test: Callable[[SimulatedCloud], Coroutine[Any, Any, None]]) -> None:
    async def act() -> None:
        await test(SimulatedCloud(virtual_time.clock(), pace=PACE))

    virtual_time.run(act())


def states(group: Group) -> list[str]:
    return [str(instance.lifecycle) for instance in group.instances.values()]


def test_an_instance_is_pending_then_in_service_then_leaving_then_gone() -> None:
    async def test(cloud: SimulatedCloud) -> None:
        group = cloud.add(worlds.spec("a"), desired=1)
        await asyncio.sleep(1.1)
        assert states(group) == ["Pending"]
        await asyncio.sleep(30)
        assert states(group) == ["InService"]
        [instance] = group.members
        cloud.terminate(group, instance.id, decrement=True)
        assert states(group) == ["Leaving"]
        assert not instance.is_over
        await asyncio.sleep(10.1)
        assert states(group) == []
        assert instance.is_over

    run(test)


def test_listeners_are_told_of_instances_in_service_and_gone() -> None:
    async def test(cloud: SimulatedCloud) -> None:
        told: list[tuple[str, str]] = []
        cloud.on_in_service.append(lambda instance: told.append(("in service", instance.provider_id)))
        cloud.on_gone.append(lambda instance: told.append(("gone", instance.provider_id)))
        group = cloud.add(worlds.spec("a"), desired=1)
        await asyncio.sleep(40)
        [instance] = group.members
        cloud.terminate(group, instance.id, decrement=True)
        await asyncio.sleep(40)
        assert told == [("in service", instance.provider_id), ("gone", instance.provider_id)]

    run(test)


def test_a_stack_makes_groups_that_begin_with_their_minimum() -> None:
    async def test(cloud: SimulatedCloud) -> None:
        groups = NodeGroups(cluster="bench", region="eu-west-1", groups=(worlds.spec("a", minimum=2),))
        cloud.add_all(groups)
        await asyncio.sleep(40)
        [group] = (await cloud.client("bench").groups()).groups
        assert len(group.members) == 2

    run(test)


def test_a_shortage_has_a_beginning_and_an_end_and_the_retries_grow_apart() -> None:
    async def test(cloud: SimulatedCloud) -> None:
        began = cloud.clock.now()
        cloud.hinder(Obstacle(failure=port.LaunchFailure.INSUFFICIENT_CAPACITY, zone=worlds.ZONE, ends_at=began + 200))
        group = cloud.add(worlds.spec("a"), desired=1)
        await asyncio.sleep(400)
        failed = [round(one.started_at - began) for one in group.activities if one.failure is not None]
        assert failed == [1, 31, 91]
        assert states(group) == ["InService"]

    run(test)


def test_a_new_desired_capacity_is_tried_at_once_whatever_failed_before() -> None:
    async def test(cloud: SimulatedCloud) -> None:
        cloud.hinder(Obstacle(failure=port.LaunchFailure.INSUFFICIENT_CAPACITY))
        group = cloud.add(worlds.spec("a"), desired=1)
        await asyncio.sleep(100)
        cloud.relieve()
        cloud.set_desired(group, 2)
        await asyncio.sleep(1.1)
        assert states(group) == ["Pending", "Pending"]

    run(test)


def test_pending_instances_are_not_protected_yet() -> None:
    async def test(cloud: SimulatedCloud) -> None:
        group = cloud.add(worlds.spec("a"), desired=2)
        await asyncio.sleep(5)
        cloud.set_desired(group, 0)
        assert states(group) == ["Leaving", "Leaving"]

    run(test)


def test_a_late_instance_arrives_although_desired_was_taken_back_and_lives() -> None:
    async def test(cloud: SimulatedCloud) -> None:
        group = cloud.add(worlds.spec("a"))
        cloud.be_late(A, 300)
        client = cloud.client()
        cloud.set_desired(group, 1)
        await asyncio.sleep(60)
        [seen] = (await client.groups()).groups
        assert (seen.desired, seen.instances) == (1, ())
        cloud.set_desired(group, 0)
        await asyncio.sleep(300)
        [seen] = (await client.groups()).groups
        assert (seen.desired, [one.lifecycle for one in seen.instances]) == (0, [port.Lifecycle.IN_SERVICE])
        assert group.activities[-1].message == ALL_PROTECTED

    run(test)


def test_a_spot_instance_goes_two_minutes_after_the_notice_and_is_replaced() -> None:
    async def test(cloud: SimulatedCloud) -> None:
        group = cloud.add(worlds.spec("a"), desired=1)
        await asyncio.sleep(40)
        [instance] = group.members
        cloud.interrupt(instance.id)
        await asyncio.sleep(119)
        assert group.members == [instance]
        await asyncio.sleep(60)
        [successor] = group.members
        assert successor is not instance
        life = (await cloud.client().lives([instance.id]))[instance.id]
        assert (life.is_over, life.ended_at) == (True, None), "EC2 does not tell when it took an instance"

    run(test)


def test_an_ended_life_is_forgotten_after_an_hour() -> None:
    async def test(cloud: SimulatedCloud) -> None:
        group = cloud.add(worlds.spec("a"), desired=1)
        await asyncio.sleep(40)
        [instance] = group.members
        cloud.terminate(group, instance.id, decrement=True)
        await asyncio.sleep(3500)
        assert instance.id in await cloud.client().lives([instance.id])
        await asyncio.sleep(200)
        assert await cloud.client().lives([instance.id]) == {}

    run(test)


def test_a_suspended_group_launches_nothing() -> None:
    async def test(cloud: SimulatedCloud) -> None:
        group = cloud.add(worlds.spec("a"))
        group.suspended.add("Launch")
        cloud.set_desired(group, 1)
        await asyncio.sleep(100)
        assert states(group) == []

    run(test)


def test_a_removed_group_takes_its_instances_along() -> None:
    async def test(cloud: SimulatedCloud) -> None:
        cloud.add(worlds.spec("a"), desired=2)
        await asyncio.sleep(40)
        cloud.remove(A)
        await asyncio.sleep(20)
        assert all(instance.is_over for instance in cloud.instances.values())

    run(test)


def test_the_bill_is_by_the_second_from_launch_to_the_order_to_end() -> None:
    async def test(cloud: SimulatedCloud) -> None:
        group = cloud.add(worlds.spec("a"), desired=2)
        await asyncio.sleep(1 + 3600)
        cloud.terminate(group, group.members[0].id, decrement=True)
        await asyncio.sleep(3600)
        now = cloud.clock.now()
        assert sum(each.seconds(now) for each in cloud.instances.values()) == pytest.approx(3 * 3600)
        given = prices.Prices(hourly_micros={("m5.large", CapacityType.ON_DEMAND): 100_000})
        assert ledger.cost_micros(cloud.instances.values(), given, now) == pytest.approx(300_000, abs=100)

    run(test)


ORDERS = strategies.lists(
    strategies.tuples(
        strategies.sampled_from(
            ["desired", "terminate", "replace", "interrupt", "hinder", "relieve", "late", "resize"]
        ),
        strategies.integers(0, 6),
        strategies.floats(0, 200),
    ),
    max_size=25,
)


@hypothesis.given(orders=ORDERS)
def test_whatever_is_asked_the_rules_hold_and_a_group_comes_to_rest(orders: list[tuple[str, int, float]]) -> None:
    async def test(cloud: SimulatedCloud) -> None:
        group = cloud.add(worlds.spec("a", minimum=1, maximum=5))
        served: list[str] = []
        cloud.on_in_service.append(lambda instance: served.append(instance.id))
        for order, number, pause in orders:
            before = {instance.id for instance in group.members if instance.lifecycle is port.Lifecycle.IN_SERVICE}
            _give(cloud, group, order, number)
            after = {instance.id for instance in group.members if instance.lifecycle is port.Lifecycle.IN_SERVICE}
            lost = len(before - after)
            assert lost <= (1 if order in {"terminate", "replace"} else 0), "only by name is a node ended"
            assert group.minimum <= group.desired <= group.maximum
            await asyncio.sleep(pause)
        cloud.relieve()
        cloud.be_late(A, None)
        await asyncio.sleep(3000)
        assert all(instance.lifecycle is port.Lifecycle.IN_SERVICE for instance in group.instances.values())
        assert len(group.members) >= group.desired
        assert len(served) == len(set(served))
        launched = [one.instance for one in group.activities if one.kind is port.ActivityKind.LAUNCH and one.instance]
        assert sorted(launched) == sorted(cloud.instances)

    run(test)


def _give(cloud: SimulatedCloud, group: Group, order: str, number: int) -> None:
    members = [instance for instance in group.members if instance.is_listed]
    victim = members[number % len(members)].id if members else None
    try:
        match order:
            case "desired":
                cloud.set_desired(group, number)
            case "terminate" | "replace" if victim is not None:
                cloud.terminate(group, victim, decrement=order == "terminate")
            case "interrupt" if victim is not None:
                cloud.interrupt(victim)
            case "hinder":
                cloud.hinder(Obstacle(failure=port.LaunchFailure.INSUFFICIENT_CAPACITY))
            case "relieve":
                cloud.relieve()
            case "late":
                cloud.be_late(A, 50.0 * number)
            case "resize":
                cloud.resize(A, minimum=min(number, 2), maximum=max(number, 2))
            case _:
                pass  # there is nobody to end
    except port.CloudError as error:
        assert error.reason is port.Reason.REFUSED  # noqa: PT017 - whatever is refused is no accident
