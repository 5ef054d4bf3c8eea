"""An admission that is not answered and takes effect late: nobody else is admitted into what it takes."""

import asyncio
from collections.abc import Callable

import pytest

from autoscaler.kube import port
from autoscaler.simulation import virtual_time
from tests.scenarios.admission_world import World, runtime

pytestmark = pytest.mark.simulated
LATE_SECONDS = (0.006, 0.01, 0.014, 0.05)
"""Sooner than anything is tried again."""


class Slow:
    """A connection that breaks at the first admission, which takes effect a little later."""

    def __init__(self, api: port.Api, late_seconds: float, then: Callable[[], object]) -> None:
        self.late: asyncio.Task[port.Response] | None = None
        self.watch = api.watch
        self._api = api
        self._late_seconds = late_seconds
        self._then = then

    async def send(self, request: port.Request) -> port.Response:
        if self.late is None and request.path.endswith("/status") and b'"podSetAssignments"' in (request.body or b""):
            self.late = asyncio.create_task(self._later(request))
            self._then()
            raise port.UnreachableError("the connection broke")
        return await self._api.send(request)

    async def _later(self, request: port.Request) -> port.Response:
        await asyncio.sleep(self._late_seconds)
        return await self._api.send(request)


@pytest.mark.accept("E16", part="an admission that is not answered")
@pytest.mark.parametrize("late_seconds", LATE_SECONDS)
def test_nobody_is_admitted_into_what_an_unanswered_admission_may_still_take(late_seconds: float) -> None:
    virtual_time.run(_play(late_seconds))


async def _play(late_seconds: float) -> None:
    world, made = World(), list[Slow]()
    world.add_queue(cpu=2)
    world.add_priority("high", 10)

    def slow(api: port.Api) -> port.Api:
        better = lambda: world.add_job("better", pods=2, completions=None, priority="high")  # noqa: E731
        made.append(Slow(api, late_seconds, better))
        return made[-1]

    async with runtime(world, wrap=slow):
        world.add_job("first", pods=2, completions=None)
        await asyncio.sleep(60)
    assert made[0].late is not None
    assert made[0].late.done()
    assert world.used() == world.running("first") + world.running("better") == 2
