"""The http source on real sockets, against servers as rude as they come."""

import asyncio
import contextlib
import gzip
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yarl
from aiohttp.abc import ResolveResult
from aiohttp.resolver import ThreadedResolver

from autoscaler.queues import endpoints, port, sources, web, wire
from tests.autoscaler.queues import contract
from tests.e2e.queues import servers
from tools.local import certificates

Reason = port.Reason
LIMITS = wire.Limits(timeout_seconds=1.0)
"""Where somebody does not answer."""
PATIENT = wire.Limits(timeout_seconds=30.0)
"""Where somebody does, on a computer that may be busy."""
OK = b"HTTP/1.1 200 OK\r\n"
RUDE: dict[str, tuple[servers.Handler, port.Reason]] = {
    "silent": (servers.silence, Reason.TIMEOUT),
    "slow headers": (servers.dripping(OK, b"X: y\r\n"), Reason.TIMEOUT),
    "slow body": (servers.dripping(OK + b"Content-Length: 1000\r\n\r\n", b"1"), Reason.TIMEOUT),
    "endless continue": (servers.dripping(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), Reason.TIMEOUT),
    "endless body": (servers.endless(OK + b"\r\n", b"1" * 4096), Reason.BODY_TOO_LARGE),
    "endless chunks": (
        servers.endless(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"400\r\n" + b"1" * 1024 + b"\r\n"),
        Reason.BODY_TOO_LARGE,
    ),
    "large header": (servers.raw(OK + b"X: " + b"y" * 100_000 + b"\r\n\r\n"), Reason.UNREACHABLE),
    "large body": (servers.page(b" " * 70_000 + b"5"), Reason.BODY_TOO_LARGE),
    "cut body": (servers.raw(OK + b"Content-Length: 10\r\n\r\n5"), Reason.UNREACHABLE),
    "closed": (servers.raw(), Reason.UNREACHABLE),
    "no http": (servers.raw(b"220 smtp.example ESMTP\r\n"), Reason.UNREACHABLE),
    "garbage": (servers.page(b"\x00\xff\xfegarbage"), Reason.NOT_A_NUMBER),
    "empty": (servers.page(b""), Reason.NOT_A_NUMBER),
    "packed": (servers.page(gzip.compress(b"5"), Content_Encoding="gzip"), Reason.NOT_A_NUMBER),
    "negative": (servers.page(b"-1"), Reason.NEGATIVE),
    "huge": (servers.page(b"99999999999"), Reason.TOO_LARGE),
    "401": (servers.page(b"5", 401), Reason.UNAUTHORIZED),
    "503": (servers.page(b"5", 503), Reason.FAILED),
    "elsewhere": (servers.page(b"5", 302, Location="http://127.0.0.2/x"), Reason.REDIRECTED),
    "nowhere": (servers.page(b"5", 302), Reason.REDIRECTED),
    "round": (servers.page(b"5", 307, Location="/jobs"), Reason.REDIRECTED),
    "echo": (servers.echo(), Reason.NOT_A_NUMBER),
    "echo 401": (servers.echo(401), Reason.UNAUTHORIZED),
    "echo 302": (servers.echo(302), Reason.REDIRECTED),
    "echo 999": (servers.echo(9999), Reason.UNREACHABLE),
}


@contextlib.asynccontextmanager
async def opened(
    policy: endpoints.Policy = contract.DEVELOPMENT, limits: wire.Limits = PATIENT
) -> AsyncIterator[sources.Sources]:
    """Open everything, and see that nothing is left when it closes."""
    before = asyncio.all_tasks()
    async with contextlib.aclosing(sources.Sources.open(policy, limits=limits)) as shared:
        yield shared
    await asyncio.sleep(0)
    assert {task for task in asyncio.all_tasks() - before if "servers" not in repr(task)} == set()


def queue(shared: sources.Sources, url: str) -> port.Queue:
    return shared.queue(contract.source(endpoint=url), namespace="jobs", secret=contract.SECRET)


@contextlib.asynccontextmanager
async def world() -> AsyncIterator[contract.World]:
    async with servers.running() as server, opened(limits=LIMITS) as shared:
        breaks = {reason: handler for handler, reason in RUDE.values()}

        async def hold(value: int) -> None:
            server.handlers["/jobs"] = servers.demanding(f"Apikey {contract.KEY}", f"{value}\n".encode())

        async def break_(reason: port.Reason) -> None:
            server.handlers["/jobs"] = breaks[reason]

        yield contract.World(
            queue=lambda: queue(shared, server.url("/jobs")), hold=hold, break_=break_, breaks=tuple(breaks)
        )


def test_the_length_is_told() -> None:
    asyncio.run(contract.check_numbers(world))


def test_failures_are_errors() -> None:
    asyncio.run(contract.check_failures(world))


@pytest.mark.accept("W22")
@pytest.mark.parametrize("manner", RUDE)
def test_a_rude_server_costs_an_error_and_a_good_one_beside_it_nothing(manner: str) -> None:
    handler, want = RUDE[manner]

    async def act() -> None:
        pages = {"/jobs": handler, "/good": servers.page(b"5")}
        limits = LIMITS if want is Reason.TIMEOUT else PATIENT
        async with servers.running(pages) as server, opened(limits=limits) as shared:
            await contract.check_fails(queue(shared, server.url("/jobs")), want)
            assert await queue(shared, server.url("/good")).length() == 5

    asyncio.run(act())


def test_a_server_that_is_not_there_is_unreachable() -> None:
    async def act() -> None:
        async with servers.running() as server:
            gone = server.url("/jobs")
        async with opened() as shared:
            await contract.check_fails(queue(shared, gone), Reason.UNREACHABLE)
            await contract.check_fails(queue(shared, "http://no-such-host.invalid/"), Reason.UNREACHABLE)

    asyncio.run(act())


def test_redirects_on_the_same_host_are_followed_with_the_key() -> None:
    async def act() -> None:
        handlers = {
            "/jobs": servers.page(b"", 301, Location="/b"),
            "/b": servers.page(b"", 307, Location="c"),
            "/c": servers.demanding(f"Apikey {contract.KEY}", b"5"),
        }
        async with servers.running(handlers) as server, opened() as shared:
            assert await queue(shared, server.url("/jobs")).length() == 5

    asyncio.run(act())


@pytest.mark.accept("W22")
def test_the_key_never_reaches_another_host() -> None:
    async def act() -> None:
        async with servers.running() as other, servers.running() as server, opened() as shared:
            server.handlers["/jobs"] = servers.page(b"", 302, Location=other.url("/jobs"))
            await contract.check_fails(queue(shared, server.url("/jobs")), Reason.REDIRECTED)
            assert other.connections == 0

    asyncio.run(act())


@pytest.mark.accept("W22")
def test_without_the_switch_loopback_is_not_connected_to_not_even_by_a_name_that_changed() -> None:
    class Rebinding(ThreadedResolver):
        async def resolve(
            self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
        ) -> list[ResolveResult]:
            del host
            return await super().resolve("127.0.0.1", port, family)

    async def act() -> None:
        async with servers.running({"/jobs": servers.page(b"5")}) as server:
            async with opened(endpoints.Policy()) as shared:
                await contract.check_fails(queue(shared, server.url("/jobs")), Reason.ENDPOINT_REFUSED)
                short = server.url("/jobs").replace("127.0.0.1", "127.1")
                await contract.check_fails(queue(shared, short), Reason.ENDPOINT_REFUSED)
            async with contextlib.aclosing(web.Web(endpoints.Policy(), resolver=Rebinding())) as getter:
                with pytest.raises(port.QueueError, match="loopback"):
                    await getter.get(yarl.URL(f"http://innocent.example:{server.port}/jobs"), {}, namespace="jobs")
            assert server.connections == 0

    asyncio.run(act())


@pytest.mark.accept("W22")
def test_with_the_switch_the_api_server_is_still_refused() -> None:
    async def act() -> None:
        async with servers.running({"/jobs": servers.page(b"5")}) as server:
            api = endpoints.Server(host="127.0.0.1", port=server.port)
            async with opened(endpoints.Policy(api_servers=(api,), allow_loopback=True)) as shared:
                await contract.check_fails(queue(shared, server.url("/jobs")), Reason.ENDPOINT_REFUSED)
            assert server.connections == 0

    asyncio.run(act())


def test_names_are_looked_up() -> None:
    async def act() -> None:
        async with (
            servers.running({"/jobs": servers.page(b"5")}) as server,
            contextlib.aclosing(web.Web(contract.DEVELOPMENT)) as getter,
        ):
            got = await getter.get(yarl.URL(f"http://localhost:{server.port}/jobs"), {}, namespace="jobs")
            assert got == wire.Page(status=200, body=b"5")

    asyncio.run(act())


@pytest.mark.parametrize("trusted", [True, False])
def test_a_private_authority_is_trusted_from_the_secret_alone(tmp_path: Path, trusted: bool) -> None:  # noqa: FBT001
    pki = certificates.write(tmp_path / "pki")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pki.certificate("server"), pki.key("server"))
    secret = {**contract.SECRET, "ca.crt": pki.authority.read_bytes()} if trusted else contract.SECRET

    async def act() -> None:
        async with servers.running({"/jobs": servers.page(b"5")}, tls) as server, opened() as shared:
            source = contract.source(endpoint=server.url("/jobs"))
            asked = shared.queue(source, namespace="jobs", secret=secret)
            if trusted:
                assert [await asked.length(), await asked.length()] == [5, 5]
                assert server.connections == 1
                wrong = contract.source(endpoint=server.url("/jobs").replace("127.0.0.1", "127.0.0.2"))
                await contract.check_fails(
                    shared.queue(wrong, namespace="jobs", secret=secret), Reason.UNREACHABLE
                )  # nobody listens there
            else:
                await contract.check_fails(asked, Reason.UNTRUSTED)
                assert server.requests == []

    asyncio.run(act())


def test_a_certificate_for_another_name_is_not_trusted(tmp_path: Path) -> None:
    pki = certificates.write(tmp_path / "pki")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pki.certificate("server"), pki.key("server"))
    secret = {**contract.SECRET, "ca.crt": pki.authority.read_bytes()}

    async def act() -> None:
        async with servers.running({"/jobs": servers.page(b"5")}, tls) as server, opened() as shared:
            source = contract.source(endpoint=server.url("/jobs").replace("127.0.0.1", "[::ffff:127.0.0.1]"))
            await contract.check_fails(shared.queue(source, namespace="jobs", secret=secret), Reason.UNTRUSTED)
            assert server.requests == []

    asyncio.run(act())


def test_a_thousand_pools_share_few_connections_and_use_them_again() -> None:
    async def act() -> None:
        handlers = {f"/{n}": servers.page(str(n).encode()) for n in range(1000)}
        generous = wire.Limits(timeout_seconds=30)
        async with servers.running(handlers) as server, opened(limits=generous) as shared:
            for _ in range(2):
                got = await asyncio.gather(*(queue(shared, server.url(f"/{n}")).length() for n in range(1000)))
                assert got == list(range(1000))
            assert server.connections <= wire.CONNECTIONS_PER_HOST

    asyncio.run(act())


def test_pools_of_a_dead_server_do_not_hold_up_those_of_a_good_one() -> None:
    async def act() -> None:
        dead = {"/jobs": servers.silence}
        good = {"/jobs": servers.page(b"5")}
        patient = wire.Limits(timeout_seconds=30)
        async with servers.running(dead) as a, servers.running(good) as b, opened(limits=patient) as shared:
            stuck = [asyncio.ensure_future(queue(shared, a.url("/jobs")).length()) for _ in range(500)]
            await asyncio.sleep(0.2)
            got = await asyncio.wait_for(
                asyncio.gather(*(queue(shared, b.url("/jobs")).length() for _ in range(50))), timeout=10
            )
            assert got == [5] * 50
            for task in stuck:
                task.cancel()
            ends = await asyncio.gather(*stuck, return_exceptions=True)
            assert all(isinstance(end, asyncio.CancelledError) for end in ends)
            async with asyncio.timeout(10):
                while a.open_now:  # noqa: ASYNC110 - a cancelled reading leaves no connection behind
                    await asyncio.sleep(0.01)

    asyncio.run(act())
