"""An open watch, as a contract test reads it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

from autoscaler.kube import kinds
from autoscaler.kube.kinds import ResourceType
from tests.contract.worlds import Body, World

Event = tuple[str, Body]


class Watching:
    """An open watch whose events can be waited for."""

    def __init__(self, world: World, path: str, query: dict[str, str]) -> None:
        self._stream = world.api.watch(path, query)
        self._ready: list[Event] = []

    async def next(self, within_seconds: float = 10.0) -> Event:
        while not self._ready:
            async with asyncio.timeout(within_seconds):
                batch = await anext(self._stream)
            for raw in batch:
                event = json.loads(raw)
                self._ready.append((event["type"], event["object"]))
        return self._ready.pop(0)

    async def take(self, count: int) -> list[tuple[str, str]]:
        """Return the types and names of the next events."""
        taken = [await self.next() for _ in range(count)]
        return [(kind, body["metadata"]["name"]) for kind, body in taken]

    async def until_end(self) -> list[str]:
        """Return the types of all that comes before the server ends the watch."""
        seen: list[str] = []
        with contextlib.suppress(StopAsyncIteration):
            while True:
                seen.append((await self.next(20.0))[0])
        return seen

    async def aclose(self) -> None:
        await self._stream.aclose()


@contextlib.asynccontextmanager
async def watching(world: World, resource: ResourceType = kinds.CONFIG_MAPS, **query: str) -> AsyncIterator[Watching]:
    watch = Watching(world, world.collection(resource), {"timeoutSeconds": "60", **query})
    try:
        yield watch
    finally:
        await watch.aclose()


async def version(world: World, resource: ResourceType = kinds.CONFIG_MAPS) -> str:
    found: str = (await world.listed(resource))["metadata"]["resourceVersion"]
    return found
