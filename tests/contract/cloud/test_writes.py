"""What becomes of writes: within the bounds they land, outside they are refused with the numbers; each is sent once.

moto itself knows no bounds, no Pending and no activities; the ASG rules before it are those that AWS documents.
"""

import pytest

from autoscaler.cloud import port
from autoscaler.simulation.cloud.faults import Call, Effect
from tests.contract.cloud import worlds
from tests.contract.cloud.worlds import World


def is_refused(outcome: port.Outcome) -> bool:
    assert outcome.verdict is port.Verdict.NOT_DONE
    return outcome.error is not None and outcome.error.reason is port.Reason.REFUSED


async def test_a_raised_desired_capacity_becomes_pending_then_protected_instances_in_the_zone(world: World) -> None:
    name = await world.add(worlds.spec("grown"))
    outcome = await world.cloud.set_desired(await worlds.group_of(world, name), 2)
    assert outcome.verdict is port.Verdict.LANDED
    assert outcome.group is not None
    assert outcome.group.desired == 2

    async def pending() -> bool:
        group = await worlds.group_of(world, name)
        return [one.lifecycle for one in group.members] == [port.Lifecycle.PENDING] * 2

    await worlds.eventually(pending)
    group = await worlds.in_service(world, name, 2)
    assert group.missing == 0
    for instance in group.instances:
        assert instance.template is not None
        assert instance.provider_id == f"aws:///{worlds.ZONE}/{instance.id}"
    assert await world.protected_of(name) == {one.id for one in group.instances}


@pytest.mark.parametrize("desired", [0, 4])
async def test_a_number_outside_of_the_bounds_is_refused_with_the_numbers(world: World, desired: int) -> None:
    name = await world.add(worlds.spec("bounded", minimum=1, maximum=3))
    outcome = await world.cloud.set_desired(await worlds.group_of(world, name), desired)
    assert is_refused(outcome)
    assert "from 1 to 3" in str(outcome.error)
    assert await world.desired_of(name) == 1


async def test_bounds_that_changed_behind_our_back_hold_and_are_told(world: World) -> None:
    name = await world.add(worlds.spec("cut", maximum=5))
    old = await worlds.group_of(world, name)
    await world.resize(name, minimum=0, maximum=2)
    outcome = await world.cloud.set_desired(old, 4)
    assert is_refused(outcome)
    assert {"4", "2"} <= set(str(outcome.error).split())
    assert outcome.group is not None
    assert outcome.group.maximum == 2
    assert await world.desired_of(name) == 0


async def test_lowering_desired_never_ends_a_protected_instance_in_service(world: World) -> None:
    group = await worlds.with_instances(world, "fenced", 2)
    outcome = await world.cloud.set_desired(group, 0)
    assert outcome.verdict is port.Verdict.LANDED
    after = await worlds.in_service(world, group.name, 2)
    assert after.desired == 0
    assert {one.id for one in after.instances} == {one.id for one in group.instances}


async def test_lowering_desired_ends_what_is_not_protected(world: World) -> None:
    group = await worlds.with_instances(world, "open", 2, is_protecting=False)
    assert await world.protected_of(group.name) == set()
    await world.cloud.set_desired(group, 1)
    await worlds.in_service(world, group.name, 1)


async def test_an_instance_is_ended_by_name_with_one_less_desired_although_it_is_protected(world: World) -> None:
    group = await worlds.with_instances(world, "shrunk", 2)
    victim, other = (one.id for one in group.instances)
    outcome = await world.cloud.terminate(group, victim, decrement=True)
    assert outcome.verdict is port.Verdict.LANDED
    assert outcome.group is not None
    assert outcome.group.desired == 1
    assert [one.id for one in outcome.group.members] == [other]
    after = await worlds.in_service(world, group.name, 1)
    assert after.desired == 1
    assert [one.id for one in after.instances] == [other]


async def test_an_instance_that_is_ended_without_decrement_is_replaced(world: World) -> None:
    group = await worlds.with_instances(world, "replaced", 1, minimum=1)
    outcome = await world.cloud.terminate(group, group.instances[0].id, decrement=False)
    assert outcome.verdict is port.Verdict.LANDED

    async def replaced() -> bool:
        after = await worlds.in_service(world, group.name, 1)
        return after.instances[0].id != group.instances[0].id

    await worlds.eventually(replaced)
    assert await world.desired_of(group.name) == 1
    (other,) = (await worlds.group_of(world, group.name)).members
    assert other.id in await world.protected_of(group.name), "who comes later is protected, too"


async def test_a_decrement_below_the_minimum_is_refused_with_the_numbers(world: World) -> None:
    group = await worlds.with_instances(world, "least", 1, minimum=0)
    await world.resize(group.name, minimum=1, maximum=5)
    outcome = await world.cloud.terminate(group, group.instances[0].id, decrement=True)
    assert is_refused(outcome)
    await worlds.in_service(world, group.name, 1)


async def test_an_instance_that_is_not_there_is_told_apart(world: World) -> None:
    name = await world.add(worlds.spec("empty"))
    group = (await worlds.group_of(world, name)).with_desired(1)
    outcome = await world.cloud.terminate(group, port.InstanceId("i-0123456789abcdef0"), decrement=True)
    assert outcome.verdict is port.Verdict.NOT_DONE
    assert outcome.error is not None
    assert outcome.error.reason is port.Reason.NOT_FOUND


@pytest.mark.parametrize(
    ("effect", "want"),
    [(Effect.THROTTLE, port.Reason.THROTTLED), (Effect.DENY, port.Reason.DENIED)],
)
async def test_a_write_that_is_turned_away_did_nothing_and_was_sent_once(
    world: World, effect: Effect, want: port.Reason
) -> None:
    name = await world.add(worlds.spec("busy"))
    group = await worlds.group_of(world, name)
    world.fault(effect, Call.SET_DESIRED, times=None)
    outcome = await world.cloud.set_desired(group, 1)
    assert outcome.verdict is port.Verdict.NOT_DONE
    assert outcome.error is not None
    assert outcome.error.reason is want
    assert world.sent(Call.SET_DESIRED) == 1
    assert await world.desired_of(name) == 0


async def test_a_write_whose_answer_was_lost_is_found_by_reading_again_and_not_repeated(world: World) -> None:
    name = await world.add(worlds.spec("lost"))
    group = await worlds.group_of(world, name)
    world.fault(Effect.LOSE_ANSWER, Call.SET_DESIRED)
    outcome = await world.cloud.set_desired(group, 1)
    assert outcome.verdict is port.Verdict.LANDED
    assert outcome.group is not None
    assert outcome.group.desired == 1
    assert world.sent(Call.SET_DESIRED) == 1


async def test_a_write_that_never_arrived_is_unanswered(world: World) -> None:
    name = await world.add(worlds.spec("void"))
    group = await worlds.group_of(world, name)
    world.fault(Effect.LOSE_REQUEST, Call.SET_DESIRED)
    outcome = await world.cloud.set_desired(group, 1)
    assert outcome.verdict is port.Verdict.UNANSWERED
    assert outcome.group == group
    assert world.sent(Call.SET_DESIRED) == 1


async def test_an_end_whose_answer_was_lost_is_found_by_reading_again_and_ends_one_only(world: World) -> None:
    group = await worlds.with_instances(world, "half", 2)
    world.fault(Effect.LOSE_ANSWER, Call.TERMINATE)
    outcome = await world.cloud.terminate(group, group.instances[0].id, decrement=True)
    assert outcome.verdict is port.Verdict.LANDED
    assert await world.desired_of(group.name) == 1
    assert world.sent(Call.TERMINATE) == 1
