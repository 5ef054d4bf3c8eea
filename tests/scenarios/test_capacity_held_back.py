"""What a refusal delays, in virtual time: a write that is held back is sent as soon as it may be."""

import asyncio
import itertools
import re

import msgspec

from autoscaler.kube import kinds, port
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.capacity_world import runtime
from tests.scenarios.test_leaving import POOLS, Stack, _through


class Refusing:
    """An API server that refuses some requests for a while."""

    def __init__(self, api: port.Api, asked: str, *, refuses: bool) -> None:
        self._api, self._asked = api, asked
        self.refuses = refuses
        self.refused_at: list[float] = []
        self.watch = api.watch

    async def send(self, request: port.Request) -> port.Response:
        if self.refuses and re.fullmatch(self._asked, f"{request.method} {request.path}"):
            self.refused_at.append(asyncio.get_running_loop().time())
            return port.Response(status=403, body=msgspec.json.encode({"reason": "Forbidden"}))
        return await self._api.send(request)


@simulated
async def test_a_status_that_was_refused_for_a_moment_is_written_although_nothing_else_happens() -> None:
    world = Stack()
    world.add_pool(zones=("a",))
    api = Refusing(world.cluster.client("a"), r"PATCH .*/instancepools/[^/]+/status", refuses=True)
    async with runtime(_through(world, api)):
        await asyncio.sleep(20)
        assert "status" not in (world.pool() or {})
        pauses = [later - at for at, later in itertools.pairwise(api.refused_at[1:])]
        assert min(pauses) >= 1  # many that are refused make no more cycles than one
        api.refuses = False
        await asyncio.sleep(30)
        assert [each["type"] for each in (world.pool() or {})["status"]["conditions"]] == ["Ready"]


@simulated
async def test_a_node_whose_mark_was_refused_for_a_moment_is_marked_soon_after() -> None:
    world = Stack()
    world.add_pool(zones=("a",))
    api = Refusing(world.cluster.client("a"), r"PATCH .*/nodes/[^/]+", refuses=False)
    async with runtime(_through(world, api)):
        await asyncio.sleep(5)
        world.add_pod("works", owners=[world.owner(kinds.JOBS)])
        await asyncio.sleep(100)
        api.refuses = True
        world.delete(POOLS, "workers")
        await asyncio.sleep(8)
        api.refuses = False
        assert world.marks() == []
        await asyncio.sleep(16)
        assert world.marks() == ["Emptied"]
