"""GET for all adapters that speak HTTP to what users name: whom they may ask, within bounded time.

Whom a pool may ask is checked in three places, each of which knows what the others cannot. Before a request: the host's
name, and an address in its place. When a name is looked up: every address it means. When a socket is made: the one
address that is connected to.
"""

import asyncio
import socket
import ssl
from collections.abc import Mapping
from typing import Final, Protocol

import yarl
from aiohttp.abc import AbstractResolver

from autoscaler.queues import access, endpoints, lookups, port, wire

REDIRECTS: Final = 3


class Getter(Protocol):
    """Asks web servers."""

    async def get(
        self, url: yarl.URL, headers: Mapping[str, str], *, namespace: str, authority: bytes | None = None
    ) -> wire.Page:
        """Return the answer for a pool of a namespace, whatever its status, and never a redirect.

        `authority` holds the certificates to trust instead of the system's. Raises QueueError if there is no answer in
        time, or it is one that must not be had.
        """
        ...

    async def aclose(self) -> None:
        """Close all connections; requests under way end."""
        ...


class Web:
    """The real getter. Belongs to the event loop it was made in; close it when done."""

    def __init__(
        self, policy: endpoints.Policy, *, limits: wire.Limits | None = None, resolver: AbstractResolver | None = None
    ) -> None:
        self._policy = policy
        self._limits = limits or wire.Limits()
        self._resolver = resolver or lookups.Resolver()
        self._api_resolver = resolver or lookups.Resolver()  # of its own, which pools' names cannot hold up
        self._api = lookups.ApiAddresses(policy, self._api_resolver)
        self._contexts = wire.Contexts()
        self._wires: dict[str, wire.Wire] = {}

    async def get(
        self, url: yarl.URL, headers: Mapping[str, str], *, namespace: str, authority: bytes | None = None
    ) -> wire.Page:
        try:
            async with asyncio.timeout(self._limits.timeout_seconds):
                await self._api.refresh()
                request = wire.Request(url=url, headers=headers)
                return await self._follow(request, namespace, await self._contexts.get(authority))
        except TimeoutError as error:
            raise port.QueueError(
                port.Reason.TIMEOUT,
                f"GET {endpoints.shown(url)} got no whole answer within {self._limits.timeout_seconds:g} s: "
                "see whether the server is there and not overloaded",
            ) from error

    async def aclose(self) -> None:
        for each in self._wires.values():
            await each.aclose()
        await self._resolver.close()
        await self._api_resolver.close()

    async def _follow(self, started: wire.Request, namespace: str, context: ssl.SSLContext) -> wire.Page:
        request = started
        for _ in range(REDIRECTS + 1):
            lookups.ASKED.set(self._judge(request.url, namespace))
            answer = await self._wire(namespace).send(request, context)
            if isinstance(answer, wire.Page):
                return answer
            request = wire.Request(url=endpoints.redirected(request.url, answer.location), headers=request.headers)
        raise port.QueueError(
            port.Reason.REDIRECTED,
            f"{started.shown} was redirected more than {REDIRECTS} times: name the final URL",
        )

    def _judge(self, url: yarl.URL, namespace: str) -> access.Target:
        """Return whom to ask; here is the only look at a host that is an address."""
        endpoints.check_host(url, self._policy)
        target = access.judge(url.host or "", namespace, self._policy.queue_access)
        if target.is_literal:
            self._check(target, target.host, url.port or 0)
        return target

    def _wire(self, namespace: str) -> wire.Wire:
        """Return the connections of a namespace: its own where it is granted more than others, who share theirs.

        What may be asked without a grant cannot be asked under the same name by one and not by another.
        """
        key = namespace if namespace in self._policy.queue_access.grants else ""
        if key not in self._wires:
            guard = lookups.Guard(self._resolver, self._check)
            self._wires[key] = wire.Wire(resolver=guard, limits=self._limits, make_socket=self._socket)
        return self._wires[key]

    def _check(self, target: access.Target, address: str, number: int) -> None:
        endpoints.check_address(address, number, self._policy, api_addresses=self._api.known)
        endpoints.check_access(target, address, self._policy)

    def _socket(self, info: wire.AddressInfo) -> socket.socket:
        """Make the socket of a connection, to an address that any pool may ask."""
        family, kind, protocol, _, target = info
        endpoints.check_address(str(target[0]), int(target[1]), self._policy, api_addresses=self._api.known)
        return socket.socket(family=family, type=kind, proto=protocol)
