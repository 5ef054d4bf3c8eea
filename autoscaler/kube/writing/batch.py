"""Do the same to many objects: the first alone, then several at once, and no further than the first refusal.

What is refused to all, a right that is missing or a quota that is used, is asked for once and not a thousand times. An
object that has changed or gone meanwhile is its own trouble, and the others go on; but not where it is so of each.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from autoscaler.kube import port
from autoscaler.kube.writing import writer

AT_ONCE: Final = 16
"""So many calls of one batch are under way at once: others must not wait for the last of a thousand."""
PAUSE_SECONDS: Final = 1.0
"""After a server that was busy in the midst of a batch."""
IN_A_ROW: Final = 2
"""So many objects in a row that have changed or gone are no coincidence, unless others went well before: of many that
change all the time, some do so side by side."""
_SERVER_ERROR: Final = 500
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a batch."""

    done: int = 0
    failures: tuple[port.KubeError, ...] = ()

    @property
    def failure(self) -> port.KubeError | None:
        """Return what the batch was stopped by, else the first thing that went wrong."""
        return next((each for each in self.failures if not is_of_one(each)), next(iter(self.failures), None))


def is_of_one(error: port.KubeError) -> bool:
    """Tell whether an error says something of one object alone: it changed, is gone or is there already."""
    return isinstance(error, port.NotFoundError | port.ConflictError | port.AlreadyExistsError)


async def each(
    things: Iterable[T], do: Callable[[T], Awaitable[None]], *, go_on: Callable[[], bool] = lambda: True
) -> Outcome:
    """Do something to each thing, for as long as `go_on` says; FencedError if we may not act any more.

    A server that was busy in the midst of it is asked once more after a moment. What was not done by then is the
    caller's to try again.
    """
    batch = _Batch(iter(things), do, go_on)
    while True:
        before = batch.done
        stopped_by = await batch.carry_on()
        if stopped_by is None or batch.done == before or not _is_passing(stopped_by):
            break
        await asyncio.sleep(PAUSE_SECONDS)
    failures = (*batch.failures, stopped_by) if stopped_by is not None else tuple(batch.failures)
    return Outcome(done=batch.done, failures=failures)


async def all_of(things: Iterable[T], do: Callable[[T], Awaitable[None]]) -> None:
    """Do something to each thing; raise what went wrong, other than that one is gone."""
    outcome = await each(things, do)
    wrong = [error for error in outcome.failures if not isinstance(error, port.NotFoundError)]
    if wrong:
        raise wrong[-1]


class _Batch(Generic[T]):
    def __init__(self, left: Iterator[T], do: Callable[[T], Awaitable[None]], go_on: Callable[[], bool]) -> None:
        self.done = 0
        self.failures: list[port.KubeError] = []
        """What went wrong with one object alone."""
        self._in_a_row = 0
        self._left = left
        self._do = do
        self._go_on = go_on
        self._undone: list[T] = []
        self._stops: list[port.KubeError] = []
        self._fenced: list[writer.FencedError] = []

    async def carry_on(self) -> port.KubeError | None:
        """Go as far as possible, beginning with what was not done last time; return what stopped it, if anything."""
        self._left, self._undone = itertools.chain(self._undone, self._left), []
        self._stops.clear()
        before = self.done
        while self.done == before and await self._next():
            pass
        if self.done > before:
            async with asyncio.TaskGroup() as group:
                for _ in range(AT_ONCE):
                    group.create_task(self._work())
        if self._fenced:
            raise self._fenced[0]
        return self._stops[0] if self._stops else None

    async def _work(self) -> None:
        while await self._next():
            pass

    async def _next(self) -> bool:
        """Do the next thing; tell whether there was one."""
        if self._stops or self._fenced or not self._go_on():
            return False
        try:
            thing = next(self._left)
        except StopIteration:
            return False
        try:
            await self._do(thing)
            self.done += 1
            self._in_a_row = 0
        except port.KubeError as error:
            self._in_a_row += 1
            if is_of_one(error) and self._in_a_row < (AT_ONCE if self.done else IN_A_ROW):
                self.failures.append(error)
            else:
                self._stops.append(error)
                self._undone.append(thing)
        except writer.FencedError as error:
            self._fenced.append(error)
        return True


def _is_passing(error: port.KubeError) -> bool:
    """Tell whether the same call may well succeed in a moment."""
    if isinstance(error, port.UnreachableError | port.TooManyRequestsError):
        return True
    return isinstance(error, port.ApiError) and error.status >= _SERVER_ERROR
