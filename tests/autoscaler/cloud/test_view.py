"""What the view knows: whole readings, our own writes at once, and unanswered ones for two refreshes."""

import asyncio
from collections.abc import Callable, Collection, Coroutine
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies

from autoscaler.cloud import port
from autoscaler.cloud.view import Reading, View
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cloud import SimulatedCloud
from autoscaler.simulation.cloud.client import SimulatedClient
from autoscaler.simulation.cloud.cloud import CLUSTER
from autoscaler.simulation.cloud.faults import Call, Effect
from autoscaler.simulation.cloud.model import Obstacle
from tests.contract.cloud import worlds

A, B = port.GroupName("a"), port.GroupName("b")
Test = Callable[[SimulatedCloud, SimulatedClient, View], Coroutine[Any, Any, None]]


def run(test: Test) -> None:
    async def act() -> None:
        cloud = SimulatedCloud(virtual_time.clock())
        for name in (A, B):
            cloud.add(worlds.spec(name))
        client = cloud.client()
        await test(cloud, client, View(client, virtual_time.clock()))

    virtual_time.run(act())


def desired(view: View, name: port.GroupName = A) -> int:
    assert view.reading is not None
    return view.reading.groups[name].desired


def test_a_refresh_reads_everything_in_one_call() -> None:
    async def test(_: SimulatedCloud, client: SimulatedClient, view: View) -> None:
        began = virtual_time.clock().now()
        reading = await view.refresh()
        assert list(reading.groups) == [A, B]
        assert reading.read_at == began
        assert client.calls == {Call.GROUPS: 1}

    run(test)


def test_nothing_is_known_before_the_first_refresh() -> None:
    async def test(_: SimulatedCloud, __: SimulatedClient, view: View) -> None:
        assert view.reading is None
        with pytest.raises(RuntimeError, match="refresh"):
            await view.set_desired(A, 1)

    run(test)


@pytest.mark.parametrize("effect", [Effect.THROTTLE, Effect.REFUSE, Effect.LOSE_ANSWER])
def test_a_refresh_that_fails_leaves_the_old_reading_with_its_age(effect: Effect) -> None:
    async def test(cloud: SimulatedCloud, _: SimulatedClient, view: View) -> None:
        before = await view.refresh()
        cloud.remove(B)
        cloud.faults.add(effect, Call.GROUPS)
        await asyncio.sleep(60)
        with pytest.raises(port.CloudError):
            await view.refresh()
        assert view.reading is before
        assert list((await view.refresh()).groups) == [A]

    run(test)


def test_a_write_is_known_at_once() -> None:
    async def test(_: SimulatedCloud, client: SimulatedClient, view: View) -> None:
        await view.refresh()
        outcome = await view.set_desired(A, 3)
        assert outcome.verdict is port.Verdict.LANDED
        assert (desired(view), desired(view, B)) == (3, 0)
        assert client.calls[Call.GROUPS] == 1

    run(test)


def test_an_end_is_known_at_once() -> None:
    async def test(_: SimulatedCloud, __: SimulatedClient, view: View) -> None:
        await view.refresh()
        await view.set_desired(A, 2)
        await asyncio.sleep(60)
        [victim, other] = (await view.refresh()).groups[A].members
        await view.terminate(A, victim.id, decrement=True)
        assert view.reading is not None
        assert [one.id for one in view.reading.groups[A].members] == [other.id]
        assert desired(view) == 1

    run(test)


def test_a_refused_write_brings_the_bounds_up_to_date() -> None:
    async def test(cloud: SimulatedCloud, _: SimulatedClient, view: View) -> None:
        await view.refresh()
        cloud.resize(A, minimum=0, maximum=2)
        outcome = await view.set_desired(A, 3)
        assert outcome.verdict is port.Verdict.NOT_DONE
        assert view.reading is not None
        assert view.reading.groups[A].maximum == 2
        assert desired(view) == 0

    run(test)


def test_a_write_to_a_group_that_is_not_listed_is_not_sent() -> None:
    async def test(_: SimulatedCloud, client: SimulatedClient, view: View) -> None:
        await view.refresh()
        nowhere = port.GroupName("nowhere")
        for outcome in (
            await view.set_desired(nowhere, 1),
            await view.terminate(nowhere, port.InstanceId("i-1"), decrement=True),
        ):
            assert outcome.error is not None
            assert outcome.error.reason is port.Reason.NOT_FOUND
        assert client.calls == {Call.GROUPS: 1}

    run(test)


def test_a_write_without_answer_counts_as_landed_until_two_refreshes_later() -> None:
    async def test(cloud: SimulatedCloud, _: SimulatedClient, view: View) -> None:
        await view.refresh()
        cloud.faults.add(Effect.LOSE_REQUEST, Call.SET_DESIRED)
        outcome = await view.set_desired(A, 2)
        assert outcome.verdict is port.Verdict.UNANSWERED
        assert desired(view) == 2
        await view.refresh()
        assert desired(view) == 2
        await view.refresh()
        assert desired(view) == 0

    run(test)


def test_a_later_answered_write_ends_the_doubt() -> None:
    async def test(cloud: SimulatedCloud, _: SimulatedClient, view: View) -> None:
        await view.refresh()
        cloud.faults.add(Effect.LOSE_REQUEST, Call.SET_DESIRED)
        await view.set_desired(A, 2)
        await view.set_desired(A, 1)
        await view.refresh()
        assert desired(view) == 1

    run(test)


def test_a_write_that_was_not_done_leaves_an_earlier_doubt() -> None:
    async def test(cloud: SimulatedCloud, _: SimulatedClient, view: View) -> None:
        await view.refresh()
        cloud.faults.add(Effect.LOSE_REQUEST, Call.SET_DESIRED)
        cloud.faults.add(Effect.THROTTLE, Call.SET_DESIRED)
        await view.set_desired(A, 2)
        await view.set_desired(A, 1)
        await view.refresh()
        assert desired(view) == 2

    run(test)


def test_an_end_lowers_what_is_in_doubt_too() -> None:
    async def test(cloud: SimulatedCloud, _: SimulatedClient, view: View) -> None:
        await view.refresh()
        await view.set_desired(A, 1)
        await asyncio.sleep(60)
        [instance] = (await view.refresh()).groups[A].members
        cloud.faults.add(Effect.LOSE_REQUEST, Call.SET_DESIRED)
        await view.set_desired(A, 3)
        await view.terminate(A, instance.id, decrement=True)
        assert desired(view) == 2

    run(test)


def test_a_refresh_that_was_under_way_does_not_count_for_a_doubt() -> None:
    async def test(cloud: SimulatedCloud, _: SimulatedClient, __: View) -> None:
        view = View(SlowAnswers(cloud, CLUSTER), virtual_time.clock())
        await view.refresh()
        cloud.faults.add(Effect.LOSE_REQUEST, Call.SET_DESIRED)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(view.set_desired(A, 2))
            await asyncio.sleep(5)
            tasks.create_task(view.refresh())
        await view.refresh()
        assert desired(view) == 2
        await view.refresh()
        assert desired(view) == 0

    run(test)


class SlowAnswers(SimulatedClient):
    """Lists arrive long after they were true."""

    async def groups(self, names: Collection[port.GroupName] | None = None) -> port.Listing:
        listing = await super().groups(names)
        await asyncio.sleep(10)
        return listing


def test_a_reading_that_began_before_a_write_does_not_undo_it() -> None:
    async def test(cloud: SimulatedCloud, _: SimulatedClient, __: View) -> None:
        view = View(SlowAnswers(cloud, CLUSTER), virtual_time.clock())
        await view.refresh()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(view.refresh())
            tasks.create_task(view.reread([A]))
            await asyncio.sleep(5)
            tasks.create_task(view.set_desired(A, 2))
        assert desired(view) == 2
        await view.refresh()
        assert desired(view) == 2

    run(test)


def test_one_write_is_in_flight_per_group() -> None:
    async def test(_: SimulatedCloud, __: SimulatedClient, view: View) -> None:
        await view.refresh()
        loop = asyncio.get_running_loop()
        ends: list[tuple[str, float]] = []

        async def write(name: port.GroupName, count: int) -> None:
            await view.set_desired(name, count)
            ends.append((name, round(loop.time(), 3)))

        began = loop.time()
        async with asyncio.TaskGroup() as tasks:
            for name, count in ((A, 1), (A, 2), (B, 1)):
                tasks.create_task(write(name, count))
        assert [(name, round(at - began, 2)) for name, at in sorted(ends)] == [("a", 0.05), ("a", 0.1), ("b", 0.05)]
        assert desired(view) == 2

    run(test)


def test_sizes_can_be_read_again_before_a_write_in_one_call() -> None:
    async def test(cloud: SimulatedCloud, client: SimulatedClient, view: View) -> None:
        await view.refresh()
        cloud.set_desired(cloud.groups[A], 1)
        cloud.remove(B)
        reading = await view.reread([A, B])
        assert client.calls[Call.GROUPS] == 2
        assert list(reading.groups) == [A]
        assert desired(view) == 1

    run(test)


def short_of(failure: port.LaunchFailure) -> Obstacle:
    return Obstacle(failure=failure, zone=worlds.ZONE)


def test_activities_are_asked_of_groups_that_lack_instances_alone() -> None:
    async def test(cloud: SimulatedCloud, client: SimulatedClient, view: View) -> None:
        cloud.hinder(short_of(port.LaunchFailure.INSUFFICIENT_CAPACITY))
        await view.refresh()
        await view.set_desired(A, 1)
        await asyncio.sleep(5)
        reading = await view.refresh()
        assert client.calls[Call.ACTIVITIES] == 1
        assert [one.failure for one in reading.failures[A]] == [port.LaunchFailure.INSUFFICIENT_CAPACITY]
        assert B not in reading.failures
        cloud.relieve()
        await asyncio.sleep(120)
        assert (await view.refresh()).failures == {}
        assert client.calls[Call.ACTIVITIES] == 1

    run(test)


def test_activities_that_cannot_be_read_are_told_and_hold_up_no_others() -> None:
    async def test(cloud: SimulatedCloud, _: SimulatedClient, view: View) -> None:
        cloud.hinder(short_of(port.LaunchFailure.UNSUPPORTED))
        await view.refresh()
        await view.set_desired(A, 1)
        await view.set_desired(B, 1)
        await asyncio.sleep(5)
        cloud.faults.add(Effect.THROTTLE, Call.ACTIVITIES)
        reading: Reading = await view.refresh()
        assert (sorted(reading.unread), list(reading.failures)) == ([A], [B])

    run(test)


STEPS = strategies.lists(
    strategies.tuples(
        strategies.sampled_from(["write", "refresh", "reread", "wait", *Effect]),
        strategies.sampled_from([A, B]),
        strategies.integers(0, 6),
    ),
    max_size=30,
)


@hypothesis.given(steps=STEPS)
def test_whatever_goes_wrong_in_the_end_the_view_is_the_truth(steps: list[tuple[str, port.GroupName, int]]) -> None:
    async def test(cloud: SimulatedCloud, client: SimulatedClient, view: View) -> None:
        await view.refresh()
        tasks: list[asyncio.Task[Any]] = []
        for step, name, number in steps:
            match step:
                case "write":
                    tasks.append(asyncio.create_task(view.set_desired(name, number)))
                case "refresh":
                    tasks.append(asyncio.create_task(view.refresh()))
                case "reread":
                    tasks.append(asyncio.create_task(view.reread([name])))
                case "wait":
                    await asyncio.sleep(number * cloud.latency_seconds / 2)
                case effect:
                    cloud.faults.add(Effect(effect), times=max(1, number))
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(one, port.CloudError | Reading | port.Outcome) for one in done)
        cloud.faults.clear()
        await asyncio.sleep(3600)
        for _ in range(2):
            await view.refresh()
        assert view.reading is not None
        assert tuple(view.reading.groups.values()) == (await client.groups()).groups

    run(test)
