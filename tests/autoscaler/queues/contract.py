"""What every adapter of the port keeps, and the worlds to run it in: fakes in the fast tier, real servers in e2e.

A world is one kind of queue on one server, that can be told what to answer.
"""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import msgspec
import pytest
import yarl

from autoscaler.api.resources import worker_pools
from autoscaler.queues import endpoints, port, sources, sqs, wire

KEY = "s3cr3t-0123456789"
SECRET: Mapping[str, bytes] = {port.API_KEY: f"{KEY}\n".encode(), sqs.ACCESS_KEY_ID: b"AKIDEXAMPLE"}
FAKE_QUEUE = "https://sqs.eu-west-1.amazonaws.com/123456789012/jobs"


@dataclass(kw_only=True)
class FakeWeb:
    """Answers as told, and remembers what it was asked."""

    page: wire.Page = field(default_factory=lambda: wire.Page(status=200, body=b"0"))
    error: port.QueueError | None = None
    asked: list[tuple[yarl.URL, Mapping[str, str], bytes | None]] = field(default_factory=list)
    namespaces: list[str] = field(default_factory=list)

    async def get(
        self, url: yarl.URL, headers: Mapping[str, str], *, namespace: str, authority: bytes | None = None
    ) -> wire.Page:
        self.asked.append((url, headers, authority))
        self.namespaces.append(namespace)
        if self.error is not None:
            raise self.error
        return self.page

    async def aclose(self) -> None:
        pass


@dataclass(kw_only=True)
class FakeSqs:
    """Answers as told, and remembers what it was asked."""

    text: str = "0"
    error: port.QueueError | None = None
    asked: list[tuple[sqs.Account, str]] = field(default_factory=list)

    async def count(self, account: sqs.Account, queue_url: str) -> str:
        self.asked.append((account, queue_url))
        if self.error is not None:
            raise self.error
        return self.text

    async def aclose(self) -> None:
        pass


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """One queue that can be told how long it is, or what is wrong with it."""

    queue: Callable[[], port.Queue]
    hold: Callable[[int], Awaitable[None]]
    break_: Callable[[port.Reason], Awaitable[None]]
    """Make it fail for this reason, one among `breaks`."""
    breaks: tuple[port.Reason, ...]


Opener = Callable[[], contextlib.AbstractAsyncContextManager[World]]


def source(kind: str = "http", endpoint: str = "http://web/jobs", **more: str) -> worker_pools.QueueSource:
    """Return a source that names a Secret."""
    given = {"type": kind, "endpoint": endpoint, "secretName": "key", **more}
    return worker_pools.QueueSource.model_validate(given)


async def check_numbers(opener: Opener) -> None:
    """Every length that is held is told, 0 included, and a change is seen at once."""
    async with opener() as world:
        for want in (0, 1, 7, 0):
            await world.hold(want)
            assert await world.queue().length() == want


async def check_failures(opener: Opener) -> None:
    """Whatever breaks is an error with its reason, never a number, and never shows the credential."""
    async with opener() as world:
        for reason in world.breaks:
            await world.break_(reason)
            await check_fails(world.queue(), reason)


async def check_fails(queue: port.Queue, reason: port.Reason) -> str:
    """Return the message of the failure that there must be."""
    with pytest.raises(port.QueueError) as caught:
        await queue.length()
    error = caught.value
    assert error.reason is reason, error.message
    assert KEY not in f"{error}{error!r}{error.message}"
    assert len(error.message) > 30, "says what was attempted, on what, and what to do"
    return error.message


def body_of(kind: str, value: object) -> bytes:
    """Write a value as a web server of that kind does."""
    if kind == "http":
        return msgspec.json.encode(value)
    return msgspec.json.encode(
        {"status": "success", "data": {"resultType": "scalar", "result": [1_700_000_000.5, str(value)]}}
    )


def faked_web(kind: str, **more: str) -> Opener:
    """Return a world of http or prometheus on a fake."""

    @contextlib.asynccontextmanager
    async def opened() -> AsyncIterator[World]:
        fake = FakeWeb()
        shared = sources.Sources(getter=fake, reader=FakeSqs())
        pages = {
            port.Reason.UNAUTHORIZED: wire.Page(status=401, body=KEY.encode()),
            port.Reason.NOT_FOUND: wire.Page(status=404, body=b"0"),
            port.Reason.FAILED: wire.Page(status=500, body=b"0"),
            port.Reason.NOT_A_NUMBER: wire.Page(status=200, body=f"<b>{KEY}</b>".encode()),
            port.Reason.NEGATIVE: wire.Page(status=200, body=body_of(kind, -1)),
            port.Reason.TOO_LARGE: wire.Page(status=200, body=body_of(kind, 2**31)),
        }

        async def hold(value: int) -> None:
            fake.page = wire.Page(status=200, body=body_of(kind, value))

        async def break_(reason: port.Reason) -> None:
            fake.page = pages[reason]

        yield World(
            queue=lambda: shared.queue(source(kind, **more), namespace="jobs", secret=SECRET),
            hold=hold,
            break_=break_,
            breaks=tuple(pages),
        )

    return opened


@contextlib.asynccontextmanager
async def faked_sqs() -> AsyncIterator[World]:
    """Open a world of sqs on a fake."""
    fake = FakeSqs()
    shared = sources.Sources(getter=FakeWeb(), reader=fake)
    texts = {port.Reason.NOT_A_NUMBER: "many", port.Reason.NEGATIVE: "-1", port.Reason.TOO_LARGE: str(2**31)}

    async def hold(value: int) -> None:
        fake.text = str(value)

    async def break_(reason: port.Reason) -> None:
        fake.text = texts[reason]

    yield World(
        queue=lambda: shared.queue(source("sqs", FAKE_QUEUE), namespace="jobs", secret=SECRET),
        hold=hold,
        break_=break_,
        breaks=tuple(texts),
    )


DEVELOPMENT = endpoints.Policy(allow_loopback=True)
