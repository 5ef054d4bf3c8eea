"""Carry out writes: many at once, and refused ones less and less often. It decides nothing.

Each object and step has one moment at which a refused write is tried again. Where several in a row of one sort are
refused and none succeeds, the rest of that sort is left for later: what is refused to all need not be asked for by all.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

import structlog

from autoscaler import backoff, clock
from autoscaler.control import writes
from autoscaler.kube import port
from autoscaler.kube.writing import writer

log = structlog.get_logger()
AT_ONCE: Final = 32
"""So many writes of one sort are under way at once."""
REFUSED_MAX: Final = 5
"""So many refusals in a row of one sort, and no success, end it for now."""
SLOW_SECONDS: Final = 2.0
"""A refusal that took so long counts twice: all other writes waited for it."""
_BACKOFF: Final = backoff.Backoff(first_seconds=0.2, longest_seconds=60.0, factor=3.0)
_SORT_BACKOFF: Final = backoff.Backoff(first_seconds=0.2, longest_seconds=5.0)
"""Others of the same sort wait no longer than that: most refusals are about one object."""
W = TypeVar("W", bound=writes.Write)


@dataclass(slots=True)
class Outcomes(Generic[W]):
    """What came of a number of writes."""

    done: list[W] = field(default_factory=list)
    refused: list[tuple[W, port.KubeError]] = field(default_factory=list)
    put_off: list[W] = field(default_factory=list)
    """Not tried: it is too soon after a refusal."""

    @property
    def failed(self) -> list[W]:
        """Those that were refused or put off."""
        return [*self.put_off, *(write for write, _ in self.refused)]


class Executor(Generic[W]):
    """Carries out the writes of one controller."""

    def __init__(self, time: clock.Clock, send: Callable[[W], Awaitable[None]]) -> None:
        self._clock = time
        self._send = send
        self._places = backoff.Retries(time, _BACKOFF)
        self._sorts = backoff.Retries(time, _SORT_BACKOFF)
        self._fenced: writer.FencedError | None = None

    async def carry_out(self, chosen: Iterable[W]) -> Outcomes[W]:
        """Try each write that is due; FencedError if we may not act any more."""
        outcomes: Outcomes[W] = Outcomes()
        sorts: defaultdict[Hashable, list[W]] = defaultdict(list)
        for write in chosen:
            (sorts[write.sort] if self.due_at(write) is None else outcomes.put_off).append(write)
        async with asyncio.TaskGroup() as tasks:
            for sort, group in sorts.items():
                tasks.create_task(self._all(sort, group, outcomes))
        if self._fenced is not None:
            fenced, self._fenced = self._fenced, None
            raise fenced
        return outcomes

    def due_at(self, write: W) -> float | None:
        """Return when a write may be tried again, on the monotonic clock; None: now."""
        asked = ((self._places, _place(write)), (self._sorts, write.sort))
        times = [retries.next_at(name) for retries, name in asked if retries.holds(name)]
        return max((at for at in times if at is not None), default=None)

    def failures(self, write: W) -> int:
        """Return how often in a row a write to this object for this step was refused."""
        return self._places.failures(_place(write))

    async def _all(self, sort: Hashable, group: Sequence[W], outcomes: Outcomes[W]) -> None:
        """Write one sort: those that were refused before come last, so that they keep nobody waiting."""
        left, in_a_row = iter(sorted(group, key=self.failures)), 0

        async def work() -> None:
            nonlocal in_a_row
            while in_a_row < REFUSED_MAX and self._fenced is None and (write := next(left, None)) is not None:
                in_a_row = in_a_row + 1 if await self._is_refused(write, outcomes) else 0

        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(AT_ONCE, len(group))):
                tasks.create_task(work())
        outcomes.put_off.extend(left)
        self._sorts.note(sort, is_done=in_a_row < REFUSED_MAX)

    async def _is_refused(self, write: W, outcomes: Outcomes[W]) -> bool:
        """Try one write; tell whether it was refused."""
        began = self._clock.monotonic()
        try:
            await self._send(write)
        except port.KubeError as error:
            outcomes.refused.append((write, error))
            self._note_refusal(write, error, seconds=self._clock.monotonic() - began)
            return True
        except writer.FencedError as error:
            self._fenced = error
        else:
            outcomes.done.append(write)
            self._places.note(_place(write), is_done=True)
        return False

    def _note_refusal(self, write: W, error: port.KubeError, *, seconds: float) -> None:
        place = _place(write)
        for _ in range(2 if seconds >= SLOW_SECONDS else 1):
            self._places.note(place, is_done=False)
        pause = (self._places.next_at(place) or 0.0) - self._clock.monotonic()
        log.info("write_refused", step=write.step, on=write.on, key=write.key, error=str(error), again_in_seconds=pause)


def _place(write: writes.Write) -> Hashable:
    """Name what has one moment at which it is tried again."""
    return write.sort, write.key, write.uid
