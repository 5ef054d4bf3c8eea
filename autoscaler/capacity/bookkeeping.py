"""Keep the books: Instance objects that tell of every EC2 instance's lives and of what was spent on whom.

What they should say is decided in `lives`; here it is written, each status as one write onto the very version it was
made from. A write that fails is made anew in the next cycle, from what the object says then.
"""

import asyncio
from typing import Final

import structlog

from autoscaler import control
from autoscaler.api import resources
from autoscaler.capacity import accounting, clouds, life, lives
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.kube import kinds, objects, port, store, writer

log = structlog.get_logger()
INSTANCES: Final = kinds.custom(resources.Instance)
Record = objects.Custom[resources.Instance]


class Bookkeeper:
    """Writes Instance objects."""

    def __init__(self, context: control.ControllerContext, known: clouds.Clouds) -> None:
        self._context = context
        self._clouds = known
        self._table: store.Table[Record] = context.watch(INSTANCES, objects.custom(resources.Instance))
        self._target = writer.Target(resource=INSTANCES, decode=objects.custom(resources.Instance), table=self._table)
        self._is_first = True
        self.durations: dict[accounting.ScopePool, accounting.Durations] = {}
        """How long pods of a scope run in a pool, from those that ended while we led."""

    def instances(self) -> tuple[resources.Instance, ...]:
        """Return all Instance objects."""
        return tuple(each.resource for each in self._table)

    async def keep(self, snapshot: Snapshot) -> bool:
        """Bring the books up to date with what is seen; False: not all could be written, and it must be done again."""
        plan, is_written = await self._write(snapshot)
        if plan.creates:  # an object is made without a status: it gets it now, since our own writes do not wake us
            _, is_filled = await self._write(snapshot)
            is_written = is_written and is_filled
        self._is_first = False
        return is_written

    async def _write(self, snapshot: Snapshot) -> tuple[lives.Plan, bool]:
        sight = lives.Sight(
            snapshot=snapshot,
            instances=tuple(self._table),
            lives=self._clouds.lives(),
            asked=self._clouds.asked(),
            accounts=frozenset(self._clouds.seen),
            ends=self._clouds.ends(),
            listed_before=self._clouds.listed_before(),
            unwatched_since=self._context.vacant_since() if self._is_first else None,
            prices=snapshot.prices,
        )
        plan: lives.Plan = await self._context.plan(lives.decide, sight)
        self._clouds.ask({question.instance: question.group for question in plan.questions})
        written = await asyncio.gather(
            *(self._create(each) for each in plan.creates), *(self._change(each) for each in plan.changes)
        )
        return plan, all(written)

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
            return False
        for sample in change.samples:
            self._learn(change.pool, sample)
        return True

    def _learn(self, pool: str, sample: life.Sample) -> None:
        key = accounting.ScopePool(sample.scope or "", pool)
        self.durations[key] = self.durations.get(key, accounting.Durations()).with_sample(sample.seconds)
