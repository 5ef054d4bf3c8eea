"""Reads are tried again, writes never; a call that hangs keeps its thread and nobody else's."""

import asyncio
import threading
from collections.abc import Callable

import botocore.exceptions as boto
import pytest

from autoscaler.cloud import port
from autoscaler.cloud.aws import ec2_calls
from tests.autoscaler.cloud.aws.test_ec2_errors import of_code

QUICK = ec2_calls.Patience(call_seconds=5.0, attempts=3, pause_seconds=0.0001)
HASTY = ec2_calls.Patience(call_seconds=0.2, attempts=1)


def failing(times: int, error: Exception) -> tuple[Callable[[], str], list[int]]:
    """Return a call that fails so often, and what counts its attempts."""
    attempts: list[int] = []

    def call() -> str:
        attempts.append(1)
        if len(attempts) <= times:
            raise error
        return "done"

    return call, attempts


@pytest.mark.parametrize(
    "error", [of_code("Throttling"), of_code("InternalFailure", 500), boto.ReadTimeoutError(endpoint_url="x")]
)
def test_a_read_is_tried_again(error: Exception) -> None:
    call, attempts = failing(2, error)

    async def act() -> None:
        assert await ec2_calls.Calls(QUICK).read("DescribeThings", call) == "done"

    asyncio.run(act())
    assert len(attempts) == 3


def test_a_read_is_not_tried_for_ever() -> None:
    call, attempts = failing(99, of_code("Throttling"))

    async def act() -> None:
        with pytest.raises(port.CloudError) as caught:
            await ec2_calls.Calls(QUICK).read("DescribeThings", call)
        assert caught.value.reason is port.Reason.THROTTLED

    asyncio.run(act())
    assert len(attempts) == 3


def test_a_read_that_was_denied_is_not_tried_again() -> None:
    call, attempts = failing(99, of_code("AccessDenied", 403))

    async def act() -> None:
        with pytest.raises(port.CloudError):
            await ec2_calls.Calls(QUICK).read("DescribeThings", call)

    asyncio.run(act())
    assert len(attempts) == 1


@pytest.mark.parametrize(
    "error", [of_code("Throttling"), of_code("InternalFailure", 500), boto.ReadTimeoutError(endpoint_url="x")]
)
def test_a_write_is_sent_once(error: Exception) -> None:
    call, attempts = failing(1, error)

    async def act() -> None:
        with pytest.raises(port.CloudError):
            await ec2_calls.Calls(QUICK).write("SetThings", call)

    asyncio.run(act())
    assert len(attempts) == 1


def test_a_call_that_hangs_ends_in_time_and_may_have_landed() -> None:
    release = threading.Event()

    async def act() -> None:
        with pytest.raises(port.CloudError) as caught:
            await ec2_calls.Calls(HASTY).write("SetThings", release.wait)
        assert caught.value.reason is port.Reason.UNREACHABLE
        assert caught.value.may_have_landed

    asyncio.run(act())
    release.set()


def test_calls_that_hang_keep_their_threads_and_hold_up_no_others() -> None:
    release = threading.Event()

    async def act() -> None:
        calls = ec2_calls.Calls(HASTY, threads=2)
        with pytest.raises(port.CloudError):
            await calls.write("hangs", release.wait)
        assert await calls.read("works", lambda: "done") == "done"
        with pytest.raises(port.CloudError):
            await calls.write("hangs too", release.wait)
        with pytest.raises(port.CloudError) as caught:
            await calls.write("waits for a thread", release.wait)
        assert not caught.value.may_have_landed, "it was never sent"
        release.set()
        async with asyncio.timeout(5):
            await calls._slots.acquire()

    asyncio.run(act())


def test_the_loop_may_end_before_a_call_does() -> None:
    release, ended = threading.Event(), threading.Event()

    def call() -> None:
        release.wait()
        ended.set()

    async def act() -> None:
        with pytest.raises(port.CloudError):
            await ec2_calls.Calls(HASTY).write("SetThings", call)

    asyncio.run(act())
    release.set()
    assert ended.wait(5)


def test_pauses_grow_and_are_longer_after_throttling() -> None:
    async def act() -> None:
        calls = ec2_calls.Calls(ec2_calls.Patience(pause_seconds=1.0))
        for failures, want in enumerate([1.0, 2.0, 4.0], start=1):
            assert want / 2 <= calls._pause(failures, port.Reason.UNREACHABLE) <= want
            assert 4 * want / 2 <= calls._pause(failures, port.Reason.THROTTLED) <= 4 * want

    asyncio.run(act())
