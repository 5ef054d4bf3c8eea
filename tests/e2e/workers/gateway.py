"""A gateway between the runtime and the API server that understands what passes: it can show the past and can strike.

The relay of tests/e2e/wires.py sees bytes under TLS only. This one takes the requests themselves.
"""

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import aiohttp
import yaml
from aiohttp import web

from tools.local import api
from tools.local.plane import Plane

_READS: Final = frozenset({"GET", "HEAD"})
_ANSWERED: Final = ("Content-Type", "Retry-After")
CLOSING_SECONDS = 0.25


class Moment(StrEnum):
    """When a write is spoken of."""

    BEFORE = "before"
    """The API server has not heard of it."""
    AFTER = "after"
    """The API server has done it, and whoever asked does not know yet."""


Strike = Callable[[str, str, Moment], bool]
"""Given a write's method and path, tell whether its connection is to be cut at this moment."""


class Gateway:
    """Hands requests on to a plane's API server, as its administrator."""

    def __init__(self, plane: Plane, strike: Strike | None = None) -> None:
        self.port = 0
        self._server = plane.api.access.server
        self._tls: ssl.SSLContext = api.tls_context(plane.api.access)
        self._strike = strike or (lambda *_: False)
        self._listed: dict[str, web.Response] = {}
        self._is_frozen = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._stop = asyncio.Event()
        self._up = threading.Event()
        self._thread = threading.Thread(target=self._main, name="gateway", daemon=True)

    def freeze_pods(self) -> None:
        """From now on show pods as they were when they were last listed, and no change of theirs."""
        self._is_frozen = True
        self._tell(self._flowing.clear)

    def thaw_pods(self) -> None:
        """Show pods as they are, and all changes that were held back."""
        self._is_frozen = False
        self._tell(self._flowing.set)

    def kubeconfig(self, directory: Path) -> Path:
        """Write a kubeconfig that leads here."""
        named = "gateway"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": named,
            "clusters": [{"name": named, "cluster": {"server": f"http://127.0.0.1:{self.port}"}}],
            "contexts": [{"name": named, "context": {"cluster": named, "user": named}}],
            "users": [{"name": named, "user": {}}],
        }
        path = directory / f"kubeconfig-{self.port}"
        path.write_text(yaml.safe_dump(config))
        return path

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._up.wait(10), "the gateway did not listen within 10 s"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.thaw_pods()
        self._tell(self._stop.set)
        self._thread.join(20)

    def _tell(self, what: Callable[[], None]) -> None:
        assert self._loop is not None, "the gateway is not open yet"
        self._loop.call_soon_threadsafe(what)

    def _main(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        connector = aiohttp.TCPConnector(ssl=self._tls, limit=0)
        async with aiohttp.ClientSession(self._server, connector=connector) as session:

            async def handle(request: web.Request) -> web.StreamResponse:
                return await self._handle(session, request)

            application = web.Application(client_max_size=2**24)
            application.router.add_route("*", "/{path:.*}", handle)
            runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self.port = runner.addresses[0][1]
            self._up.set()
            await self._stop.wait()
            await runner.cleanup()
        await asyncio.sleep(CLOSING_SECONDS)  # the session does not wait for its TLS connections to be closed

    async def _handle(self, session: aiohttp.ClientSession, request: web.Request) -> web.StreamResponse:
        is_pods = request.path.endswith("/pods")
        if request.query.get("watch") == "true":
            return await self._watch(session, request, is_pods=is_pods)
        if is_pods and request.method in _READS and "labelSelector" not in request.query:
            return await self._list(session, request)
        self._strike_if(request, Moment.BEFORE)
        answer = await self._forward(session, request)
        self._strike_if(request, Moment.AFTER)
        return answer

    def _strike_if(self, request: web.Request, moment: Moment) -> None:
        if request.method not in _READS and self._strike(request.method, request.path, moment):
            if request.transport is not None:
                request.transport.abort()
            raise asyncio.CancelledError

    async def _list(self, session: aiohttp.ClientSession, request: web.Request) -> web.Response:
        known = self._listed.get(request.path)
        if not self._is_frozen or known is None:
            known = self._listed[request.path] = await self._forward(session, request)
        return web.Response(status=known.status, body=known.body, headers=known.headers)

    async def _forward(self, session: aiohttp.ClientSession, request: web.Request) -> web.Response:
        async with session.request(
            request.method,
            request.rel_url,
            data=await request.read() or None,
            headers=_passed_on(request),
            allow_redirects=False,
        ) as answer:
            headers = {name: answer.headers[name] for name in _ANSWERED if name in answer.headers}
            return web.Response(status=answer.status, body=await answer.read(), headers=headers)

    async def _watch(
        self, session: aiohttp.ClientSession, request: web.Request, *, is_pods: bool
    ) -> web.StreamResponse:
        unlimited = aiohttp.ClientTimeout(total=None)
        async with session.get(request.rel_url, headers=_passed_on(request), timeout=unlimited) as answer:
            out = web.StreamResponse(status=answer.status)
            await out.prepare(request)
            with contextlib.suppress(ConnectionError):  # whoever watched is gone
                async for chunk in answer.content.iter_any():
                    if is_pods:
                        await self._flowing.wait()
                    await out.write(chunk)
            return out


def _passed_on(request: web.Request) -> dict[str, str]:
    return {name: request.headers[name] for name in ("Accept", "Content-Type") if name in request.headers}
