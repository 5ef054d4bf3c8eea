"""Virtual time jumps, never waits, and says so when nothing can happen any more."""

import asyncio
import random
import time

import pytest

from autoscaler.simulation import virtual_time


async def test_a_year_passes_at_once() -> None:
    began = time.monotonic()
    loop = asyncio.get_running_loop()
    await asyncio.sleep(365 * 86_400)
    assert loop.time() == pytest.approx(365 * 86_400)
    assert time.monotonic() - began < 5


async def test_timers_fire_in_order_and_at_their_time() -> None:
    seen: list[tuple[float, str]] = []
    loop = asyncio.get_running_loop()

    async def note(after: float, name: str) -> None:
        await asyncio.sleep(after)
        seen.append((loop.time(), name))

    await asyncio.gather(note(3, "c"), note(1, "a"), note(2, "b"), note(1, "a2"))
    assert seen == [(1, "a"), (1, "a2"), (2, "b"), (3, "c")]


async def test_time_does_not_pass_while_something_is_ready() -> None:
    loop = asyncio.get_running_loop()
    for _ in range(1000):
        await asyncio.sleep(0)
    assert loop.time() == 0


async def test_a_timeout_is_virtual_too() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3600):
            await asyncio.Event().wait()
    assert asyncio.get_running_loop().time() == 3600


def test_the_clock_is_the_start_and_what_passed() -> None:
    async def act() -> list[float]:
        clock = virtual_time.clock()
        before = clock.now()
        await asyncio.sleep(1.5)
        return [before, clock.now()]

    assert virtual_time.run(act(), start=1_000_000.0) == [1_000_000.0, 1_000_001.5]


def test_the_clock_needs_virtual_time() -> None:
    async def act() -> None:
        virtual_time.clock()

    with pytest.raises(TypeError, match=r"use virtual_time\.run"):
        asyncio.run(act())


async def test_a_thread_is_run_inline() -> None:
    order: list[str] = []
    await asyncio.to_thread(order.append, "thread")
    order.append("after")
    assert order == ["thread", "after"]


async def test_what_a_thread_raises_reaches_the_caller() -> None:
    def fail() -> None:
        raise KeyError("planned")

    with pytest.raises(KeyError, match="planned"):
        await asyncio.to_thread(fail)


async def test_an_executor_is_refused() -> None:
    import concurrent.futures  # noqa: PLC0415 - nothing else here may have one

    with concurrent.futures.ThreadPoolExecutor() as executor, pytest.raises(RuntimeError, match="no executors"):
        await asyncio.get_running_loop().run_in_executor(executor, len, "x")


def test_a_deadlock_is_told_with_who_waits_where() -> None:
    async def wait_for_godot() -> None:
        await asyncio.Event().wait()

    async def act() -> None:
        task = asyncio.create_task(wait_for_godot(), name="estragon")
        await task

    with pytest.raises(virtual_time.DeadlockError, match=r"estragon \(.*wait_for_godot:\d+\)"):
        virtual_time.run(act())


def test_tasks_that_wake_each_other_for_ever_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual_time, "STEPS_PER_INSTANT", 1000)

    async def act() -> None:
        while True:  # noqa: ASYNC110 - waiting for nothing is the point
            await asyncio.sleep(0)

    with pytest.raises(virtual_time.LivelockError, match="1000 steps"):
        virtual_time.run(act())


def test_a_callback_that_fails_ends_the_run() -> None:
    def fail() -> None:
        raise KeyError("broken world")

    async def act() -> None:
        asyncio.get_running_loop().call_later(1, fail)
        await asyncio.sleep(10)

    with pytest.raises(KeyError, match="broken world"):
        virtual_time.run(act())


def test_tasks_left_over_are_cancelled() -> None:
    ended: list[float] = []

    async def linger() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append(asyncio.get_running_loop().time())

    async def act() -> None:
        asyncio.create_task(linger())  # noqa: RUF006 - left over on purpose
        await asyncio.sleep(1)

    virtual_time.run(act())
    assert ended == [1]


async def test_timers_of_one_moment_fire_in_the_order_in_which_they_were_set() -> None:
    """A heap alone would not keep it: it depends on which other timers there are."""
    seen: list[int] = []
    loop = asyncio.get_running_loop()
    dice = random.Random(0)  # noqa: S311  # no cryptography
    others = [loop.call_later(dice.choice((3.0, 5.0, 7.0)), seen.append, -1) for _ in range(500)]
    for number in range(100):
        loop.call_later(5.0, seen.append, number)
        others[number].cancel()
    await asyncio.sleep(10)
    assert [number for number in seen if number >= 0] == list(range(100))
    assert seen.count(-1) == 400


async def test_cancelled_timers_do_not_pile_up() -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, virtual_time.VirtualLoop)
    for _ in range(10 * virtual_time.CANCELLED_MAX):
        loop.call_later(86_400, print).cancel()
    assert loop.timers_waiting() <= virtual_time.CANCELLED_MAX + 1
    for _ in range(3 * virtual_time.CANCELLED_MAX):
        await asyncio.sleep(1)  # its timer is cancelled after it has fired
    assert loop.timers_waiting() <= virtual_time.CANCELLED_MAX + 1
