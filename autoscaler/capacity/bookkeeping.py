"""Keep the books: Instance objects that tell of every EC2 instance's lives and of what was spent on whom.

What they should say is decided in `lives`; here it is written, each status as one write onto the very version it was
made from. A write that fails is made anew in the next cycle, from what the object says then.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

import structlog

from autoscaler import control
from autoscaler.api import resources
from autoscaler.api.resources.pools import InstancePoolSpec
from autoscaler.capacity import accounting, clouds, life, lives, month_sums, record_changes, record_index, remembered
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.cloud.prices import Prices
from autoscaler.kube import kinds, objects, port, store, writer

log = structlog.get_logger()
INSTANCES: Final = kinds.custom(resources.Instance)
ALL_SECONDS: Final = 60.0
"""How often all objects are looked at, whether anything of them changed or not."""
Record = objects.Custom[resources.Instance]


class Bookkeeper:
    """Writes Instance objects."""

    def __init__(
        self,
        context: control.ControllerContext,
        known: clouds.Clouds,
        *,
        pods: store.Table[objects.Pod],
        nodes: store.Table[objects.Node],
    ) -> None:
        self._context = context
        self._clouds = known
        self._table: store.Table[Record] = context.watch(INSTANCES, objects.custom(resources.Instance))
        self._target = writer.Target(resource=INSTANCES, decode=objects.custom(resources.Instance), table=self._table)
        self._instances = remembered.Remembered(_resources)
        self._index = record_index.RecordIndex(self._table)
        self._sums = month_sums.MonthSums(self._table)
        self._changes = record_changes.RecordChanges(self._table, pods=pods, nodes=nodes)
        self._is_first = True
        self._is_finished = False
        """Whether the last look came to its end; where it did not, nobody knows what was written."""
        self._all_seen_at = 0.0
        """When all objects were last looked at, by the clock that never goes back."""
        self.durations: dict[accounting.ScopePool, accounting.Durations] = {}
        """How long pods of a scope run in a pool, from those that ended while we led."""

    def instances(self) -> tuple[resources.Instance, ...]:
        """Return all Instance objects."""
        return self._instances(self._table.snapshot())

    def indexed(self) -> record_index.IndexedRecords:
        """Return the same, by instance."""
        return self._index.snapshot()

    def used(self, now: float, pools: Mapping[str, InstancePoolSpec], prices: Prices) -> accounting.MonthToDate:
        """Return what was used this month."""
        return self._sums.to_date(now, pools, prices)

    async def keep(self, snapshot: Snapshot) -> bool:
        """Bring the books up to date with what is seen; False: not all could be written, and it must be done again."""
        was_finished, self._is_finished = self._is_finished, False
        plan, is_written = await self._write(snapshot, is_everything=not was_finished)
        if plan.creates:  # an object is made without a status: it gets it now, since our own writes do not wake us
            _, is_filled = await self._write(snapshot, is_everything=True)
            is_written = is_written and is_filled
        self._is_first, self._is_finished = False, True
        return is_written

    async def _write(self, snapshot: Snapshot, *, is_everything: bool) -> tuple[lives.Plan, bool]:
        sight = self._sight(snapshot, is_everything=is_everything)
        plan: lives.Plan = await self._context.plan(lives.decide, sight)
        self._clouds.ask({question.instance: question.group for question in plan.questions})
        for question in plan.questions:
            self._changes.note_instance(question.instance)
        written = await asyncio.gather(
            *(self._create(each) for each in plan.creates), *(self._change(each) for each in plan.changes)
        )
        return plan, all(written)

    def _sight(self, snapshot: Snapshot, *, is_everything: bool) -> lives.Sight:
        """Return what is seen of instances of which anything changed; or of all, which is due once in a while."""
        told = self._clouds.lives()
        changed = self._changes.take(snapshot, told)
        if is_everything or self._is_due():
            self._all_seen_at = self._context.clock.monotonic()
            changed = tuple(self._table)
        else:
            snapshot = self._changes.narrowed(snapshot, changed)
        return lives.Sight(
            snapshot=snapshot,
            instances=changed,
            lives=told,
            asked=self._clouds.asked(),
            accounts=frozenset(self._clouds.seen),
            ends=self._clouds.ends(),
            listed_before=self._clouds.listed_before(),
            unwatched_since=self._context.vacant_since() if self._is_first else None,
            prices=snapshot.prices,
        )

    def _is_due(self) -> bool:
        """Tell whether all objects should be looked at: after a while, and while an instance has none."""
        is_late = self._context.clock.monotonic() >= self._all_seen_at + ALL_SECONDS
        return is_late or self._changes.has_unrecorded()

    async def _create(self, create: lives.Create) -> bool:
        try:
            await self._context.writer.create(self._target, create.manifest())
        except port.AlreadyExistsError:
            return True
        except port.KubeError as error:
            log.warning("instance_not_recorded", instance=create.name, error=str(error))
            return False
        return True

    async def _change(self, change: lives.Change) -> bool:
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

    def _learn(self, pool: str, sample: life.Sample) -> None:
        key = accounting.ScopePool(sample.scope or "", pool)
        self.durations[key] = self.durations.get(key, accounting.Durations()).with_sample(sample.seconds)


def _resources(records: Mapping[objects.Key, Record]) -> tuple[resources.Instance, ...]:
    return tuple(record.resource for record in records.values())
