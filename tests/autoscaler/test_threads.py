"""What blocks runs in a thread: its result or its error comes back, and whoever gives up does not stop it."""

import asyncio
import threading

import pytest

from autoscaler import threads


def test_the_result_and_the_error_of_a_call_come_back() -> None:
    assert asyncio.run(threads.run("adding", lambda: 1 + 1)) == 2
    with pytest.raises(ZeroDivisionError):
        asyncio.run(threads.run("dividing", lambda: 1 // 0))


def test_a_call_that_nobody_waits_for_any_more_ends_all_the_same() -> None:
    asyncio.run(_given_up())


async def _given_up() -> None:
    go_on, ended = threading.Event(), asyncio.Event()
    waiting = asyncio.create_task(threads.run("hanging", go_on.wait, ended=ended.set))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not ended.is_set()
    go_on.set()
    await ended.wait()


def test_a_call_that_ends_like_an_iterator_does_not_leave_who_waits_waiting() -> None:
    async def wait() -> None:
        async with asyncio.timeout(5):
            await threads.run("empty", lambda: next(iter(())))

    with pytest.raises(RuntimeError, match="StopIteration"):
        asyncio.run(wait())
