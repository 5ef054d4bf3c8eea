"""Whatever the API server refuses a pool, for ever and in whatever way: it is asked less and less often.

Every call that a pool makes is refused with every kind of answer, and by silence, for an hour. What is counted is what
the API server would see: at most 20 refused calls of a kind in the first minute, and 2 a minute after that.
"""

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Final

import msgspec
import pytest

from autoscaler.api import keys
from autoscaler.kube import kinds, port
from autoscaler.simulation import virtual_time
from tests.scenarios.worker_world import NAMESPACE, POOLS, Body, World, runtime

pytestmark = pytest.mark.simulated
FIRST_MINUTE: Final = 20
LATER_A_MINUTE: Final = 2
REFUSALS: Final = (403, 404, 409, 422, 429, 500, None)
"""Answers; None is silence."""
MINUTES: Final[Mapping[int | None, int]] = {403: 60, None: 60}
"""How long each is played; where nothing is said, for as long as it takes until pauses are at their longest."""
GONE: Final = 404
_DONE_IF_GONE: Final = re.compile(r"(DELETE .*|PATCH .*/pods/[^/]+)")
"""Where the object is gone, what was to be done is done."""


class Refusing:
    """A connection to an API server that refuses one kind of call, once told to, and counts."""

    def __init__(self, api: port.Api, call: str, status: int | None) -> None:
        self.is_on = False
        self.refused: list[tuple[str, float]] = []
        self.asked: list[str] = []
        self.sent = 0
        self._api = api
        self._call = re.compile(call)
        self._status = status

    async def send(self, request: port.Request) -> port.Response:
        self.sent += 1
        if not self.is_on or not self._call.fullmatch(f"{request.method} {request.path}"):
            return await self._api.send(request)
        call = f"{request.method} {request.path}"
        if self._status != GONE or not _DONE_IF_GONE.fullmatch(call):
            self.refused.append((request.method, asyncio.get_running_loop().time()))
        self.asked.append(call)
        if self._status is None:
            await asyncio.sleep(request.timeout_seconds)
            raise port.UnreachableError(f"{request.method} {request.path}: no answer")
        await asyncio.sleep(0.005)
        return port.Response(status=self._status, body=msgspec.json.encode({"reason": "Refused", "message": "no"}))

    async def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[Sequence[bytes], None]:
        async with contextlib.aclosing(self._api.watch(path, query)) as batches:
            async for batch in batches:
                yield batch

    def by_minute(self, method: str) -> list[int]:
        """Return how many calls of a kind were refused in each minute, counted from the first."""
        times = [at for kind, at in self.refused if kind == method]
        minutes = [int((at - times[0]) // 60) for at in times]
        return [minutes.count(minute) for minute in range(max(minutes) + 1)]


def busy(world: World) -> None:
    """A pool that is fed all the time: workers come, end and are cleaned up."""
    world.add(poolCapacity=25, queue__interval="00:00:05")
    world.line.length = 10_000


def with_secret(world: World) -> None:
    world.cluster.create(
        kinds.SECRETS, {"metadata": {"name": "key", "namespace": NAMESPACE}, "data": {"ApiKey": "eA=="}}
    )
    world.add(queue__interval="00:00:01", queue__source__secretName="key")


def nothing(world: World) -> None:
    del world


def shut_down(world: World) -> None:
    world.change(status="Shutdown")


def deleted(world: World) -> None:
    world.delete(POOLS, "pool")


def workers_deleted(world: World) -> None:
    for pod in world.pods():
        world.delete(kinds.PODS, pod["metadata"]["name"])


def handed_over(world: World) -> None:
    world.change(workerPoolClassName="nobody")


def orphans(world: World) -> None:
    """Workers that are being deleted and whose pool is another of the same name; no more are made."""
    world.line.length = 0
    for pod in world.pods():
        owners = [{**owner, "uid": "another"} for owner in pod["metadata"]["ownerReferences"]]
        world.patch(kinds.PODS, pod["metadata"]["name"], {"metadata": {"ownerReferences": owners}})
        world.delete(kinds.PODS, pod["metadata"]["name"])


STORIES: Final[dict[str, tuple[str, Callable[[World], None], Callable[[World], None]]]] = {
    "adopting": (r"PATCH .*/workerpools/[^/]+", nothing, busy),
    "writing the status": (r"PATCH .*/workerpools/[^/]+/status", busy, nothing),
    "listing workers": (r"GET .*/pods", nothing, busy),
    "reading the template": (r"GET .*/deployments/[^/]+", nothing, busy),
    "reading the template again": (r"GET .*/deployments/[^/]+", busy, nothing),
    "reading the Secret": (r"GET .*/secrets/[^/]+", nothing, with_secret),
    "making workers": (r"POST .*/pods", nothing, busy),
    "making more workers": (r"POST .*/pods", busy, nothing),
    "looking for a worker that may have been made": (r"(POST .*/pods|GET .*/pods/[^/]+)", nothing, busy),
    "removing workers that ended": (r"DELETE .*/pods/[^/]+", busy, nothing),
    "removing all workers": (r"DELETE .*/pods/[^/]+", busy, shut_down),
    "removing the workers of a deleted pool": (r"DELETE .*/pods/[^/]+", busy, deleted),
    "letting workers go that ended": (r"PATCH .*/pods/[^/]+", busy, nothing),
    "letting workers go that somebody deleted": (r"PATCH .*/pods/[^/]+", busy, workers_deleted),
    "letting the workers of a deleted pool go": (r"PATCH .*/pods/[^/]+", busy, deleted),
    "letting a deleted pool go": (r"PATCH .*/workerpools/[^/]+", busy, deleted),
    "letting workers go to another operator": (r"PATCH .*/pods/[^/]+", busy, handed_over),
    "letting a pool go to another operator": (r"PATCH .*/workerpools/[^/]+", busy, handed_over),
    "looking for an orphan's pool": (r"GET .*/workerpools/[^/]+", busy, orphans),
    "letting an orphan go": (r"PATCH .*/pods/[^/]+", busy, orphans),
    "telling events": (r"(POST|PATCH|GET) .*/events.*", nothing, busy),
    "looking for another operator": (r"GET .*/leases/sluice-workers\.nobody", busy, handed_over),
}


@pytest.mark.accept("W19", part="what the API server refuses is tried less and less often")
@pytest.mark.parametrize(
    ("story", "status"),
    [
        pytest.param(story, status, id=f"{story}-{status or 'silence'}")
        for story in STORIES
        for status in REFUSALS
        if not (story.startswith("looking for an") and status == GONE)  # that is an answer
    ],
)
def test_what_is_refused_for_an_hour_is_asked_for_less_and_less_often(story: str, status: int | None) -> None:
    refusing = virtual_time.run(_story(story, status))
    assert refusing.asked, "the story never came to this call"
    for method in {method for method, _ in refusing.refused}:
        minutes = refusing.by_minute(method)
        assert minutes[0] <= FIRST_MINUTE, (method, minutes)
        assert max(minutes[1:], default=0) <= LATER_A_MINUTE, (method, minutes)
    if not refusing.refused:  # all of it counts as done: each is asked for once
        assert len(set(refusing.asked)) == len(refusing.asked)
    assert refusing.sent < MINUTES.get(status, 10) * 600, "something else was sent without end"


async def _story(story: str, status: int | None) -> Refusing:
    call, before, after = STORIES[story]
    world, made = World(job_seconds=20.0), list[Refusing]()

    def wrap(api: port.Api) -> port.Api:
        made.append(Refusing(api, call, status))
        return made[-1]

    async with runtime(world, wrap=wrap):
        await asyncio.sleep(5)
        before(world)
        await asyncio.sleep(90)
        made[0].is_on = True
        after(world)
        await asyncio.sleep(60 * MINUTES.get(status, 10))
        made[0].is_on = False
    return made[0]


@pytest.mark.accept("W20", part="what was refused meanwhile")
@pytest.mark.parametrize("story", [story for story, (_, _, after) in STORIES.items() if after is deleted])
def test_a_pool_that_could_not_be_cleaned_up_is_once_nothing_is_refused_any_more(story: str) -> None:
    call, before, after = STORIES[story]

    async def play() -> tuple[bool, list[Body]]:
        world, made = World(job_seconds=20.0), list[Refusing]()

        def wrap(api: port.Api) -> port.Api:
            made.append(Refusing(api, call, 403))
            return made[-1]

        async with runtime(world, wrap=wrap):
            before(world)
            await asyncio.sleep(90)
            made[0].is_on = True
            after(world)
            await asyncio.sleep(600)
            assert world.has_pool()
            assert "FailedCleanup" in world.events()
            made[0].is_on = False
            await asyncio.sleep(120)
        return world.has_pool(), world.pods()

    assert virtual_time.run(play()) == (False, [])


@pytest.mark.accept("W20", part="a pool that somebody else holds")
def test_a_deleted_pool_that_somebody_else_holds_costs_nothing() -> None:
    async def play() -> int:
        world, made = World(), list[Refusing]()

        def wrap(api: port.Api) -> port.Api:
            made.append(Refusing(api, "nothing", 403))
            return made[-1]

        async with runtime(world, wrap=wrap):
            world.add()
            world.patch(POOLS, "pool", {"metadata": {"finalizers": ["example.com/theirs"]}})
            world.line.length = 3
            await asyncio.sleep(30)
            world.delete(POOLS, "pool")
            await asyncio.sleep(30)
            assert world.pods() == []
            assert world.pool()["metadata"]["finalizers"] == ["example.com/theirs"]
            assert keys.FINALIZER not in world.pool()["metadata"]["finalizers"]
            before = made[0].sent
            await asyncio.sleep(3600)
            return made[0].sent - before

    assert virtual_time.run(play()) < 3600 / 4 + 400  # the Lease is renewed, the drain object looked at
