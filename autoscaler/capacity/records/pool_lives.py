"""The lives of each pool's instances: those that last, and how long those took that are over. It decides nothing.

`LivesIndex` keeps this current with each change of the table; `lives` says the same of any objects, slowly.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from autoscaler.api.resources.instances import Instance
from autoscaler.capacity.records import accounting, instance_status
from autoscaler.kube import incremental, objects, overlay, store

Record = objects.Custom[Instance]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLives:
    """What the Instance objects of one pool say."""

    living: Mapping[str, Instance] = field(default_factory=dict)
    """Those whose instances are there, by name."""
    ended: int = 0
    """How many have a life that is over, and for how long these lasted."""
    ended_seconds: int = 0

    def mean_seconds(self) -> int | None:
        """Return how long lives that are over took on average, rounded up; None if there is none."""
        return -(-self.ended_seconds // self.ended) if self.ended else None


NONE = PoolLives()


def lives(instances: Iterable[Instance]) -> dict[str, PoolLives]:
    """Gather the lives of each pool."""
    by_pool: dict[str, list[Instance]] = {}
    for instance in instances:
        by_pool.setdefault(instance.spec.pool, []).append(instance)
    return {pool: _gathered(there) for pool, there in by_pool.items()}


def _gathered(there: Iterable[Instance]) -> PoolLives:
    group = _Lives()
    for instance in there:
        group.change(instance, 1)
    return group.frozen()


class LivesIndex:
    """The lives of all pools, kept current with a table of Instance objects."""

    def __init__(self, table: store.Table[Record]) -> None:
        self._index: incremental.IncrementalIndex[str, Record, _Lives] = incremental.IncrementalIndex(
            table, groups_of=_pools_of, make=_Lives
        )
        self._index.on_change.append(self._change)
        self._changed = set(self._index)
        self._frozen: Mapping[str, PoolLives] = {}

    def snapshot(self) -> Mapping[str, PoolLives]:
        """Return what the objects say now; later changes do not show. It costs what changed."""
        if self._changed:
            kept = {pool: there for pool, there in self._frozen.items() if pool not in self._changed}
            groups = {pool: self._index.get(pool) for pool in self._changed}
            self._frozen = kept | {pool: group.frozen() for pool, group in groups.items() if group is not None}
            self._changed.clear()
        return self._frozen

    said = snapshot

    def heal(self) -> None:
        """Make it anew from all objects."""
        self._index.heal()
        self._changed, self._frozen = set(self._index), {}

    def _change(self, pool: str) -> None:
        self._changed.add(pool)


@dataclass(slots=True)
class _Lives:
    """The same as `PoolLives`, to be changed."""

    living: dict[str, Instance] = field(default_factory=dict)
    ended: int = 0
    ended_seconds: int = 0
    records: int = 0
    _frozen: overlay.Overlaid[str, Instance] = field(init=False)

    def __post_init__(self) -> None:
        self._frozen = overlay.Overlaid(self.living)

    def frozen(self) -> PoolLives:
        return PoolLives(living=self._frozen.snapshot(), ended=self.ended, ended_seconds=self.ended_seconds)

    def add(self, record: Record) -> None:
        self.change(record.resource, 1)

    def remove(self, record: Record) -> None:
        self.change(record.resource, -1)

    def __len__(self) -> int:
        return self.records

    def change(self, instance: Instance, sign: int) -> None:
        """Take an object in, or give it up again."""
        self.records += sign
        seconds = instance_status.length_seconds(instance.status)
        if seconds is not None:
            self.ended += sign
            self.ended_seconds += sign * seconds
        if sign < 0:
            self.living.pop(instance.metadata.name, None)
        elif instance.status.phase in accounting.LIVING:
            self.living[instance.metadata.name] = instance
        self._frozen.note(instance.metadata.name)


def _pools_of(record: Record) -> Collection[str]:
    return (record.resource.spec.pool,)
