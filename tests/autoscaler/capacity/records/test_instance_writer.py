"""Objects of which nobody said that anything changed are looked at too, a few at a time: what was missed is healed."""

import asyncio
import dataclasses
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from autoscaler import control
from autoscaler.capacity.accounts import account_reader
from autoscaler.capacity.records import instance_records, instance_writer, rechecks
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.cloud import port as cloud
from autoscaler.control import metrics
from autoscaler.kube import store
from tests.autoscaler.capacity import books

NOBODY: Any = None


class Deaf:
    """A bookkeeper that hears of no pod, with objects of so many instances that all are ready."""

    def __init__(self, count: int, account: Any = None) -> None:
        self.now = 1000.0
        self.written: list[str] = []
        self.measures: list[metrics.Measure] = []
        self.records = records = store.Table[Any]()
        self.members = [books.member(f"i-{number}") for number in range(1, count + 1)]
        for number, one in enumerate(self.members, start=1):
            said: dict[str, Any] = {"phase": "Ready", "providerID": one.provider_id, "nodeName": one.id}
            created = books.date(books.START)
            records.seen(books.instance(number, instanceCreatedAt=created, idleSince=created, **said))
        context = _context(
            clock=SimpleNamespace(now=lambda: books.START, monotonic=lambda: self.now),
            writer=SimpleNamespace(patch=self._patch),
            measure=self.measures.append,
            watch=lambda kind, *_: records if kind is instance_writer.INSTANCES else store.Table[Any](),
        )
        known = account or account_reader.AccountReader(context, NOBODY)
        self.bookkeeper = instance_writer.InstanceWriter(
            context, known, pods=store.Table(), nodes=store.Table(), beside={}
        )

    async def keep(self, *working: str) -> list[str]:
        """Keep the books while pods work on these nodes; return whose object was written."""
        self.written.clear()
        await self.bookkeeper.write(instance_records.decide(self.bookkeeper.look(self.snapshot(*working))))
        return sorted(self.written)

    def differences(self) -> float:
        told = [metric for measure in self.measures for metric in measure() if metric.name == rechecks.DIFFERENCES]
        return sum(sample.value for metric in told for sample in metric.samples)

    def snapshot(self, *working: str) -> Snapshot:
        pods = [books.pod(f"p-{node}", node, started_at=books.START) for node in working]
        nodes = [books.node(one.id, one.provider_id, ready_at=books.START) for one in self.members]
        return books.sight(books.START + 60, groups=(books.group(*self.members),), nodes=nodes, pods=pods).snapshot

    def end(self, name: str) -> None:
        """Have an object say that its instance is over."""
        number = int(name.rpartition("-")[2])
        self.records.seen(books.instance(number, version=1000 + number, phase="Terminated"))

    async def _patch(self, _: object, key: Any, *__: object, **___: object) -> None:
        self.written.append(key.name)


def _context(**used: Any) -> control.ControllerContext:
    unused: dict[str, Any] = {field.name: NOBODY for field in dataclasses.fields(control.ControllerContext)}
    usual = {"feed": lambda _: None, "vacant_since": lambda: None}
    return control.ControllerContext(**{**unused, **usual, **used})


def test_an_object_that_was_missed_is_written_and_told_when_its_turn_comes() -> None:
    async def play() -> None:
        deaf = Deaf(2)
        assert await deaf.keep() == []
        assert await deaf.keep() == []  # the first portion
        assert await deaf.keep("i-2") == []  # nobody said so, and it is not its turn
        deaf.now += deaf.bookkeeper.pause()
        assert await deaf.keep("i-2") == ["gpu-002"]
        assert deaf.differences() == 1

    asyncio.run(play())


def test_objects_are_looked_at_a_portion_at_a_time_and_all_within_some_minutes() -> None:
    async def play() -> None:
        count = 3 * instance_writer.PORTION
        deaf = Deaf(count)
        everywhere = [one.id for one in deaf.members]
        await deaf.keep()
        found = [await deaf.keep(*everywhere)]
        for _ in range(2):
            deaf.now += deaf.bookkeeper.pause()
            found.append(await deaf.keep(*everywhere))
        assert [len(each) for each in found] == [instance_writer.PORTION] * 3
        assert len({name for each in found for name in each}) == count
        assert 3 * deaf.bookkeeper.pause() == rechecks.ALL_SECONDS

    asyncio.run(play())


class Account:
    """An account that is asked about instances, and answers when it is told to."""

    def __init__(self) -> None:
        self.seen = {"aws": NOBODY}
        self.questions: list[list[cloud.InstanceId]] = []
        self.answered: frozenset[cloud.InstanceId] = frozenset()
        self.told: dict[cloud.InstanceId, cloud.InstanceTimes] = {}

    def ask(self, instances: Mapping[cloud.InstanceId, object]) -> None:
        self.questions.append(sorted(instances))

    def asked(self) -> frozenset[cloud.InstanceId]:
        return self.answered

    def lives(self) -> Mapping[cloud.InstanceId, cloud.InstanceTimes]:
        return self.told

    def ends(self) -> dict[cloud.InstanceId, float]:
        return {}

    def listed_before(self) -> float | None:
        return None


def test_an_instance_that_is_asked_about_is_looked_at_again_once_an_answer_came() -> None:
    async def play() -> None:
        account: Any = Account()
        deaf = Deaf(3, account)
        gone = [one.id for one in deaf.members[:2]]
        deaf.members = deaf.members[2:]
        looked = await looks(deaf)
        assert looked == ["gpu-001", "gpu-002", "gpu-003"]  # the first look is at all of them
        assert await looks(deaf) == ["gpu-001", "gpu-002", "gpu-003"]  # and so is the first portion
        assert await looks(deaf) == []
        assert account.questions == [gone] * 3  # they are asked about until somebody answers
        account.answered = frozenset(gone[:1])
        assert await looks(deaf) == ["gpu-001"]  # nobody knows of it
        account.told = {gone[1]: cloud.InstanceTimes(launched_at=books.START, ended_at=books.START + 30, is_over=True)}
        assert "gpu-002" in await looks(deaf)
        assert account.questions[-1] == []

    async def looks(deaf: Deaf) -> list[str]:
        sight = deaf.bookkeeper.look(deaf.snapshot())
        deaf.written.clear()
        await deaf.bookkeeper.write(instance_records.decide(sight))
        for name in deaf.written:  # as the API server would
            deaf.end(name)
        return sorted(each.meta.key.name for each in sight.instances)

    asyncio.run(play())
