"""Send the writes of machines, and leave alone for longer each time what somebody else undoes. It decides nothing.

When a refused write is tried again is the kit's to say (`control.executor`). What has to be written again and again,
since somebody else undoes it each time, is written less and less often too: marks, what belongs to Machines, and the
opening of a sleeper that somebody else ended.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from autoscaler import backoff, control
from autoscaler.api.manifests import Manifest
from autoscaler.control import executor, writes
from autoscaler.control.writes import Verb
from autoscaler.kube import objects
from autoscaler.kube.writing import writer
from autoscaler.machines.model import DeleteSleeper, OpenSleeper
from autoscaler.machines.objects.writes import On, Step, Write

_UNDONE_BACKOFF: Final = backoff.Backoff(first_seconds=1.0, longest_seconds=60.0)
REMEMBERED_MAX: Final = 20_000
"""So many objects are remembered with what was last written to them."""
ALIKE_MAX: Final = 8
"""So many different writes to one object are remembered: one may undo this and that by turns."""
Outcomes = executor.Outcomes[Write]
_Place = tuple[tuple[On, Verb, Step], objects.Key]
"""What is written to, whichever object of that name it is."""


class Executor:
    """Writes to pods, nodes and what belongs to Machines."""

    def __init__(self, context: control.ControllerContext, targets: Mapping[On, writer.Target[Any]]) -> None:
        self._writer = context.writer
        self._targets = targets
        self._executor = executor.Executor(context.clock, self._send)
        self._undone = backoff.Retries(context.clock, _UNDONE_BACKOFF)
        self._last: dict[_Place, list[Manifest]] = {}
        """What was last written for good to each object, newest last."""

    async def carry_out(self, chosen: Iterable[Write]) -> Outcomes:
        """Try each write that is due; FencedError if we may not act any more."""
        tried: list[Write] = []
        left: list[Write] = []
        for write in chosen:
            (tried if self._undone_until(write) is None else left).append(write)
        outcomes = await self._executor.carry_out(tried)
        outcomes.put_off += left
        return outcomes

    def due_at(self, write: Write) -> float | None:
        """Return when a write may be tried again, on the monotonic clock; None: now."""
        times = (self._executor.due_at(write), self._undone_until(write))
        return max((at for at in times if at is not None), default=None)

    async def _send(self, write: Write) -> None:
        await writes.send(self._writer, self._targets[write.on], write)
        self._remember(write)

    def _undone_until(self, write: Write) -> float | None:
        place = _place(write)
        is_held = self._is_repeated(write) and self._undone.holds(place)
        return self._undone.next_at(place) if is_held else None

    def _is_repeated(self, write: Write) -> bool:
        return _is_lasting(write) and write.body in self._last.get(_place(write), ())

    def _remember(self, write: Write) -> None:
        if _is_lasting(write):
            place = _place(write)
            self._undone.note(place, is_done=not self._is_repeated(write))
            before = [body for body in self._last.pop(place, []) if body != write.body]
            self._last[place] = [*before, write.body][-ALIKE_MAX:]
            if len(self._last) > REMEMBERED_MAX:
                del self._last[next(iter(self._last))]
        elif isinstance(write.command, DeleteSleeper):  # the next of its name is opened because we ended this one
            place = _place(replace(write, step=Step.OPEN, verb=Verb.PATCH))
            self._last.pop(place, None)
            self._undone.note(place, is_done=True)


def _is_lasting(write: Write) -> bool:
    """Tell whether something stays as it is written, if nobody undoes it."""
    return write.step in {Step.MARK, Step.MAKE} or isinstance(write.command, OpenSleeper)


def _place(write: Write) -> _Place:
    return write.sort, write.key
