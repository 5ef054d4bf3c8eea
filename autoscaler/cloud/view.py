"""What the capacity controller knows of a cloud: the last whole reading, with our own writes applied to it.

A reading that fails leaves the old one, which tells its age; it is never half of a new one. One write is in flight per
group. A write that nobody answered counts as landed until two refreshes later. It decides nothing.
"""

import asyncio
import dataclasses
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from autoscaler import clock
from autoscaler.cloud import port

REFRESHES_KEPT: Final = 2
"""How long a write without an answer counts as landed."""
WINDOW_SECONDS: Final = 900.0
"""How far back failed launches are asked for."""
CLOCK_SECONDS: Final = 5.0
"""So far may the provider's clock be behind ours: a launch fails after it was asked for."""
AT_ONCE: Final = 4
"""How many groups' activities are read at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A whole list of node groups, and what is known of those that lack instances."""

    read_at: float
    """When the list was asked for."""
    groups: Mapping[port.GroupName, port.NodeGroup]
    unusable: tuple[port.Unusable, ...] = ()
    failures: Mapping[port.GroupName, tuple[port.Activity, ...]] = field(default_factory=dict)
    """Failed launches of groups that lack instances, newest first."""
    unread: Mapping[port.GroupName, str] = field(default_factory=dict)
    """Groups that lack instances, of which nobody could tell why, and what came instead."""


@dataclass(slots=True, kw_only=True)
class _Unanswered:
    desired: int
    refreshes_left: int = REFRESHES_KEPT


@dataclass(slots=True)
class _Group:
    """What is kept for a group besides its reading."""

    writing: asyncio.Lock = field(default_factory=asyncio.Lock)
    written: int = 0
    """The number of our last write to it."""
    unanswered: _Unanswered | None = None
    raised_at: float = 0.0
    """When we last asked it for more while it lacked nothing: whatever failed before is another launch's."""


class View:
    """Reads a cloud and remembers it."""

    def __init__(self, cloud: port.Cloud, time: clock.Clock, *, window_seconds: float = WINDOW_SECONDS) -> None:
        self.cloud = cloud
        self._clock = time
        self._window_seconds = window_seconds
        self._reading: Reading | None = None
        self._kept: dict[port.GroupName, _Group] = {}
        self._writes = 0

    @property
    def reading(self) -> Reading | None:
        """The last whole reading, with our writes applied; None before the first."""
        return self._reading

    async def refresh(self) -> Reading:
        """Read everything; raise CloudError and keep the old reading if that fails."""
        read_at, began = self._clock.now(), self._writes
        listing = await self.cloud.groups()
        self._count_refresh(began)
        groups = self._merged(listing.groups, began)
        self._forget(groups)
        short = [name for name, group in groups.items() if group.missing]
        old = self._reading.failures if self._reading else {}
        self._reading = Reading(
            read_at=read_at,
            groups=MappingProxyType(groups),
            unusable=listing.unusable,
            failures=MappingProxyType({name: old[name] for name in short if name in old}),
        )
        failures, unread = await self._failures(short, since=read_at - self._window_seconds)
        newest = self._reading  # a write may have landed while activities were read
        self._reading = dataclasses.replace(newest, failures=MappingProxyType(failures), unread=unread)
        return self._reading

    async def reread(self, names: Collection[port.GroupName]) -> Reading:
        """Read some groups again, before a write depends on their size; raise CloudError if that fails."""
        began = self._writes
        listing = await self.cloud.groups(sorted(names))
        found = self._merged(listing.groups, began)
        kept = {name: group for name, group in self._known().groups.items() if name not in names}
        groups = dict(sorted({**kept, **found}.items()))
        self._reading = dataclasses.replace(self._known(), groups=MappingProxyType(groups))
        return self._reading

    async def set_desired(self, name: port.GroupName, desired: int) -> port.Outcome:
        """Set a group's desired capacity, and know it at once."""
        kept = self._of(name)
        async with kept.writing:
            group = self._known().groups.get(name)
            if group is None:
                return _not_listed(name)
            if desired > group.desired and not group.missing:
                kept.raised_at = self._clock.now()
            outcome = await self.cloud.set_desired(group, desired)
            match outcome.verdict:
                case port.Verdict.LANDED:
                    kept.unanswered = None
                case port.Verdict.UNANSWERED:
                    kept.unanswered = _Unanswered(desired=desired)
                case port.Verdict.NOT_DONE:
                    pass  # whatever was in doubt before still is
            self._wrote(kept, outcome, before=group)
            return outcome

    async def terminate(self, name: port.GroupName, instance: port.InstanceId, *, decrement: bool) -> port.Outcome:
        """End an instance, and know it at once."""
        kept = self._of(name)
        async with kept.writing:
            group = self._known().groups.get(name)
            if group is None:
                return _not_listed(name)
            outcome = await self.cloud.terminate(group, instance, decrement=decrement)
            if decrement and outcome.verdict is port.Verdict.LANDED and kept.unanswered is not None:
                kept.unanswered.desired -= 1
            self._wrote(kept, outcome, before=group)
            return outcome

    def _wrote(self, kept: _Group, outcome: port.Outcome, *, before: port.NodeGroup) -> None:
        self._writes += 1
        kept.written = self._writes
        after = outcome.group or before
        if kept.unanswered is not None:
            after = after.with_desired(kept.unanswered.desired)
        groups = {**self._known().groups, before.name: after}
        self._reading = dataclasses.replace(self._known(), groups=MappingProxyType(groups))

    def _merged(self, read: Iterable[port.NodeGroup], began: int) -> dict[port.GroupName, port.NodeGroup]:
        """Return groups as read, but as we know them where we have written meanwhile: the answer may be older.

        Of those that have not changed it is the very object as before, so that whoever remembers it need not compare.
        """
        known = self._reading.groups if self._reading else {}
        merged = {}
        for group in read:
            kept = self._kept.get(group.name)
            if kept is not None and (kept.written > began or kept.writing.locked()):
                merged[group.name] = known.get(group.name, group)
            elif kept is not None and kept.unanswered is not None:
                merged[group.name] = group.with_desired(kept.unanswered.desired)
            else:
                merged[group.name] = group
        return {name: known[name] if known.get(name) == group else group for name, group in merged.items()}

    def _count_refresh(self, began: int) -> None:
        """Count a refresh for the writes before it that have no answer."""
        for kept in self._kept.values():
            if kept.unanswered is not None and kept.written <= began:
                kept.unanswered.refreshes_left -= 1
                if kept.unanswered.refreshes_left <= 0:
                    kept.unanswered = None

    def _forget(self, groups: Collection[port.GroupName]) -> None:
        gone = [name for name, kept in self._kept.items() if name not in groups and not kept.writing.locked()]
        for name in gone:
            del self._kept[name]

    async def _failures(
        self, names: Collection[port.GroupName], *, since: float
    ) -> tuple[dict[port.GroupName, tuple[port.Activity, ...]], dict[port.GroupName, str]]:
        """Ask why groups lack instances; one that cannot be asked does not hold up the others."""
        failures: dict[port.GroupName, tuple[port.Activity, ...]] = {}
        unread: dict[port.GroupName, str] = {}
        slots = asyncio.Semaphore(AT_ONCE)

        async def ask(name: port.GroupName) -> None:
            async with slots:
                try:
                    found = await self.cloud.activities(name, since=max(since, self._raised_at(name)))
                except port.CloudError as error:
                    unread[name] = error.message
                    return
            failures[name] = tuple(one for one in found if one.failure is not None)

        async with asyncio.TaskGroup() as tasks:
            for name in names:
                tasks.create_task(ask(name), name=f"activities of {name}")
        return dict(sorted(failures.items())), dict(sorted(unread.items()))

    def _raised_at(self, name: port.GroupName) -> float:
        kept = self._kept.get(name)
        return kept.raised_at - CLOCK_SECONDS if kept is not None else 0.0

    def _of(self, name: port.GroupName) -> _Group:
        return self._kept.setdefault(name, _Group())

    def _known(self) -> Reading:
        if self._reading is None:
            raise RuntimeError("the cloud was not read yet: refresh the view before using it")
        return self._reading


def _not_listed(name: port.GroupName) -> port.Outcome:
    error = port.CloudError(
        port.Reason.NOT_FOUND,
        f"nothing was sent to {name}: it is not among this cluster's node groups; see its tags in AWS",
    )
    return port.Outcome(verdict=port.Verdict.NOT_DONE, group=None, error=error)
