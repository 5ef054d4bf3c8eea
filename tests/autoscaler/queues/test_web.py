"""The guard sits where the socket is made: whatever a name resolves to, and whenever, nothing else is connected to."""

import asyncio
import contextlib
import socket
from collections.abc import Sequence

import pytest
import yarl
from aiohttp.abc import AbstractResolver, ResolveResult

from autoscaler.queues import endpoints, port, web


class Names(AbstractResolver):
    """Resolves every name to the next of the given answers, the last one for ever."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        del family
        self.asked.append(host)
        addresses = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=0,
            )
            for address in addresses
        ]

    async def close(self) -> None:
        pass


def get(url: str, names: Names, policy: endpoints.Policy | None = None) -> port.QueueError:
    async def ask() -> None:
        async with contextlib.aclosing(web.Web(policy or endpoints.Policy(), resolver=names)) as getter:
            await getter.get(yarl.URL(url), {})

    with pytest.raises(port.QueueError) as caught:
        asyncio.run(ask())
    return caught.value


@pytest.mark.accept("W22")
@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "::ffff:169.254.169.254", "::1", "fe80::1"])
def test_a_name_that_means_a_forbidden_address_is_refused(address: str) -> None:
    error = get("http://innocent.example/", Names([address]))
    assert error.reason is port.Reason.ENDPOINT_REFUSED
    assert address in error.message


@pytest.mark.accept("W22")
@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "169.254.169.254", "[::ffff:127.0.0.1]"])
def test_an_address_that_is_no_name_is_refused_as_well(host: str) -> None:
    names = Names(["10.0.0.1"])
    assert get(f"http://{host}/", names).reason is port.Reason.ENDPOINT_REFUSED
    assert names.asked == []


@pytest.mark.accept("W22")
def test_the_api_server_is_refused_by_name_by_address_and_by_what_its_name_means() -> None:
    policy = endpoints.Policy(
        api_servers=(
            endpoints.Server(host="10.100.0.1", port=443),
            endpoints.Server(host="api.example.com", port=443),
        )
    )
    assert get("https://api.example.com/", Names(["52.1.2.3"]), policy).reason is port.Reason.ENDPOINT_REFUSED
    names = Names(["10.9.9.9"])
    assert get("https://kubernetes.default.svc/", names).reason is port.Reason.ENDPOINT_REFUSED
    assert names.asked == []
    assert get("https://other.example/", Names(["52.1.2.3"]), policy).reason is port.Reason.ENDPOINT_REFUSED
    assert get("https://other.example/", Names(["10.100.0.1"]), policy).reason is port.Reason.ENDPOINT_REFUSED


@pytest.mark.accept("W22")
def test_no_pool_overtakes_the_look_up_of_the_api_server() -> None:
    policy = endpoints.Policy(api_servers=(endpoints.Server(host="api.example.com", port=443),))

    class Slow(Names):
        async def resolve(
            self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
        ) -> list[ResolveResult]:
            await asyncio.sleep(0.01 if host == "api.example.com" else 0)
            return await super().resolve(host, port, family)

    async def ask() -> list[object]:
        names = Slow(["52.1.2.3"])
        async with contextlib.aclosing(web.Web(policy, resolver=names)) as getter:
            asked = (getter.get(yarl.URL(f"http://{n}.example/"), {}) for n in range(20))
            ends = await asyncio.gather(*asked, return_exceptions=True)
        assert names.asked.count("api.example.com") == 1
        return [getattr(end, "reason", end) for end in ends]

    assert asyncio.run(ask()) == [port.Reason.ENDPOINT_REFUSED] * 20


@pytest.mark.parametrize("authority", [b"", b"no pem", b"\xff"])
def test_an_authority_that_is_none_is_named(authority: bytes) -> None:
    async def ask() -> None:
        async with contextlib.aclosing(web.Web(endpoints.Policy(), resolver=Names(["10.0.0.1"]))) as getter:
            await getter.get(yarl.URL("https://a.b/"), {}, authority=authority)

    with pytest.raises(port.QueueError, match=r"key ca\.crt") as caught:
        asyncio.run(ask())
    assert caught.value.reason is port.Reason.BAD_SECRET


def test_a_name_nobody_answers_for_is_a_timeout_and_does_not_hold_up_closing() -> None:
    class Mute(Names):
        async def resolve(
            self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
        ) -> list[ResolveResult]:
            await asyncio.Event().wait()
            return await super().resolve(host, port, family)

    async def ask() -> None:
        limits = web.Limits(timeout_seconds=0.01)
        async with contextlib.aclosing(web.Web(endpoints.Policy(), limits=limits, resolver=Mute([]))) as getter:
            await getter.get(yarl.URL("http://a.b/"), {})
        assert asyncio.all_tasks() == {asyncio.current_task()}

    with pytest.raises(port.QueueError) as caught:
        asyncio.run(ask())
    assert caught.value.reason is port.Reason.TIMEOUT


def test_certificates_that_are_none_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes | None] = []
    trusting = web._trusting

    def counted(authority: bytes | None) -> object:
        read.append(authority)
        return trusting(authority)

    monkeypatch.setattr(web, "_trusting", counted)

    async def ask() -> None:
        contexts = web._Contexts()
        for _ in range(3):
            with pytest.raises(port.QueueError, match="no certificates"):
                await contexts.get(b"broken")

    asyncio.run(ask())
    assert read == [b"broken"]


def test_all_who_trust_the_same_share_one_context() -> None:
    async def ask() -> int:
        contexts = web._Contexts()
        return len({id(each) for each in await asyncio.gather(*(contexts.get(None) for _ in range(50)))})

    assert asyncio.run(ask()) == 1


def test_a_name_that_cannot_be_looked_up_holds_one_thread_and_is_left_alone_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def fail(host: str, *_: object, **__: object) -> None:
        asked.append(host)
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    monkeypatch.setattr(socket, "getaddrinfo", fail)

    async def ask() -> None:
        resolver = web.Resolver()
        answers = await asyncio.gather(*(resolver.resolve("dead") for _ in range(20)), return_exceptions=True)
        assert all(isinstance(answer, OSError) for answer in answers)
        with pytest.raises(OSError, match="unknown"):
            await resolver.resolve("dead")
        await resolver.close()

    asyncio.run(ask())
    assert asked == ["dead"]
