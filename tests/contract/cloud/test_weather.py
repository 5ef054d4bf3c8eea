"""Bad weather on the wire: throttling in all forms, breakdowns, silence, half answers. Calls end, and recover."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from autoscaler import clock
from autoscaler.cloud import port, view
from autoscaler.cloud.aws import ec2_accounts, ec2_autoscaling, ec2_calls
from tests.contract.cloud import real, worlds
from tools.local.asg.asg_orders import Trouble
from tools.local.asg.asg_rules import AsgRules

pytestmark = pytest.mark.real

HASTY = ec2_calls.Patience(call_seconds=1.0, attempts=3, pause_seconds=0.02)
BOUND_SECONDS = 10
"""A call ends within this on however busy a computer, if it is bounded at all."""
GROUPS, SET = "DescribeAutoScalingGroups", "SetDesiredCapacity"
Test = Callable[[real.RealWorld], Coroutine[Any, Any, None]]


def run(asg_rules: AsgRules, test: Test) -> None:
    async def act() -> None:
        world = await asyncio.to_thread(real.RealWorld, asg_rules)
        async with contextlib.aclosing(world):
            world.cloud._calls = ec2_calls.Calls(HASTY)  # type: ignore[attr-defined]
            await test(world)

    asyncio.run(act())


@pytest.mark.accept("R4")
@pytest.mark.parametrize("trouble", Trouble)
def test_a_reading_that_is_troubled_once_recovers_by_itself_unless_it_is_denied(
    asg_rules: AsgRules, trouble: Trouble
) -> None:
    async def test(world: real.RealWorld) -> None:
        name = await world.add(worlds.spec("calm"))
        await world.cloud.groups()
        asg_rules.orders.add(trouble, GROUPS)
        if trouble is Trouble.DENY:
            with pytest.raises(port.CloudError):
                await world.cloud.groups()
        assert [group.name for group in (await world.cloud.groups()).groups] == [name]

    run(asg_rules, test)


@pytest.mark.accept("R4")
@pytest.mark.parametrize("trouble", [one for one in Trouble if one is not Trouble.DENY])
def test_in_lasting_trouble_a_reading_ends_with_an_error_and_the_view_keeps_the_last_whole_one(
    asg_rules: AsgRules, trouble: Trouble
) -> None:
    async def test(world: real.RealWorld) -> None:
        await world.add(worlds.spec("first"))
        seen = view.View(world.cloud, clock.SystemClock())
        whole = await seen.refresh()
        await world.add(worlds.spec("second"))
        before = asg_rules.calls[GROUPS]
        asg_rules.orders.add(trouble, GROUPS, times=None)
        async with asyncio.timeout(HASTY.attempts * BOUND_SECONDS):
            with pytest.raises(port.CloudError) as caught:
                await seen.refresh()
        assert caught.value.reason in {port.Reason.THROTTLED, port.Reason.UNREACHABLE}
        assert asg_rules.calls[GROUPS] - before == HASTY.attempts
        assert seen.reading is whole
        asg_rules.orders.clear()
        assert list((await seen.refresh()).groups) == ["first", "second"]

    run(asg_rules, test)


@pytest.mark.accept("R4")
@pytest.mark.parametrize(
    ("trouble", "verdict", "desired"),
    [
        (Trouble.THROTTLE, port.Verdict.NOT_DONE, 0),
        (Trouble.LIMIT, port.Verdict.NOT_DONE, 0),
        (Trouble.BREAK, port.Verdict.UNANSWERED, 0),
        (Trouble.UNAVAILABLE, port.Verdict.UNANSWERED, 0),
        (Trouble.HANG, port.Verdict.UNANSWERED, 0),
        (Trouble.LOSE_REQUEST, port.Verdict.UNANSWERED, 0),
        (Trouble.LOSE_ANSWER, port.Verdict.LANDED, 1),
        (Trouble.TRUNCATE, port.Verdict.LANDED, 1),
    ],
)
def test_a_write_in_trouble_is_sent_once_and_its_outcome_is_the_truth(
    asg_rules: AsgRules, trouble: Trouble, verdict: port.Verdict, desired: int
) -> None:
    async def test(world: real.RealWorld) -> None:
        name = await world.add(worlds.spec("stormy"))
        group = await worlds.group_of(world, name)
        before = asg_rules.calls[SET]
        asg_rules.orders.add(trouble, SET, times=None)
        outcome = await world.cloud.set_desired(group, 1)
        assert outcome.verdict is verdict
        assert asg_rules.calls[SET] - before == 1
        assert await world.desired_of(name) == desired

    run(asg_rules, test)


def test_calls_that_hang_slow_only_themselves(asg_rules: AsgRules) -> None:
    async def test(world: real.RealWorld) -> None:
        name = await world.add(worlds.spec("slow"))
        group = await worlds.group_of(world, name)
        asg_rules.orders.add(Trouble.HANG, SET, times=None)
        async with asyncio.TaskGroup() as tasks:
            hung = tasks.create_task(world.cloud.set_desired(group, 1))
            await asyncio.sleep(0.1)
            await world.cloud.groups()
            assert not hung.done()

    run(asg_rules, test)


def test_the_interruption_queue_recovers_too(asg_rules: AsgRules) -> None:
    async def test(world: real.RealWorld) -> None:
        asg_rules.orders.add(Trouble.UNAVAILABLE, "ReceiveMessage")
        instance = port.InstanceId("i-0123456789abcdef0")
        await world.announce_interruption(instance)
        with pytest.raises(port.CloudError):
            await _first(world)
        assert [one.instance for one in await _first(world)] == [instance]  # type: ignore[union-attr]

    run(asg_rules, test)


async def _first(world: real.RealWorld) -> tuple[port.Event, ...]:
    async with contextlib.aclosing(world.interruptions.batches()) as batches, asyncio.timeout(worlds.WITHIN_SECONDS):
        return await anext(batches)


@contextlib.asynccontextmanager
async def opened(account: ec2_accounts.Account, cluster: str) -> AsyncIterator[ec2_autoscaling.Ec2AutoScaling]:
    cloud = ec2_autoscaling.Ec2AutoScaling(account, cluster=cluster, calls=ec2_calls.Calls(HASTY))
    async with contextlib.aclosing(cloud):
        yield cloud


def test_a_role_is_assumed_once_and_used_for_every_call(asg_rules: AsgRules) -> None:
    async def act() -> None:
        role = "arn:aws:iam::123456789012:role/scaler"
        before = asg_rules.calls["AssumeRole"]
        async with opened(real.account(asg_rules, role_arn=role), secrets.token_hex(3)) as cloud:
            for _ in range(3):
                assert await cloud.groups() == port.Listing()
        assert asg_rules.calls["AssumeRole"] - before == 1

    asyncio.run(act())


def test_a_role_that_may_not_be_assumed_is_denied_without_showing_the_keys(asg_rules: AsgRules) -> None:
    keys = ec2_accounts.AccessKeys(access_key_id="AKIDEXAMPLE", secret_access_key="wJalrXUtnFEMI")

    async def act() -> None:
        role = "arn:aws:iam::123456789012:role/scaler"
        asg_rules.orders.add(Trouble.DENY, "AssumeRole", times=None)
        async with opened(real.account(asg_rules, role_arn=role, keys=keys), "bench") as cloud:
            with pytest.raises(port.CloudError) as caught:
                await cloud.groups()
        assert caught.value.reason is port.Reason.DENIED
        shown = f"{caught.value!r} {caught.value.message} {caught.value.__cause__}"
        assert "AKIDEXAMPLE" not in shown
        assert "wJalrXUtnFEMI" not in shown

    try:
        asyncio.run(act())
    finally:
        asg_rules.orders.clear()


def test_types_are_described_and_unknown_ones_left_out(asg_rules: AsgRules) -> None:
    async def act() -> None:
        async with opened(real.account(asg_rules), "bench") as cloud:
            found = await cloud.instance_types(["m5.large", "g4dn.xlarge", "z9.nothing"])
        assert {name: (kind.vcpus, kind.gpus) for name, kind in found.items()} == {
            "m5.large": (2, 0),
            "g4dn.xlarge": (4, 1),
        }

    asyncio.run(act())
