"""Keep the books: Instance objects that tell of every EC2 instance's lives and of what was spent on whom.

What they should say is decided in `instance_records`; here it is written, each status as one write onto the very
version it was made from. A write that fails is made anew in the next cycle, from what the object says then.
"""

import asyncio
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

import structlog

from autoscaler import control
from autoscaler.api import resources
from autoscaler.api.resources.pools import InstancePoolSpec
from autoscaler.api.settings.node_groups import NodeGroupKey
from autoscaler.capacity.accounts import account_reader
from autoscaler.capacity.indexes import afresh, remembered
from autoscaler.capacity.records import (
    accounting,
    instance_records,
    instance_status,
    month_sums,
    pool_lives,
    rechecks,
    record_changes,
    record_index,
)
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.cloud import port as cloud
from autoscaler.cloud.prices import Prices
from autoscaler.kube import kinds, objects, port, store
from autoscaler.kube.writing import writer

log = structlog.get_logger()
INSTANCES: Final = kinds.custom(resources.Instance)
PORTION: Final = 100
"""So many objects of which nothing changed can be looked at in one cycle."""
Record = objects.Custom[resources.Instance]


class InstanceWriter:
    """Writes Instance objects."""

    def __init__(
        self,
        context: control.ControllerContext,
        known: account_reader.AccountReader,
        *,
        pods: store.Table[objects.Pod],
        nodes: store.Table[objects.Node],
        beside: Mapping[str, afresh.Afresh[Any]],
    ) -> None:
        """Take also what else is to be made afresh in turn with the books."""
        self._context = context
        self._accounts = known
        self._table: store.Table[Record] = context.watch(INSTANCES, objects.custom(resources.Instance))
        self._target = writer.Target(resource=INSTANCES, decode=objects.custom(resources.Instance), table=self._table)
        self._index = record_index.RecordIndex(self._table)
        self._resources = remembered.Remembered(_Resources)
        self._sums = month_sums.MonthSums(self._table)
        self._lives = pool_lives.LivesIndex(self._table)
        self._changes = record_changes.RecordChanges(self._table, pods=pods, nodes=nodes)
        self._is_first = True
        self._is_finished = False
        """Whether the last look came to its end; where it did not, nobody knows what was written."""
        own = {
            "record_index": afresh.Afresh(self._table, self._index, record_index.RecordIndex, portion=PORTION),
            "month_sums": afresh.Afresh(self._table, self._sums, month_sums.MonthSums, portion=PORTION),
            "pool_lives": afresh.Afresh(self._table, self._lives, pool_lives.LivesIndex, portion=PORTION),
        }
        self._rechecks = rechecks.Rechecks(context, {**beside, **own})
        self._unseen: deque[objects.Key] = deque()
        """Objects that are yet to be looked at although nothing of them changed."""
        self._unchanged: frozenset[str] = frozenset()
        """Those of the present look of which nothing is known to have changed."""
        self._questions: dict[cloud.InstanceId, NodeGroupKey | None] = {}
        """Instances that the accounts are asked about, and the groups they are or were in."""
        self.durations: dict[accounting.ScopePool, accounting.Durations] = {}
        """How long pods of a scope run in a pool, from those that ended while we led."""

    def instances(self) -> Collection[resources.Instance]:
        """Return all Instance objects; the same collection while none of them changes."""
        return self._resources(self._table.snapshot())

    def indexed(self) -> record_index.IndexedRecords:
        """Return the same, by instance."""
        return self._index.snapshot()

    def lives(self) -> Mapping[str, pool_lives.PoolLives]:
        """Return the same, by pool."""
        return self._lives.snapshot()

    def used(self, now: float, pools: Mapping[str, InstancePoolSpec], prices: Prices) -> accounting.MonthToDate:
        """Return what was used this month."""
        return self._sums.to_date(now, pools, prices)

    def pause(self) -> float:
        """Return after how many seconds the next objects should be looked at, whether anything changed or not."""
        return self._rechecks.pause()

    def look(self, snapshot: Snapshot) -> instance_records.Sight:
        """Return what is to be decided on: what is seen of instances of which anything may have changed."""
        was_finished, self._is_finished = self._is_finished, False
        return self._sight(snapshot, is_everything=not was_finished)

    async def write(self, plan: instance_records.Plan) -> bool:
        """Write what was decided; False: not all could be written, and it must be done again."""
        missed = {each.name for each in plan.changes if not each.is_time_alone}
        self._rechecks.tell("record_changes", self._unchanged & missed)
        self._questions |= {question.instance: question.group for question in plan.questions}
        self._accounts.ask(self._questions)
        created = all(await asyncio.gather(*map(self._create, plan.creates)))
        changed = all(await asyncio.gather(*map(self._change, plan.changes)))
        await asyncio.gather(*map(self._delete, plan.deletes))  # what fails is decided anew when it is looked at again
        self._is_first, self._is_finished = self._is_first and bool(plan.creates), True
        return created and changed

    def _sight(self, snapshot: Snapshot, *, is_everything: bool) -> instance_records.Sight:
        """Return what is seen of instances of which anything changed, and of some others; or of all."""
        self._note_answers()
        changed = self._changes.take(snapshot, self._accounts.lives())
        if is_everything:
            self._unchanged, changed, self._questions = frozenset(), tuple(self._table), {}
        else:
            others = self._others(changed)
            self._unchanged = frozenset(key.name for key in others)
            changed = (*changed, *others.values())
            snapshot = self._changes.narrowed(snapshot, changed)
            self._questions = self._changes.unasked(self._questions, changed)
        return self.sight(snapshot, changed)

    def _note_answers(self) -> None:
        """Have those looked at of whom accounts could tell nothing; what they tell, or list, is seen as a change."""
        lives, asked = self._accounts.lives(), self._accounts.asked()
        for one in self._questions:
            if one in asked and one not in lives:
                self._changes.note_instance(one)

    def sight(self, snapshot: Snapshot, records: tuple[Record, ...] | None = None) -> instance_records.Sight:
        """Return what is seen of the instances of these objects; None: of all."""
        return instance_records.Sight(
            snapshot=snapshot,
            instances=tuple(self._table) if records is None else records,
            taken=self._changes.taken_numbers(),
            lives=self._accounts.lives(),
            asked=self._accounts.asked(),
            accounts=frozenset(self._accounts.seen),
            ends=self._accounts.ends(),
            listed_before=self._accounts.listed_before(),
            unwatched_since=self._context.vacant_since() if self._is_first else None,
            prices=snapshot.prices,
        )

    def _others(self, changed: Iterable[Record]) -> dict[objects.Key, Record]:
        """Return the next objects to look at of those of which nothing changed, if it is time."""
        if not self._rechecks.go_on():
            return {}
        if not self._unseen:
            self._unseen.extend(record.meta.key for record in self._table)
        keys = [self._unseen.popleft() for _ in range(min(self._rechecks.share_of(self._table), len(self._unseen)))]
        found = [record for key in keys if (record := self._table.get(key)) is not None]
        others = {key: each for record in found for key, each in self._changes.same(record).items()}
        return {key: others[key] for key in others.keys() - {record.meta.key for record in changed}}

    async def _create(self, create: instance_records.Create) -> bool:
        try:
            await self._context.writer.create(self._target, create.manifest())
        except port.AlreadyExistsError:
            return True
        except port.KubeError as error:
            log.warning("instance_not_recorded", instance=create.name, error=str(error))
            return False
        self._context.wake(account_reader.KIND, objects.Key("", create.name))  # it gets its status now
        return True

    async def _change(self, change: instance_records.Change) -> bool:
        only_if = writer.Precondition(uid=change.uid, resource_version=change.resource_version)
        try:
            await self._context.writer.patch(
                self._target,
                objects.Key("", change.name),
                {"status": change.patch()},
                only_if=only_if,
                subresource="status",
            )
        except port.KubeError as error:
            log.info("instance_not_written", instance=change.name, error=str(error))
            self._changes.note(change.name)
            return False
        for sample in change.samples:
            self._learn(change.pool, sample)
        return True

    async def _delete(self, delete: instance_records.Delete) -> None:
        only_if = writer.Precondition(uid=delete.uid, resource_version=delete.resource_version)
        try:
            await self._context.writer.delete(self._target, objects.Key("", delete.name), only_if=only_if)
        except port.KubeError as error:
            log.info("instance_not_deleted", instance=delete.name, error=str(error))

    def _learn(self, pool: str, sample: instance_status.Sample) -> None:
        key = accounting.ScopePool(sample.scope or "", pool)
        self.durations[key] = self.durations.get(key, accounting.Durations()).with_sample(sample.seconds)


class _Resources(Collection[resources.Instance]):
    """What objects say, read only when somebody goes through them."""

    def __init__(self, records: Mapping[objects.Key, Record]) -> None:
        self._records = records

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[resources.Instance]:
        return (record.resource for record in self._records.values())

    def __contains__(self, one: object) -> bool:
        return any(each is one for each in self)
