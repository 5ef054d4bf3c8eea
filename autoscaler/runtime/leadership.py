"""Hold the Leases of this process, in a thread of its own, so that a busy loop cannot lose them.

In a simulation they are held in the one loop there is.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import structlog

from autoscaler import clock
from autoscaler.kube import client, credentials, election, port

log = structlog.get_logger()
CONNECTIONS: Final = 4
JOIN_SECONDS: Final = 10.0
MakeElector = Callable[[port.Api, str], election.Elector]


class Leadership(Protocol):
    """The Leases of this process."""

    async def start(self, names: Sequence[str]) -> None:
        """Begin to try for these Leases."""
        ...

    def remaining(self, name: str) -> float:
        """Return for how many seconds we may act under a Lease."""
        ...

    def holder(self, name: str) -> str | None:
        """Return who held a Lease when it was last seen."""
        ...

    async def stop(self) -> None:
        """Release the Leases and end."""
        ...


class InLoop:
    """Leadership in the caller's own loop."""

    def __init__(self, api: port.Api, make: MakeElector) -> None:
        self._api = api
        self._make = make
        self._electors: dict[str, election.Elector] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, names: Sequence[str]) -> None:
        self._electors = {name: self._make(self._api, name) for name in names}
        self._tasks = [asyncio.create_task(elector.run()) for elector in self._electors.values()]

    def remaining(self, name: str) -> float:
        return self._electors[name].remaining() if name in self._electors else 0.0

    def holder(self, name: str) -> str | None:
        return self._electors[name].holder if name in self._electors else None

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for elector in self._electors.values():
            await elector.release()


class InThread:
    """Leadership in a thread with its own loop and its own connections."""

    def __init__(self, origin: credentials.Origin, make: MakeElector) -> None:
        self._origin = origin
        self._make = make
        self._inner: InLoop | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread: threading.Thread | None = None

    async def start(self, names: Sequence[str]) -> None:
        started = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._run(names, started)), name="leadership", daemon=True
        )
        self._thread.start()
        await asyncio.to_thread(started.wait)

    def remaining(self, name: str) -> float:
        return self._inner.remaining(name) if self._inner else 0.0

    def holder(self, name: str) -> str | None:
        return self._inner.holder(name) if self._inner else None

    async def stop(self) -> None:
        if self._loop is not None and self._stop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
            await asyncio.to_thread(self._thread.join, JOIN_SECONDS)

    async def _run(self, names: Sequence[str], started: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        try:
            connected = await client.Client.connect(self._origin, connections=CONNECTIONS)
        finally:
            started.set()
        async with contextlib.aclosing(connected):
            self._inner = InLoop(connected, self._make)
            await self._inner.start(names)
            await self._stop.wait()
            await self._inner.stop()


def elector_maker(time: clock.Clock, *, namespace: str, identity: str, terms: election.Terms) -> MakeElector:
    """Return how this process makes its electors."""

    def make(api: port.Api, name: str) -> election.Elector:
        return election.Elector(api, time, namespace=namespace, name=name, identity=identity, terms=terms)

    return make
