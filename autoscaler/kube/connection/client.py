"""The real adapter of the port: HTTPS to an API server. It adds credentials and time limits and decides nothing."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Final, Self

import aiohttp

from autoscaler.kube import port
from autoscaler.kube.connection import credentials

CONNECT_SECONDS: Final = 5.0
CONNECTIONS: Final = 32
"""Requests under way at once; watches have connections of their own."""
_UNAUTHORIZED: Final = 401
# Gzip costs the API server more than the network between it and us.
_HEADERS: Final = {"Accept": port.JSON, "Accept-Encoding": "identity", "User-Agent": "sluice"}


class Client:
    """An API server over HTTPS. Belongs to the event loop it was made in; close it when done."""

    def __init__(self, known: credentials.Credentials, *, connections: int = CONNECTIONS) -> None:
        self._credentials = known
        self._requests = _session(known, connections)
        self._watches = _session(known, 0)

    @classmethod
    async def connect(cls, origin: credentials.Origin, *, connections: int = CONNECTIONS) -> Self:
        """Read the credentials and return a client; nothing is sent yet."""
        return cls(await credentials.Credentials.load(origin), connections=connections)

    @property
    def server(self) -> str:
        """Return the API server's URL."""
        return self._credentials.server

    async def send(self, request: port.Request) -> port.Response:
        """Send one request; a token that the server refuses is read again, once."""
        try:
            # The limit is for everything: whoever gave it may not act later.
            async with asyncio.timeout(request.timeout_seconds):
                response = await self._send_once(request)
                if response.status == _UNAUTHORIZED:
                    await self._credentials.refresh()
                    response = await self._send_once(request)
                return response
        except credentials.CredentialsError as error:
            raise port.UnreachableError(f"{request.method} {request.path} could not be sent: {error}") from error
        except TimeoutError as error:
            limit = f"{request.timeout_seconds:g} s"
            raise port.UnreachableError(f"{request.method} {request.path} got no answer within {limit}") from error

    async def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[Sequence[bytes], None]:
        """Yield a watch's events in batches, as they arrive."""
        unlimited = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
        url = f"{self._credentials.server}{path}"
        try:
            async with self._watches.get(
                url, params={**query, "watch": "true"}, headers=await self._headers(), timeout=unlimited
            ) as response:
                if not response.ok:
                    raise port.error_of(response.status, await response.read())
                yield ()
                async for lines in _lines(response.content):
                    yield lines
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise port.UnreachableError(f"the watch of {path} broke: {error!r}") from error

    async def aclose(self) -> None:
        """Close all connections; watches under way end."""
        await self._requests.close()
        await self._watches.close()

    async def _send_once(self, request: port.Request) -> port.Response:
        limit = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
        headers = await self._headers()
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        try:
            async with self._requests.request(
                request.method,
                f"{self._credentials.server}{request.path}",
                params=request.query,
                data=request.body,
                headers=headers,
                timeout=limit,
                allow_redirects=False,
            ) as response:
                return port.Response(
                    status=response.status,
                    body=await response.read(),
                    retry_after_seconds=_retry_after(response.headers.get("Retry-After")),
                )
        except (aiohttp.ClientError, OSError) as error:
            raise port.UnreachableError(f"{request.method} {request.path} got no answer: {error!r}") from error

    async def _headers(self) -> dict[str, str]:
        authorization = await self._credentials.header()
        return {**_HEADERS, "Authorization": authorization} if authorization else dict(_HEADERS)


def _session(known: credentials.Credentials, connections: int) -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(limit=connections, ssl=known.ssl_context or True, keepalive_timeout=60)
    return aiohttp.ClientSession(connector=connector, read_bufsize=2**20, auto_decompress=False, trust_env=False)


async def _lines(content: aiohttp.StreamReader) -> AsyncGenerator[Sequence[bytes], None]:
    """Cut a stream into lines; what arrives together is given together."""
    started: list[bytes] = []
    async for chunk in content.iter_any():
        head, newline, tail = chunk.rpartition(b"\n")
        if not newline:
            started.append(chunk)
            continue
        lines = [line for line in b"".join((*started, head)).split(b"\n") if line]
        started = [tail] if tail else []
        if lines:
            yield lines


def _retry_after(value: str | None) -> float | None:
    return float(value) if value is not None and value.isdigit() else None
