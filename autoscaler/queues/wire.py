"""HTTP over a bounded set of connections. It knows no pool, follows nothing and decides about no number.

Bounded are: the body, connections in all and per host. So a thousand pools share them, and a server that is slow,
endless or hostile costs the others nothing. The time in all is bounded by who sends.
"""

import asyncio
import contextlib
import hashlib
import socket
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
import yarl
from aiohttp.abc import AbstractResolver

from autoscaler.queues import endpoints, port, secrets

TIMEOUT_SECONDS: Final = 5.0
BODY_BYTES: Final = 64 * 1024
CONNECTIONS: Final = 512
CONNECTIONS_PER_HOST: Final = 32
_KEEP_SECONDS: Final = 30.0
"""Longer than the usual interval, so that a poll finds the connection of the one before."""
_CONTEXTS: Final = 256
_HEADERS: Final = {"Accept": "application/json, text/plain, */*", "Accept-Encoding": "identity", "User-Agent": "sluice"}
_MOVED: Final = frozenset({301, 302, 303, 307, 308})
AddressInfo = tuple[int, int, int, str, tuple[Any, ...]]
MakeSocket = Callable[[AddressInfo], socket.socket]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What a server answered, with a body within the limit."""

    status: int
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Redirect:
    """Where a server sends us instead of an answer."""

    location: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a server may cost."""

    timeout_seconds: float = TIMEOUT_SECONDS
    body_bytes: int = BODY_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to send."""

    url: yarl.URL
    headers: Mapping[str, str]
    method: str = "GET"
    body: bytes | None = None

    @property
    def shown(self) -> str:
        """How messages call it."""
        return f"{self.method} {endpoints.shown(self.url)}"


class Wire:
    """One set of connections. Belongs to the event loop it was made in; close it when done."""

    def __init__(
        self,
        *,
        resolver: AbstractResolver,
        limits: Limits | None = None,
        make_socket: MakeSocket | None = None,
        proxied: bool = False,
    ) -> None:
        """Make it; names are looked up anew for each connection, and proxies of the environment are used if told."""
        self._limits = limits or Limits()
        connector = aiohttp.TCPConnector(
            limit=CONNECTIONS,
            limit_per_host=CONNECTIONS_PER_HOST,
            keepalive_timeout=_KEEP_SECONDS,
            resolver=resolver,
            use_dns_cache=False,
            happy_eyeballs_delay=None,
            socket_factory=make_socket,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=proxied,
            timeout=aiohttp.ClientTimeout(total=None),
        )

    async def send(self, request: Request, context: ssl.SSLContext) -> Page | Redirect:
        """Return the answer, whatever its status; raise QueueError if there is none or it is too long."""
        headers = {**_HEADERS, **request.headers}
        async with (
            _translated(request),
            self._session.request(
                request.method, request.url, headers=headers, data=request.body, ssl=context, allow_redirects=False
            ) as response,
        ):
            if response.status in _MOVED:
                response.close()
                return Redirect(location=response.headers.get("Location", ""))
            return Page(status=response.status, body=await self._body(response, request))

    async def aclose(self) -> None:
        """Close all connections; requests under way end."""
        await self._session.close()

    async def _body(self, response: aiohttp.ClientResponse, request: Request) -> bytes:
        body = bytearray()
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > self._limits.body_bytes:
                response.close()  # or the rest would be read before the connection is used again
                raise port.QueueError(
                    port.Reason.BODY_TOO_LARGE,
                    f"{request.shown} gave more than {self._limits.body_bytes} bytes: "
                    "name a page that holds little more than the number",
                )
        return bytes(body)


class Contexts:
    """How TLS servers are checked, by the certificates that are trusted. Reading certificates takes a thread's time."""

    def __init__(self) -> None:
        self._known: dict[bytes, ssl.SSLContext | port.QueueError] = {}
        self._reading = asyncio.Lock()

    async def get(self, authority: bytes | None = None) -> ssl.SSLContext:
        """Return the context; raise QueueError, each time anew but without another look, if there is none."""
        key = b"" if authority is None else hashlib.sha256(authority).digest()
        async with self._reading:  # one for all who ask: connections are shared only under the same context
            if key not in self._known:
                self._known[key] = await asyncio.to_thread(_trusting, authority)
                if len(self._known) > _CONTEXTS:
                    self._known.pop(next(iter(self._known)))
            found = self._known[key]
        if isinstance(found, port.QueueError):
            raise port.QueueError(found.reason, found.message)
        return found


@contextlib.asynccontextmanager
async def _translated(request: Request) -> AsyncGenerator[None, None]:
    """Turn the library's errors into ours. Their texts may quote the server, so only their kinds are told."""
    asked, url = request.shown, request.url
    try:
        yield
    except (aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError) as error:
        raise port.QueueError(
            port.Reason.UNTRUSTED,
            f"{asked} was not sent: the server's certificate does not stand the check. It must name {url.host}; "
            f"put the authority's certificate into key {port.AUTHORITY} of the Secret if it is a private one",
        ) from error
    except aiohttp.InvalidURL as error:
        raise endpoints.refused(endpoints.shown(url), "it is not a proper URL") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        if isinstance(error, TimeoutError):
            raise
        raise port.QueueError(
            port.Reason.UNREACHABLE,
            f"{asked} got no whole answer ({_kind(error)}): see whether the server is there and speaks HTTP",
        ) from error


def _kind(error: Exception) -> str:
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    text = cause.strerror if isinstance(cause, OSError) else None
    return text or type(error).__name__


def _trusting(authority: bytes | None) -> ssl.SSLContext | port.QueueError:
    if authority is None:
        return ssl.create_default_context()
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=authority.decode("ascii"))
    except (ssl.SSLError, ValueError):
        return secrets.bad(port.AUTHORITY, "holds no certificates in PEM form")
    return context
