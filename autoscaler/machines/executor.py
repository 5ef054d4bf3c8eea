"""Carry out writes: many at once, and refused ones less and less often. It decides nothing.

Each object and step has one moment at which a refused write is tried again. Where several in a row of one sort are
refused and none succeeds, the rest of that sort is left for later: what is refused to all need not be asked for by all.
What has to be written again and again, since somebody else undoes it each time, is written less and less often too:
marks, what belongs to Machines, and the opening of a sleeper that somebody else ended.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import structlog

from autoscaler import backoff, control
from autoscaler.api.manifests import Manifest
from autoscaler.kube import port, writer
from autoscaler.machines.model import DeleteSleeper, OpenSleeper
from autoscaler.machines.writes import On, Step, Verb, Write

log = structlog.get_logger()
AT_ONCE: Final = 32
"""So many writes of one sort are under way at once."""
REFUSED_MAX: Final = 5
"""So many refusals in a row of one sort, and no success, end it for now."""
_BACKOFF: Final = backoff.Backoff(first_seconds=0.2, longest_seconds=60.0, factor=3.0)
_SORT_BACKOFF: Final = backoff.Backoff(first_seconds=0.2, longest_seconds=5.0)
_UNDONE_BACKOFF: Final = backoff.Backoff(first_seconds=1.0, longest_seconds=60.0)
REMEMBERED_MAX: Final = 20_000
"""So many objects are remembered with what was last written to them."""
ALIKE_MAX: Final = 8
"""So many different writes to one object are remembered: one may undo this and that by turns."""


@dataclass(slots=True)
class Outcomes:
    """What came of a number of writes."""

    done: list[Write] = field(default_factory=list)
    refused: list[tuple[Write, port.KubeError]] = field(default_factory=list)
    put_off: list[Write] = field(default_factory=list)
    """Not tried: it is too soon after a refusal."""


class Executor:
    """Writes to pods, nodes and what belongs to Machines."""

    def __init__(self, context: control.ControllerContext, targets: Mapping[On, writer.Target[Any]]) -> None:
        self._context = context
        self._targets = targets
        self._places = backoff.Retries(context.clock, _BACKOFF)
        self._sorts = backoff.Retries(context.clock, _SORT_BACKOFF)
        self._undone = backoff.Retries(context.clock, _UNDONE_BACKOFF)
        self._last: dict[str, list[Manifest]] = {}
        """What was last written for good to each object, newest last."""
        self._fenced: writer.FencedError | None = None

    async def carry_out(self, writes: Iterable[Write]) -> Outcomes:
        """Try each write that is due; FencedError if we may not act any more."""
        outcomes, sorts = Outcomes(), defaultdict[str, list[Write]](list)
        for write in writes:
            (sorts[_sort(write)] if self.due_at(write) is None else outcomes.put_off).append(write)
        async with asyncio.TaskGroup() as tasks:
            for sort, group in sorts.items():
                tasks.create_task(self._all(sort, group, outcomes))
        if self._fenced is not None:
            fenced, self._fenced = self._fenced, None
            raise fenced
        return outcomes

    def due_at(self, write: Write) -> float | None:
        """Return when a write may be tried again, on the monotonic clock; None: now."""
        asked = [(self._places, _place(write)), (self._sorts, _sort(write))]
        if self._is_repeated(write):
            asked.append((self._undone, _lasting(write)))
        times = [retries.next_at(name) for retries, name in asked if retries.holds(name)]
        return max((at for at in times if at is not None), default=None)

    async def _all(self, sort: str, group: Sequence[Write], outcomes: Outcomes) -> None:
        left, in_a_row = iter(group), 0

        async def work() -> None:
            nonlocal in_a_row
            while in_a_row < REFUSED_MAX and self._fenced is None and (write := next(left, None)) is not None:
                in_a_row = 0 if await self._one(write, outcomes) else in_a_row + 1

        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(AT_ONCE, len(group))):
                tasks.create_task(work())
        outcomes.put_off.extend(left)
        self._sorts.note(sort, is_done=in_a_row < REFUSED_MAX)

    async def _one(self, write: Write, outcomes: Outcomes) -> bool:
        try:
            await self._send(write)
        except port.KubeError as error:
            outcomes.refused.append((write, error))
            self._places.note(_place(write), is_done=False)
            log.info("write_refused", step=write.step, on=write.on, key=write.key, error=str(error))
            return False
        except writer.FencedError as error:
            self._fenced = error
            return False
        outcomes.done.append(write)
        self._places.note(_place(write), is_done=True)
        self._remember(write)
        return True

    def _is_repeated(self, write: Write) -> bool:
        return _is_lasting(write) and write.body in self._last.get(_lasting(write), ())

    def _remember(self, write: Write) -> None:
        if _is_lasting(write):
            place = _lasting(write)
            self._undone.note(place, is_done=not self._is_repeated(write))
            before = [body for body in self._last.pop(place, []) if body != write.body]
            self._last[place] = [*before, write.body][-ALIKE_MAX:]
            if len(self._last) > REMEMBERED_MAX:
                del self._last[next(iter(self._last))]
        elif isinstance(write.command, DeleteSleeper):  # the next of its name is opened because we ended this one
            place = _lasting(replace(write, step=Step.OPEN, verb=Verb.PATCH))
            self._last.pop(place, None)
            self._undone.note(place, is_done=True)

    async def _send(self, write: Write) -> None:
        target, writes = self._targets[write.on], self._context.writer
        only_if = writer.Precondition(uid=write.uid, resource_version=write.version)
        match write.verb:
            case Verb.CREATE:
                await writes.create(target, write.body, attempts=1)
            case Verb.PATCH:
                await writes.patch(target, write.key, write.body, only_if=only_if, attempts=1)
            case Verb.PATCH_STATUS:
                changes = {"status": dict(write.body)}
                await writes.patch(target, write.key, changes, only_if=only_if, subresource="status", attempts=1)
            case Verb.DELETE:
                await writes.delete(target, write.key, only_if=only_if, attempts=1)


def _is_lasting(write: Write) -> bool:
    """Tell whether something stays as it is written, if nobody undoes it."""
    return write.step in {Step.MARK, Step.MAKE} or isinstance(write.command, OpenSleeper)


def _sort(write: Write) -> str:
    return f"{write.step} {write.verb} {write.on}"


def _place(write: Write) -> str:
    return f"{_lasting(write)} {write.uid}"


def _lasting(write: Write) -> str:
    """Name what is written to, whichever object of that name it is."""
    return f"{_sort(write)} {write.key.namespace}/{write.key.name}"
