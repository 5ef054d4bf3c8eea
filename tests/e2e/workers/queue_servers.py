"""Queues that a test fills and pools ask over real HTTP, served from a thread of their own."""

import asyncio
import threading
from types import TracebackType
from typing import Self

from tests.e2e.queues import servers


class Queues:
    """One server, with a queue at each path. A queue that was never filled is not there."""

    def __init__(self) -> None:
        self._server: servers.Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._up = threading.Event()
        self._thread = threading.Thread(target=self._main, name="queues", daemon=True)

    @property
    def server(self) -> servers.Server:
        assert self._server is not None, "the queues are not served yet"
        return self._server

    def url(self, name: str) -> str:
        return self.server.url(f"/{name}")

    def fill(self, name: str, length: int) -> str:
        """Let a queue have so many jobs; return its URL."""
        return self.answer(name, servers.page(str(length).encode()))

    def answer(self, name: str, handler: servers.Handler) -> str:
        """Let a queue answer however a handler does; return its URL."""
        self.server.handlers[f"/{name}"] = handler
        return self.url(name)

    def asked(self, name: str) -> list[servers.Headers]:
        """Return the headers of each question that a queue was asked."""
        return [headers for path, headers in list(self.server.requests) if path == f"/{name}"]

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._up.wait(10), "the queues were not served within 10 s"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def _main(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with servers.running() as self._server:
            self._up.set()
            await self._stop.wait()
