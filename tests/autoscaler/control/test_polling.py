"""A source that looks again and again: while we may act, or always, and less and less often where that fails."""

import asyncio
import contextlib
from types import SimpleNamespace
from typing import Any

import pytest

from autoscaler.control import polling
from autoscaler.kube import port
from autoscaler.simulation import virtual_time


class Looking:
    """Remembers when it looked, and fails while it is told to."""

    def __init__(self, *, held_back: str | None = None, also_standing_by: bool = False) -> None:
        self.looked_at: list[float] = []
        self.fails = False
        self.context: Any = SimpleNamespace(
            clock=virtual_time.clock(), held_back=lambda: held_back, feed=lambda _source: None
        )
        self._also_standing_by = also_standing_by

    async def look(self) -> float:
        self.looked_at.append(asyncio.get_running_loop().time())
        if self.fails:
            raise port.UnreachableError("nobody answers")
        return 15.0

    async def run(self, seconds: float) -> list[float]:
        source = polling.Polling(self.context, "a test", self.look, also_standing_by=self._also_standing_by)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await source.run()
        return self.looked_at


def test_it_looks_as_often_as_the_look_says() -> None:
    async def play() -> list[float]:
        return await Looking().run(50)

    assert [round(at) for at in virtual_time.run(play())] == [0, 15, 30, 45]


@pytest.mark.parametrize(("also_standing_by", "want"), [(False, 0), (True, 4)])
def test_while_we_may_not_act_it_looks_only_where_it_should(*, also_standing_by: bool, want: int) -> None:
    async def play() -> list[float]:
        return await Looking(held_back="NotLeading", also_standing_by=also_standing_by).run(50)

    assert len(virtual_time.run(play())) == want


def test_a_look_that_fails_is_repeated_less_and_less_often() -> None:
    async def play() -> list[float]:
        looking = Looking()
        looking.fails = True
        return await looking.run(3600)

    times = virtual_time.run(play())
    assert [round(at) for at in times[:6]] == [0, 1, 3, 7, 15, 31]
    assert len(times) <= 6 + 60
