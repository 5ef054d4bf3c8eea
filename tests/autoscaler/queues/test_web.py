"""The guard sits where the socket is made: whatever a name resolves to, and whenever, nothing else is connected to."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path

import pytest
import yarl
from aiohttp.abc import AbstractResolver, ResolveResult

from autoscaler.api.settings import queue_access
from autoscaler.queues import access, endpoints, lookups, port, web, wire
from autoscaler.simulation import virtual_time


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


Ask = Coroutine[object, object, object]


def get(
    url: str, names: AbstractResolver, policy: endpoints.Policy | None = None, *, namespace: str = "jobs"
) -> port.QueueError:
    with pytest.raises(port.QueueError) as caught:
        asyncio.run(ask(url, names, policy, namespace=namespace))
    return caught.value


def connects(
    url: str,
    names: AbstractResolver,
    policy: endpoints.Policy | None = None,
    *,
    namespace: str = "jobs",
    run: Callable[[Ask], object] = asyncio.run,
) -> None:
    """See that somebody tried to connect: the fast tier has no network, and virtual time no sockets."""
    with pytest.raises(RuntimeError, match=r"no network|^$"):
        run(ask(url, names, policy, namespace=namespace))


async def ask(
    url: str, names: AbstractResolver, policy: endpoints.Policy | None = None, *, namespace: str = "jobs"
) -> wire.Page:
    async with contextlib.aclosing(web.Web(policy or endpoints.Policy(), resolver=names)) as getter:
        return await getter.get(yarl.URL(url), {}, namespace=namespace)


def granting(**grants: dict[str, list[str]]) -> endpoints.Policy:
    return endpoints.Policy(queue_access=access.Access(grants=queue_access.QueueAccess.model_validate(grants).root))


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
            asked = (getter.get(yarl.URL(f"http://{n}.example/"), {}, namespace="jobs") for n in range(20))
            ends = await asyncio.gather(*asked, return_exceptions=True)
        assert names.asked.count("api.example.com") == 1
        return [getattr(end, "reason", end) for end in ends]

    assert asyncio.run(ask()) == [port.Reason.ENDPOINT_REFUSED] * 20


class Book(Names):
    """Knows some names; the others are not there. A name may lead to another one."""

    def __init__(self, canonical: dict[str, str] | None = None, **addresses: list[str]) -> None:
        super().__init__([])
        self.addresses: dict[str, list[str]] = {name.replace("_", "."): found for name, found in addresses.items()}
        self.canonical = canonical or {}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        if host.rstrip(".") not in self.addresses:
            self.asked.append(host)
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        self.answers = [self.addresses[host.rstrip(".")]]
        found = await super().resolve(host, port, family)
        return [ResolveResult({**each, "hostname": self.canonical.get(host.rstrip("."), host)}) for each in found]


@pytest.mark.accept("W26")
def test_a_private_address_is_not_connected_to_by_any_way_it_is_named() -> None:
    for url, names in {
        "http://10.0.0.5/": Names([]),
        "http://[fd12::5]/": Names([]),
        "http://[::ffff:10.0.0.5]/": Names([]),
        "http://queue.example/": Names(["10.0.0.5"]),
        "http://mixed.example/": Names(["52.1.2.3", "10.0.0.5"]),
        "http://web.b/": Names(["172.20.3.4"]),
    }.items():
        error = get(url, names)
        assert error.reason is port.Reason.NOT_ALLOWED, url
        assert "namespace jobs" in error.message
    connects("http://queue.example/", Names(["52.1.2.3"]))
    connects("http://52.1.2.3/", Names([]))


@pytest.mark.accept("W26")
def test_services_of_the_own_namespace_are_connected_to_and_others_are_not_even_looked_up() -> None:
    names = Book(web_jobs_svc_cluster_local=["172.20.3.4"], web_b_svc_cluster_local=["172.20.3.5"])
    connects("http://web.jobs.svc/", names)
    assert names.asked == ["web.jobs.svc.cluster.local."]
    assert get("http://web.b.svc/", names).reason is port.Reason.NOT_ALLOWED
    assert names.asked == ["web.jobs.svc.cluster.local."]
    connects("http://web.b.svc/", names, granting(jobs={"namespaces": ["b"]}))
    assert get("http://web.b.svc/", names, granting(c={"namespaces": ["b"]})).reason is port.Reason.NOT_ALLOWED


@pytest.mark.accept("W26")
def test_grants_of_hosts_and_blocks_are_kept_to_their_namespace() -> None:
    policy = granting(a={"hosts": ["queue.corp.example"]}, b={"cidrs": ["10.0.0.0/24"]})
    names = Names(["10.0.0.5"])
    connects("http://queue.corp.example/", names, policy, namespace="a")
    connects("http://queue.corp.example/", names, policy, namespace="b")
    connects("http://10.0.0.5/", names, policy, namespace="b")
    assert get("http://10.0.0.5/", names, policy, namespace="a").reason is port.Reason.NOT_ALLOWED
    assert get("http://queue.corp.example/", names, policy, namespace="c").reason is port.Reason.NOT_ALLOWED


@pytest.mark.accept("W22", "W26")
@pytest.mark.parametrize("address", ["169.254.169.254", "127.0.0.1", "::1", "10.100.0.1", "10.7.7.7"])
def test_neither_a_grant_nor_the_name_of_a_service_leads_to_what_nobody_may_ask(address: str) -> None:
    api = (endpoints.Server(host="10.100.0.1", port=443), endpoints.Server(host="api.example", port=443))
    policy = endpoints.Policy(
        api_servers=api,
        queue_access=granting(
            jobs={"cidrs": ["10.0.0.0/8"], "hosts": ["queue.corp.example"], "namespaces": ["b"]}
        ).queue_access,
    )
    names = Book(api_example=["10.7.7.7"])
    for host in ("queue.corp.example", "web.jobs.svc.cluster.local", "web.b.svc.cluster.local"):
        names.addresses[host] = [address]
        assert get(f"https://{host}/", names, policy).reason is port.Reason.ENDPOINT_REFUSED
    literal = f"[{address}]" if ":" in address else address
    assert get(f"https://{literal}/", names, policy).reason is port.Reason.ENDPOINT_REFUSED


@pytest.mark.accept("W26")
def test_a_service_that_leads_elsewhere_is_not_followed() -> None:
    names = Book({"web.jobs.svc.cluster.local": "db.b.svc.cluster.local"}, web_jobs_svc_cluster_local=["172.20.3.4"])
    error = get("http://web.jobs.svc/", names)
    assert error.reason is port.Reason.NOT_ALLOWED
    assert "ExternalName" in error.message


@pytest.mark.accept("W26")
def test_namespaces_with_a_grant_share_no_connection_with_others() -> None:
    async def ask() -> None:
        async with contextlib.aclosing(web.Web(granting(a={"cidrs": ["10.0.0.0/8"]}))) as getter:
            assert getter._wire("b") is getter._wire("c")
            assert getter._wire("a") is getter._wire("a")
            assert getter._wire("a") is not getter._wire("b")

    asyncio.run(ask())


@pytest.mark.accept("W22")
def test_addresses_of_the_api_server_stay_known_while_one_of_its_names_cannot_be_looked_up() -> None:
    api = tuple(endpoints.Server(host=host, port=443) for host in ("one.example", "two.example"))
    names = Book(one_example=["52.1.1.1"], two_example=["52.2.2.2"], a_example=["52.1.1.1"], b_example=["52.2.2.2"])

    async def act() -> None:
        async with contextlib.aclosing(web.Web(endpoints.Policy(api_servers=api), resolver=names)) as getter:

            async def is_refused(host: str) -> bool:
                try:
                    await getter.get(yarl.URL(f"https://{host}/"), {}, namespace="jobs")
                except port.QueueError as error:
                    return "API server" in error.message
                except NotImplementedError:  # it would be connected to, and virtual time has no sockets
                    return False
                raise AssertionError

            assert [await is_refused("a.example"), await is_refused("b.example")] == [True, True]
            del names.addresses["one.example"]
            names.addresses["two.example"] = ["52.3.3.3"]
            await asyncio.sleep(61)
            assert [await is_refused("a.example"), await is_refused("b.example")] == [True, False]
            names.addresses["one.example"] = ["52.4.4.4"]
            await asyncio.sleep(6)
            assert not await is_refused("a.example"), "it was looked up again soon"

    virtual_time.run(act())


@pytest.mark.accept("W22")
def test_an_api_servers_name_that_nobody_answers_for_holds_up_no_queue() -> None:
    class Stuck(Book):
        async def resolve(
            self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
        ) -> list[ResolveResult]:
            if host == "api.example":
                await asyncio.Event().wait()
            return await super().resolve(host, port, family)

    policy = endpoints.Policy(api_servers=(endpoints.Server(host="api.example", port=443),))
    connects("http://queue.example/", Stuck(queue_example=["52.1.2.3"]), policy, run=virtual_time.run)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("search jobs.svc.corp.lan svc.corp.lan corp.lan\nnameserver 10.0.0.10\noptions ndots:5\n", "corp.lan"),
        ("search example.com\nnameserver 10.0.0.10\n", "cluster.local"),
        ("", "cluster.local"),
        (None, "cluster.local"),
    ],
)
def test_the_clusters_domain_is_read_where_pods_have_it(tmp_path: Path, text: str | None, want: str) -> None:
    path = tmp_path / "resolv.conf"
    if text is not None:
        path.write_text(text)
    assert lookups.cluster_domain(path) == want


@pytest.mark.parametrize("authority", [b"", b"no pem", b"\xff"])
def test_an_authority_that_is_none_is_named(authority: bytes) -> None:
    async def ask() -> None:
        async with contextlib.aclosing(web.Web(endpoints.Policy(), resolver=Names(["10.0.0.1"]))) as getter:
            await getter.get(yarl.URL("https://a.b/"), {}, namespace="jobs", authority=authority)

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
        limits = wire.Limits(timeout_seconds=0.01)
        async with contextlib.aclosing(web.Web(endpoints.Policy(), limits=limits, resolver=Mute([]))) as getter:
            await getter.get(yarl.URL("http://a.b/"), {}, namespace="jobs")
        assert asyncio.all_tasks() == {asyncio.current_task()}

    with pytest.raises(port.QueueError) as caught:
        asyncio.run(ask())
    assert caught.value.reason is port.Reason.TIMEOUT


def test_certificates_that_are_none_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes | None] = []
    trusting = wire._trusting

    def counted(authority: bytes | None) -> object:
        read.append(authority)
        return trusting(authority)

    monkeypatch.setattr(wire, "_trusting", counted)

    async def ask() -> None:
        contexts = wire.Contexts()
        for _ in range(3):
            with pytest.raises(port.QueueError, match="no certificates"):
                await contexts.get(b"broken")

    asyncio.run(ask())
    assert read == [b"broken"]


def test_all_who_trust_the_same_share_one_context() -> None:
    async def ask() -> int:
        contexts = wire.Contexts()
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
        resolver = lookups.Resolver()
        answers = await asyncio.gather(*(resolver.resolve("dead") for _ in range(20)), return_exceptions=True)
        assert all(isinstance(answer, OSError) for answer in answers)
        with pytest.raises(OSError, match="unknown"):
            await resolver.resolve("dead")
        await resolver.close()

    asyncio.run(ask())
    assert asked == ["dead"]


@pytest.mark.accept("W26")
def test_the_canonical_name_of_a_service_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the C library answers for a Service of type ExternalName; only the first address has the name."""

    def lead_elsewhere(host: str, port: int, **given: int) -> list[tuple[object, ...]]:
        assert (host, given["flags"]) == ("web.jobs.svc.cluster.local.", socket.AI_CANONNAME)
        kind = (socket.AF_INET, socket.SOCK_STREAM, 6)
        return [(*kind, "db.b.svc.cluster.local", ("172.20.3.4", port)), (*kind, "", ("172.20.3.5", port))]

    monkeypatch.setattr(socket, "getaddrinfo", lead_elsewhere)
    assert "another name for db.b.svc.cluster.local" in get("http://web.jobs.svc/", lookups.Resolver()).message


@pytest.mark.accept("W19")
def test_names_of_one_namespace_that_nobody_answers_for_hold_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    answered, asked = threading.Event(), list[str]()

    def answer(host: str, port: int, **_: int) -> list[tuple[object, ...]]:
        asked.append(host)
        if host.startswith("dead"):
            answered.wait(30)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, host, ("52.1.2.3", port))]

    monkeypatch.setattr(socket, "getaddrinfo", answer)

    async def act() -> None:
        resolver = lookups.Resolver()

        async def resolve(host: str, namespace: str) -> object:
            lookups.ASKED.set(access.judge(host, namespace, access.Access()))
            return await resolver.resolve(host)

        stuck = [asyncio.create_task(resolve(f"dead{number}.example", "bad")) for number in range(100)]
        async with asyncio.timeout(20):
            while len(asked) < 8:  # noqa: ASYNC110 - as many as may be looked up at once
                await asyncio.sleep(0.01)
            for task in stuck[:50]:
                task.cancel()  # they have waited long enough; their threads have not
            await asyncio.gather(*(resolve(f"{number}.example", "good") for number in range(50)))
        assert len([host for host in asked if host.startswith("dead")]) == 8
        answered.set()
        await asyncio.gather(*stuck, return_exceptions=True)
        assert len(asked) == 8 + 50 + 50, "those that still waited had their turn"
        await resolver.close()

    asyncio.run(act())
