"""What names mean: looked up in threads of their own, judged before anything is connected to.

It decides nothing: access and endpoints do.
"""

import asyncio
import functools
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final
from weakref import WeakValueDictionary

from aiohttp.abc import AbstractResolver, ResolveResult

from autoscaler.queues import access, endpoints

RESOLVER_CONFIG: Final = Path("/etc/resolv.conf")
_LOOKUPS: Final = 32
_LOOKUPS_PER_NAMESPACE: Final = 8
"""So many names of one namespace are looked up at once: names that nobody answers for must not hold all threads."""
_FAILED_LOOKUP_SECONDS: Final = 10.0
"""A name that could not be looked up is not looked up again for so long."""
_API_LOOKUP_SECONDS: Final = 60.0
_API_RETRY_SECONDS: Final = 5.0
_API_PATIENCE_SECONDS: Final = 2.0
ASKED: Final[ContextVar[access.Target]] = ContextVar("asked")
"""Whom the request under way is for: a connection is made within it."""
Check = Callable[[access.Target, str, int], None]
"""Raises QueueError for an address and port that a target must not have."""


_Key = tuple[str, int, int]
"""Host, port and family."""


class Resolver(AbstractResolver):
    """Looks names up in threads of its own: names that nobody answers for must not hold up the rest of the process."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(max_workers=_LOOKUPS, thread_name_prefix="queue-names")
        self._under_way: dict[_Key, asyncio.Future[list[Any]]] = {}
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        """By namespace, for as long as somebody waits for a turn or has one."""
        self._failed: dict[str, tuple[float, OSError]] = {}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return a name's addresses, with its canonical name as their host's.

        A name that nobody answers for holds one thread, however often it is asked for.
        """
        now = asyncio.get_running_loop().time()
        until, error = self._failed.get(host, (now, OSError()))
        if now < until:
            raise error
        found = await asyncio.shield(await self._look_up((host, port, family)))
        canonical = next((name for *_, name, _ in found if name), host)
        return [
            ResolveResult(
                hostname=canonical,
                host=str(target[0]),
                port=port,
                family=kind,
                proto=protocol,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for kind, _, protocol, _, target in found
        ]

    async def _look_up(self, key: _Key) -> "asyncio.Future[list[Any]]":
        """Return the look-up of a name that is under way, or begin one when it is our turn."""
        if key not in self._under_way:
            turn = self._turn()
            await turn.acquire()
            if key in self._under_way:
                turn.release()
            else:
                self._begin(key, turn)
        return self._under_way[key]

    def _turn(self) -> asyncio.Semaphore:
        """Return the turns of the namespace that asks."""
        target = ASKED.get(None)
        namespace = target.namespace if target else ""
        turn = self._turns.get(namespace) or asyncio.Semaphore(_LOOKUPS_PER_NAMESPACE)
        self._turns[namespace] = turn
        return turn

    def _begin(self, key: _Key, turn: asyncio.Semaphore) -> None:
        host, port, family = key
        ask = functools.partial(
            socket.getaddrinfo, host, port, type=socket.SOCK_STREAM, family=family, flags=socket.AI_CANONNAME
        )
        asked = asyncio.get_running_loop().run_in_executor(self._threads, ask)
        self._under_way[key] = asked
        asked.add_done_callback(lambda done: self._note(key, done, turn))

    def _note(self, key: _Key, done: "asyncio.Future[list[Any]]", turn: asyncio.Semaphore) -> None:
        turn.release()  # the thread is free again, whether or not anybody still waits for the answer
        del self._under_way[key]
        error = None if done.cancelled() else done.exception()
        if isinstance(error, OSError):
            now = asyncio.get_running_loop().time()
            self._failed = {host: each for host, each in self._failed.items() if each[0] > now}
            self._failed[key[0]] = (now + _FAILED_LOOKUP_SECONDS, error)

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


class Guard(AbstractResolver):
    """Looks names up for connections: as the pool means them, and only if it may ask all that they mean."""

    def __init__(self, names: AbstractResolver, check: Check) -> None:
        self._names = names
        self._check = check

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return every address of a host; raise QueueError if the pool may not ask one of them."""
        target = ASKED.get()
        found = await self._names.resolve(target.name, port, family)
        for each in found:
            access.check_canonical(target, each["hostname"])
            self._check(target, each["host"], port)
        return [ResolveResult({**each, "hostname": host}) for each in found]

    async def close(self) -> None:
        """Close nothing: what looks names up is shared."""


class ApiAddresses:
    """What the API server's names resolve to, looked up now and then; what cannot be looked up keeps its last ones."""

    def __init__(self, policy: endpoints.Policy, resolver: AbstractResolver) -> None:
        hosts = [server.host for server in policy.api_servers if endpoints.address(server.host) is None]
        self._by_name: dict[str, frozenset[access.Address]] = dict.fromkeys(hosts, frozenset())
        self._resolver = resolver
        self._next = float("-inf")
        self._looking = asyncio.Lock()

    @property
    def known(self) -> frozenset[access.Address]:
        """All addresses, as they were last told."""
        return frozenset[access.Address]().union(*self._by_name.values())

    async def refresh(self) -> None:
        """Look them up if that was long ago; nobody connects before it was tried."""
        if not self._by_name:
            return
        async with self._looking:
            now = asyncio.get_running_loop().time()
            if now < self._next:
                return
            told = [await self._look_up(name) for name in self._by_name]
            self._next = now + (_API_LOOKUP_SECONDS if all(told) else _API_RETRY_SECONDS)

    async def _look_up(self, name: str) -> bool:
        """Tell whether there was an answer, in time for the queue that waits for it to be asked."""
        try:
            async with asyncio.timeout(_API_PATIENCE_SECONDS):
                results = await self._resolver.resolve(name)
        except OSError:  # TimeoutError is one
            return False
        found = {endpoints.unwrapped(each) for result in results if (each := endpoints.address(result["host"]))}
        self._by_name[name] = frozenset(found) or self._by_name[name]
        return bool(found)


def cluster_domain(resolver_config: Path = RESOLVER_CONFIG) -> str:
    """Return the cluster's domain as a pod knows it: its search list has the domain of all Services.

    Outside of a cluster, and where that cannot be read, it is what most clusters have.
    """
    try:
        lines = [line.split() for line in resolver_config.read_text().splitlines()]
    except (OSError, UnicodeDecodeError):
        return access.CLUSTER_DOMAIN
    searched = [word for words in lines if words[:1] == ["search"] for word in words[1:]]
    domains = [word.removeprefix("svc.").rstrip(".") for word in searched if word.startswith("svc.")]
    return next(iter(domains), access.CLUSTER_DOMAIN)
