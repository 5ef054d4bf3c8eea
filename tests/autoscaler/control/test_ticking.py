"""What looks again and again does so on time, ends with whoever waits for it, and hides no failure."""

import asyncio

import pytest

from autoscaler.control import ticking
from autoscaler.simulation import virtual_time


def test_it_looks_at_once_and_on_time_until_it_is_cancelled() -> None:
    looked: list[float] = []

    async def play() -> None:
        loop = asyncio.get_running_loop()
        task = asyncio.create_task(ticking.every(0.5, lambda: looked.append(loop.time())))
        await asyncio.sleep(1.2)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(5)

    virtual_time.run(play())
    assert looked == [0.0, 0.5, 1.0]


def test_a_look_that_fails_ends_it_with_that_failure() -> None:
    looked: list[None] = []

    def look() -> None:
        looked.append(None)
        if len(looked) == 3:
            raise KeyError("broken")

    async def play() -> None:
        with pytest.raises(KeyError, match="broken"):
            await ticking.every(1.0, look)
        await asyncio.sleep(5)

    virtual_time.run(play())
    assert len(looked) == 3
