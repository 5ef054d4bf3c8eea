"""An admission that is not answered: nobody else is admitted into what it takes, and the others wait for a moment only.

The Workload is changed by another write that demands the same version. After that the first one fails, or is seen to
have taken effect.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pytest

from autoscaler.api import keys
from autoscaler.kube import kinds, port
from autoscaler.simulation import virtual_time
from tests.scenarios.admission_world import NAMESPACE, World, cycles, runtime

pytestmark = pytest.mark.simulated
LATE_SECONDS: Final = (0.0, 0.006, 0.01, 0.014, 0.05, 2.0, 9.0)
"""When the unanswered write takes effect: before, at and after anything is tried again."""
NEVER: Final = None
BOUND_SECONDS: Final = 20
"""How long admission waits where nothing can be found out."""


@dataclass(frozen=True, kw_only=True)
class Weather:
    """What becomes of the first admission, and of later writes to its Workload."""

    late_seconds: float | None = NEVER
    """When the admission takes effect."""
    silent_seconds: float = 0.0
    """After which time the connection breaks."""
    answer: int | None = None
    """What the server says of the admission; None: nothing."""
    others: Callable[[], port.Response] | None = None
    """What comes of later writes, any of which would settle it; None: they are answered."""
    others_seconds: float = 30.0
    """For how long that lasts."""
    watch_seconds: float = 0.0
    """How much later than usual the runtime is told what becomes of Workloads."""


class Connection:
    """A connection that breaks at the first admission, which takes effect later, or never."""

    def __init__(self, api: port.Api, weather: Weather, then: Callable[[], object]) -> None:
        self.late: asyncio.Task[port.Response] | None = None
        self.has_broken = False
        self.broken_at = 0.0
        self.fenced_at: list[float] = []
        self._better_at = 0.0
        self._api = api
        self._weather = weather
        self._then = then

    async def send(self, request: port.Request) -> port.Response:
        if not self.has_broken and request.path.endswith("/status") and b'"podSetAssignments"' in (request.body or b""):
            return await self._break(request)
        if self.has_broken and request.method == "PATCH" and "/workloads/job-first" in request.path:
            if keys.FENCED.encode() in (request.body or b""):
                self.fenced_at.append(asyncio.get_running_loop().time())
            if self._weather.others is not None and asyncio.get_running_loop().time() < self._better_at:
                return self._weather.others()
        return await self._api.send(request)

    async def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[Sequence[bytes], None]:
        async with contextlib.aclosing(self._api.watch(path, query)) as batches:
            async for batch in batches:
                if self.has_broken and "/workloads" in path:
                    await asyncio.sleep(self._weather.watch_seconds)
                yield batch

    async def _break(self, request: port.Request) -> port.Response:
        self.has_broken = True
        self.broken_at = asyncio.get_running_loop().time()
        self._better_at = self.broken_at + self._weather.others_seconds
        if self._weather.late_seconds is not None:
            self.late = asyncio.create_task(self._later(request, self._weather.late_seconds))
        self._then()
        await asyncio.sleep(self._weather.silent_seconds)
        if self._weather.answer is not None:
            return port.Response(status=self._weather.answer, body=b"{}")
        raise port.UnreachableError("the connection broke")

    async def _later(self, request: port.Request, seconds: float) -> port.Response:
        await asyncio.sleep(seconds)
        return await self._api.send(request)


def no_answer() -> port.Response:
    raise port.UnreachableError("the connection broke")


def refusal() -> port.Response:
    return port.Response(status=403, body=b"{}")


async def play(weather: Weather, *, seconds: float, then: Callable[[World], object] | None = None) -> "Played":
    """Let a job of 2 pods be admitted without an answer, and a better one of 2 appear, under a quota of 2."""
    world, made = World(), list[Connection]()
    world.add_queue(cpu=2)
    world.add_priority("high", 10)

    def better() -> None:
        world.add_job("better", pods=2, completions=None, priority="high")

    def wrap(api: port.Api) -> port.Api:
        made.append(Connection(api, weather, better))
        return made[-1]

    async with runtime(world, wrap=wrap) as replica:
        world.add_job("first", pods=2, completions=None)
        if then is not None:
            await asyncio.sleep(1)
            then(world)
        await asyncio.sleep(seconds)
        await _ended(made[0])
        looks = cycles(replica)
    assert made[0].has_broken
    return Played(world, made[0], looks)


async def _ended(connection: Connection) -> None:
    if connection.late is not None:
        await connection.late


@dataclass(frozen=True)
class Played:
    world: World
    connection: Connection
    cycles: int

    @property
    def running(self) -> int:
        return self.world.running("first") + self.world.running("better")


@pytest.mark.accept("E16", part="an admission that is not answered")
@pytest.mark.parametrize("late_seconds", LATE_SECONDS)
@pytest.mark.parametrize("others", [None, no_answer, refusal], ids=["fenced", "fence unanswered", "fence refused"])
def test_nobody_is_admitted_into_what_an_unanswered_admission_may_still_take(
    late_seconds: float, others: Callable[[], port.Response] | None
) -> None:
    played = virtual_time.run(play(Weather(late_seconds=late_seconds, others=others), seconds=150))
    assert played.world.used() == played.running == 2


@pytest.mark.accept("E16", part="an admission that is not answered keeps the others waiting for a moment only")
@pytest.mark.parametrize("answer", [None, 500, 504], ids=lambda status: status or "silence")
@pytest.mark.parametrize("late_seconds", [NEVER, 0.0, 9.0], ids=["never", "at once", "late"])
def test_admission_goes_on_once_an_unanswered_one_is_known_to_have_failed_or_not(
    late_seconds: float | None, answer: int | None
) -> None:
    played = virtual_time.run(play(Weather(late_seconds=late_seconds, answer=answer), seconds=5))
    assert played.running == 2


@pytest.mark.accept("E16", part="an admission that is not answered keeps the others waiting for a moment only")
@pytest.mark.parametrize("others", [no_answer, refusal], ids=["unanswered", "refused"])
def test_where_it_cannot_be_found_out_admission_waits_until_the_write_must_have_ended(
    others: Callable[[], port.Response],
) -> None:
    weather = Weather(others=others)
    before = virtual_time.run(play(weather, seconds=BOUND_SECONDS - 1))
    assert (before.running, before.cycles < BOUND_SECONDS) == (0, True)
    after = virtual_time.run(play(weather, seconds=BOUND_SECONDS + 3))
    assert after.running == 2
    assert 2 <= len(after.connection.fenced_at) <= 20


@pytest.mark.accept("E16", part="an admission that is not answered keeps the others waiting for a moment only")
@pytest.mark.parametrize("others", [no_answer, refusal], ids=["unanswered", "refused"])
def test_what_settles_it_is_tried_again_long_before_the_write_must_have_ended(
    others: Callable[[], port.Response],
) -> None:
    played = virtual_time.run(play(Weather(others=others, others_seconds=1.0), seconds=8))
    assert played.running == 2


@pytest.mark.accept("E16", part="an admission that is not answered keeps the others waiting for a moment only")
def test_an_admission_that_took_effect_without_an_answer_is_seen_though_the_watch_lags() -> None:
    played = virtual_time.run(play(Weather(late_seconds=0.0, watch_seconds=15.0), seconds=5))
    assert played.world.running("first") == 2


@pytest.mark.accept("E16", part="an admission that is not answered keeps the others waiting for a moment only")
@pytest.mark.parametrize(
    "weather", [Weather(others=no_answer, others_seconds=1.0), Weather(answer=403)], ids=["unanswered", "refused"]
)
def test_an_admission_that_failed_is_tried_again_soon_though_nothing_else_changes(weather: Weather) -> None:
    async def admit_later() -> Connection:
        world, made = World(), list[Connection]()
        world.add_queue(cpu=1)

        def wrap(api: port.Api) -> port.Api:
            made.append(Connection(api, weather, lambda: None))
            return made[-1]

        async with runtime(world, wrap=wrap):
            world.add_job("first", pods=2, completions=None)
            await asyncio.sleep(5)
            world.set_quota(standard=2)
            await asyncio.sleep(5)
            assert world.running("first") == 2
        return made[0]

    connection = virtual_time.run(admit_later())
    assert connection.has_broken
    assert all(at - connection.broken_at < 0.1 for at in connection.fenced_at[:1])


@pytest.mark.accept("E16", part="an admission that is not answered before a pause")
def test_an_admission_under_way_when_the_runtime_is_paused_is_not_forgotten() -> None:
    def pause_a_moment(world: World) -> None:
        world.patch(kinds.NAMESPACES, NAMESPACE, {"metadata": {"annotations": {keys.PAUSED: "true"}}})
        later = asyncio.get_running_loop().call_later
        go_on = {"metadata": {"annotations": {keys.PAUSED: None}}}
        later(1.5, world.patch, kinds.NAMESPACES, NAMESPACE, go_on)

    weather = Weather(late_seconds=6.0, silent_seconds=8.0)
    played = virtual_time.run(play(weather, seconds=60, then=pause_a_moment))
    assert played.world.used() == played.running == 2
