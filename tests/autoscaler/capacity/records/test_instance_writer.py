"""Objects of which nobody said that anything changed are looked at too, a few at a time: what was missed is healed."""

import asyncio
import dataclasses
from types import SimpleNamespace
from typing import Any

from autoscaler import control
from autoscaler.capacity.accounts import account_reader
from autoscaler.capacity.records import instance_records, instance_writer, rechecks
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.control import metrics
from autoscaler.kube import store
from tests.autoscaler.capacity import books

NOBODY: Any = None


class Deaf:
    """A bookkeeper that hears of no pod, with objects of so many instances that all are ready."""

    def __init__(self, count: int) -> None:
        self.now = 1000.0
        self.written: list[str] = []
        self.measures: list[metrics.Measure] = []
        records: store.Table[Any] = store.Table()
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
        self.bookkeeper = instance_writer.InstanceWriter(
            context, account_reader.AccountReader(context, NOBODY), pods=store.Table(), nodes=store.Table(), beside={}
        )

    async def keep(self, *working: str) -> list[str]:
        """Keep the books while pods work on these nodes; return whose object was written."""
        self.written.clear()
        await self.bookkeeper.write(instance_records.decide(self.bookkeeper.look(self._snapshot(*working))))
        return sorted(self.written)

    def differences(self) -> float:
        told = [metric for measure in self.measures for metric in measure() if metric.name == rechecks.DIFFERENCES]
        return sum(sample.value for metric in told for sample in metric.samples)

    def _snapshot(self, *working: str) -> Snapshot:
        pods = [books.pod(f"p-{node}", node, started_at=books.START) for node in working]
        nodes = [books.node(one.id, one.provider_id, ready_at=books.START) for one in self.members]
        return books.sight(books.START + 60, groups=(books.group(*self.members),), nodes=nodes, pods=pods).snapshot

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
