"""Instance objects as decisions look them up: whose nodes were ready once, and who has been idle since when.

`RecordIndex` keeps this current with each change of the table; `indexed` says the same of any objects, slowly.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from autoscaler.api.resources.instances import Instance, InstanceStatus, Phase
from autoscaler.capacity.records import accounting
from autoscaler.kube import objects, store

Record = objects.Custom[Instance]
_WERE_READY: Final = frozenset({Phase.READY, Phase.DRAINING})


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedRecords:
    """What the objects say at one moment, by the provider's names of instances."""

    were_ready: frozenset[str] = frozenset()
    """Instances whose nodes were finished once: ready, with all that they were to have."""
    idle_since: Mapping[str, float] = field(default_factory=dict)


def indexed(instances: Iterable[Instance]) -> IndexedRecords:
    """Index objects."""
    said = [each.status for each in instances]
    return IndexedRecords(
        were_ready=frozenset(one for status in said for one in _ready_ids(status)),
        idle_since={one: _idle_since(status) for status in said for one in _idle_ids(status)},
    )


class RecordIndex:
    """The Instance objects of a table."""

    def __init__(self, table: store.Table[Record]) -> None:
        self._table = table
        self._ready = table.index(_ready)
        self._idle = table.index(_idle)
        self.heal()
        table.listen(self._change)

    def heal(self) -> None:
        """Make it anew from all objects."""
        there = indexed(record.resource for record in self._table)
        self._idle_since = dict(there.idle_since)
        self._were_ready: frozenset[str] | None = there.were_ready
        self._frozen: IndexedRecords | None = there

    def snapshot(self) -> IndexedRecords:
        """Return what the objects say now; later changes do not show. Free while nothing of this changes."""
        if self._were_ready is None:
            self._were_ready = frozenset(self._ready)
        if self._frozen is None:
            self._frozen = IndexedRecords(were_ready=self._were_ready, idle_since=dict(self._idle_since))
        return self._frozen

    said = snapshot

    def _change(self, old: Record | None, new: Record | None) -> None:
        if _said(_ready, old) != _said(_ready, new):
            self._were_ready = self._frozen = None
        for one in {*_said(_idle, old), *_said(_idle, new)}:
            self._frozen = None
            records = list(self._idle.get(one).values())
            if records:
                self._idle_since[one] = _idle_since(records[-1].resource.status)
            else:
                self._idle_since.pop(one, None)


def _said(of: Callable[[Record], Collection[str]], record: Record | None) -> Collection[str]:
    return of(record) if record is not None else ()


def _ready(record: Record) -> Collection[str]:
    return _ready_ids(record.resource.status)


def _idle(record: Record) -> Collection[str]:
    return _idle_ids(record.resource.status)


def _ready_ids(status: InstanceStatus) -> Collection[str]:
    return (status.provider_id,) if status.phase in _WERE_READY and status.provider_id else ()


def _idle_ids(status: InstanceStatus) -> Collection[str]:
    is_idle = status.idle_since is not None and status.phase in accounting.LIVING
    return (status.provider_id,) if is_idle and status.provider_id else ()


def _idle_since(status: InstanceStatus) -> float:
    return status.idle_since.timestamp() if status.idle_since is not None else 0.0
