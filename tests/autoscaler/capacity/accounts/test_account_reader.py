"""When accounts are looked at: what is due is read in half a second, and nobody looks while nothing is due."""

import asyncio
import functools
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass, field, fields
from typing import Any, Self, cast

from autoscaler import control
from autoscaler.api.resources.accounts import ProviderAccount
from autoscaler.capacity.accounts import account_reader
from autoscaler.cloud import port as cloud
from autoscaler.kube import objects, store
from autoscaler.simulation import virtual_time
from tests.autoscaler.capacity import books


def in_virtual_time(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    @functools.wraps(test)
    def play() -> None:
        virtual_time.run(test())

    return play


@dataclass
class Cloud:
    """A cloud without groups, which takes its time."""

    read_at: list[float] = field(default_factory=list)
    takes_seconds: float = 0.1
    closed: int = 0

    async def groups(self, names: Collection[str] | None = None) -> cloud.Listing:
        del names
        self.read_at.append(asyncio.get_running_loop().time())
        await asyncio.sleep(self.takes_seconds)
        return cloud.Listing()

    async def aclose(self) -> None:
        self.closed += 1


class Bench:
    """An account reader with one table of accounts; counts how often it asks whether it may act."""

    def __init__(self) -> None:
        self.accounts: store.Table[objects.Custom[ProviderAccount]] = store.Table()
        self.cloud = Cloud()
        self.looks = 0
        self.held: str | None = None
        self.refusals = 0
        used: dict[str, Any] = {
            "clock": virtual_time.clock(),
            "watch": lambda *_: self.accounts,
            "feed": lambda _: None,
            "wake": lambda *_: None,
            "held_back": self.held_back,
        }
        unused = {each.name: None for each in fields(control.ControllerContext)}
        context = control.ControllerContext(**cast("Any", {**unused, **used}))
        self.reader = account_reader.AccountReader(context, self.open)

    def held_back(self) -> str | None:
        self.looks += 1
        return self.held

    async def open(self, name: str, spec: object) -> cloud.Cloud:
        del name, spec
        if self.refusals:
            self.refusals -= 1
            raise cloud.CloudError(cloud.Reason.DENIED, "no")
        return cast("cloud.Cloud", self.cloud)

    def add(self, region: str = "eu-west-1", version: int = 1) -> None:
        spec = {"provider": "aws", "region": region}
        resource = ProviderAccount.model_validate({"metadata": {"name": "aws"}, "spec": spec})
        self.accounts.seen(objects.Custom(meta=books.meta("aws", version=version), resource=resource))

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self.reader.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@in_virtual_time
async def test_a_quiet_account_is_read_once_a_minute_and_nobody_looks_meanwhile() -> None:
    async with Bench() as bench:
        bench.add()
        await asyncio.sleep(3600)
        assert 58 <= len(bench.cloud.read_at) <= 61
        assert bench.looks <= 2 * len(bench.cloud.read_at) + 5  # before: twice a second


@in_virtual_time
async def test_without_accounts_nobody_looks_and_a_new_one_is_read_within_half_a_second() -> None:
    async with Bench() as bench:
        await asyncio.sleep(1000.2)
        assert bench.looks == 1
        bench.add()
        await asyncio.sleep(0.5)
        assert len(bench.cloud.read_at) == 1


@in_virtual_time
async def test_what_is_hurried_is_read_soon_and_many_that_hurry_are_one_reading() -> None:
    async with Bench() as bench:
        bench.add()
        await asyncio.sleep(20.2)
        before = len(bench.cloud.read_at)
        for _ in range(100):
            bench.reader.hurry()
            await asyncio.sleep(0.01)
        await asyncio.sleep(5)
        assert len(bench.cloud.read_at) == before + 1
        for _ in range(5):
            bench.reader.read_now()
        at = asyncio.get_running_loop().time()
        await asyncio.sleep(0.5)
        assert bench.cloud.read_at[before + 1] - at <= 0.5


@in_virtual_time
async def test_what_becomes_due_while_it_is_read_is_read_again_once_that_has_ended() -> None:
    async with Bench() as bench:
        bench.cloud.takes_seconds = 8.0
        bench.add()
        await asyncio.sleep(2)
        bench.reader.read_now()
        await asyncio.sleep(5)
        assert len(bench.cloud.read_at) == 1
        bench.cloud.takes_seconds = 0.1
        await asyncio.sleep(62)
        assert len(bench.cloud.read_at) == 2  # as the reading that ended has said


@in_virtual_time
async def test_nothing_is_read_while_it_may_not_be_and_what_was_due_is_read_at_once_after_that() -> None:
    async with Bench() as bench:
        bench.add()
        await asyncio.sleep(30)
        bench.held = "not leading"
        await asyncio.sleep(300)
        assert len(bench.cloud.read_at) == 1
        bench.held = None
        await asyncio.sleep(0.5)
        assert len(bench.cloud.read_at) == 2


@in_virtual_time
async def test_an_account_that_cannot_be_opened_is_tried_again() -> None:
    async with Bench() as bench:
        bench.refusals = 3
        bench.add()
        await asyncio.sleep(3 * account_reader.REOPEN_SECONDS + 1)
        assert len(bench.cloud.read_at) == 1


@in_virtual_time
async def test_an_account_that_changes_or_goes_is_closed_within_half_a_second() -> None:
    async with Bench() as bench:
        bench.add()
        await asyncio.sleep(30)
        bench.add(region="us-east-1", version=2)
        await asyncio.sleep(0.6)
        assert (bench.cloud.closed, len(bench.cloud.read_at)) == (1, 2)
        bench.accounts.gone(books.meta("aws", version=3))
        await asyncio.sleep(0.5)
        assert (bench.cloud.closed, dict(bench.reader.seen)) == (2, {})
