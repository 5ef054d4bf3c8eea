"""GET for all adapters that speak HTTP: one session, bounded in every direction. It decides about no number.

Bounded are: the time in all, the body, redirects, connections in all and per host, and threads that look up names. So
a thousand pools share a session, and a server that is slow, endless or hostile costs the others nothing.
"""

import asyncio
import contextlib
import functools
import hashlib
import socket
import ssl
from collections.abc import AsyncGenerator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, Protocol

import aiohttp
import yarl
from aiohttp.abc import AbstractResolver, ResolveResult

from autoscaler.queues import endpoints, port, secrets

TIMEOUT_SECONDS: Final = 5.0
BODY_BYTES: Final = 64 * 1024
REDIRECTS: Final = 3
CONNECTIONS: Final = 512
CONNECTIONS_PER_HOST: Final = 32
_KEEP_SECONDS: Final = 30.0
"""Longer than the usual interval, so that a poll finds the connection of the one before."""
_LOOKUPS: Final = 32
_FAILED_LOOKUP_SECONDS: Final = 10.0
"""A name that could not be looked up is not looked up again for so long."""
_CONTEXTS: Final = 256
_API_LOOKUP_SECONDS: Final = 60.0
_API_RETRY_SECONDS: Final = 5.0
_HEADERS: Final = {"Accept": "application/json, text/plain, */*", "Accept-Encoding": "identity", "User-Agent": "sluice"}
_MOVED: Final = frozenset({301, 302, 303, 307, 308})
AddressInfo = tuple[int, int, int, str, tuple[Any, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What a server answered: never a redirect, and a body within the limit."""

    status: int
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a server may cost."""

    timeout_seconds: float = TIMEOUT_SECONDS
    body_bytes: int = BODY_BYTES


class Getter(Protocol):
    """Asks web servers."""

    async def get(self, url: yarl.URL, headers: Mapping[str, str], *, authority: bytes | None = None) -> Page:
        """Return the answer, whatever its status; `authority` holds the certificates to trust instead of the system's.

        Raises QueueError if there is none in time, or it is one that must not be had.
        """
        ...

    async def aclose(self) -> None:
        """Close all connections; requests under way end."""
        ...


class Web:
    """The real getter. Belongs to the event loop it was made in; close it when done."""

    def __init__(
        self, policy: endpoints.Policy, *, limits: Limits | None = None, resolver: AbstractResolver | None = None
    ) -> None:
        self._policy = policy
        self._limits = limits or Limits()
        self._resolver = resolver or Resolver()
        self._api = _ApiAddresses(policy, self._resolver)
        self._contexts = _Contexts()
        connector = aiohttp.TCPConnector(
            limit=CONNECTIONS,
            limit_per_host=CONNECTIONS_PER_HOST,
            keepalive_timeout=_KEEP_SECONDS,
            resolver=self._resolver,
            ttl_dns_cache=10,
            happy_eyeballs_delay=None,
            socket_factory=self._socket,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            timeout=aiohttp.ClientTimeout(total=None),
        )

    async def get(self, url: yarl.URL, headers: Mapping[str, str], *, authority: bytes | None = None) -> Page:
        try:
            async with asyncio.timeout(self._limits.timeout_seconds):
                await self._api.refresh()
                return await self._follow(url, {**_HEADERS, **headers}, await self._contexts.get(authority))
        except TimeoutError as error:
            raise port.QueueError(
                port.Reason.TIMEOUT,
                f"GET {endpoints.shown(url)} got no whole answer within {self._limits.timeout_seconds:g} s: "
                "see whether the server is there and not overloaded",
            ) from error

    async def aclose(self) -> None:
        await self._session.close()
        await self._resolver.close()

    async def _follow(self, url: yarl.URL, headers: Mapping[str, str], context: ssl.SSLContext) -> Page:
        started = url
        for _ in range(REDIRECTS + 1):
            endpoints.check_host(url, self._policy)
            answer = await self._get_once(url, headers, context)
            if isinstance(answer, Page):
                return answer
            url = endpoints.redirected(url, answer)
        raise port.QueueError(
            port.Reason.REDIRECTED,
            f"GET {endpoints.shown(started)} was redirected more than {REDIRECTS} times: name the final URL",
        )

    async def _get_once(self, url: yarl.URL, headers: Mapping[str, str], context: ssl.SSLContext) -> Page | str:
        """Return a page, or the location to go to instead."""
        async with (
            _translated(url),
            self._session.get(url, headers=headers, ssl=context, allow_redirects=False) as response,
        ):
            if response.status in _MOVED:
                response.close()
                return response.headers.get("Location", "")
            return Page(status=response.status, body=await self._body(response, url))

    async def _body(self, response: aiohttp.ClientResponse, url: yarl.URL) -> bytes:
        body = bytearray()
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > self._limits.body_bytes:
                response.close()  # or the rest would be read before the connection is used again
                raise port.QueueError(
                    port.Reason.BODY_TOO_LARGE,
                    f"GET {endpoints.shown(url)} gave more than {self._limits.body_bytes} bytes: "
                    "name a page that holds little more than the number",
                )
        return bytes(body)

    def _socket(self, info: AddressInfo) -> socket.socket:
        """Make the socket of a connection: here, and nowhere earlier, is it known where it goes."""
        family, kind, protocol, _, target = info
        endpoints.check_address(str(target[0]), int(target[1]), self._policy, api_addresses=self._api.known)
        return socket.socket(family=family, type=kind, proto=protocol)


class Resolver(AbstractResolver):
    """Looks names up in threads of its own: names that nobody answers for must not hold up the rest of the process."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(max_workers=_LOOKUPS, thread_name_prefix="queue-names")
        self._under_way: dict[tuple[str, int, int], asyncio.Future[list[Any]]] = {}
        self._failed: dict[str, tuple[float, OSError]] = {}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Look a name up; one that nobody answers for holds one thread, however often it is asked for."""
        now = asyncio.get_running_loop().time()
        until, error = self._failed.get(host, (now, OSError()))
        if now < until:
            raise error
        found = await asyncio.shield(self._look_up(host, port, family))
        return [
            ResolveResult(
                hostname=host,
                host=str(target[0]),
                port=port,
                family=kind,
                proto=protocol,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for kind, _, protocol, _, target in found
        ]

    def _look_up(self, host: str, port: int, family: int) -> "asyncio.Future[list[Any]]":
        key = (host, port, family)
        if key not in self._under_way:
            ask = functools.partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM, family=family)
            asked = asyncio.get_running_loop().run_in_executor(self._threads, ask)
            self._under_way[key] = asked
            asked.add_done_callback(lambda done: self._note(key, done))
        return self._under_way[key]

    def _note(self, key: tuple[str, int, int], done: "asyncio.Future[list[Any]]") -> None:
        del self._under_way[key]
        error = None if done.cancelled() else done.exception()
        if isinstance(error, OSError):
            now = asyncio.get_running_loop().time()
            self._failed = {host: each for host, each in self._failed.items() if each[0] > now}
            self._failed[key[0]] = (now + _FAILED_LOOKUP_SECONDS, error)

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


class _Contexts:
    """How TLS servers are checked, by the certificates that are trusted. Reading certificates takes a thread's time."""

    def __init__(self) -> None:
        self._known: dict[bytes, ssl.SSLContext | port.QueueError] = {}
        self._reading = asyncio.Lock()

    async def get(self, authority: bytes | None) -> ssl.SSLContext:
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


class _ApiAddresses:
    """What the API server's names resolve to, looked up now and then."""

    def __init__(self, policy: endpoints.Policy, resolver: AbstractResolver) -> None:
        self._names = [server.host for server in policy.api_servers if endpoints.address(server.host) is None]
        self._resolver = resolver
        self._next = float("-inf")
        self._looking = asyncio.Lock()
        self.known: frozenset[endpoints.Address] = frozenset()

    async def refresh(self) -> None:
        """Look them up if that was long ago; nobody connects before it is known."""
        if not self._names:
            return
        async with self._looking:
            now = asyncio.get_running_loop().time()
            if now < self._next:
                return
            found: set[endpoints.Address] = set()
            for name in self._names:
                with contextlib.suppress(OSError):  # what it meant before is still refused
                    found.update(await self._look_up(name))
            self.known = frozenset(found) or self.known
            self._next = now + (_API_LOOKUP_SECONDS if found else _API_RETRY_SECONDS)

    async def _look_up(self, name: str) -> set[endpoints.Address]:
        results = await self._resolver.resolve(name)
        return {endpoints.unwrapped(each) for result in results if (each := endpoints.address(result["host"]))}


@contextlib.asynccontextmanager
async def _translated(url: yarl.URL) -> AsyncGenerator[None, None]:
    """Turn the library's errors into ours. Their texts may quote the server, so only their kinds are told."""
    asked = f"GET {endpoints.shown(url)}"
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
