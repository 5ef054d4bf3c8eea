"""Carry out writes: many at once, one at a time for each object, and refused ones less and less often.

It decides nothing. Each object and step has one moment at which a refused write is tried again; and where several in a
row of one sort are refused and none succeeds, the rest of that sort is left for later.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import structlog

from autoscaler import backoff, control
from autoscaler.admission import doubts
from autoscaler.admission.jobs import port as jobs
from autoscaler.admission.writes import On, Step, Verb, Write
from autoscaler.kube import objects, port, writer

log = structlog.get_logger()
AT_ONCE: Final = 32
"""So many writes of one sort are under way at once."""
REFUSED_MAX: Final = 5
"""So many refusals in a row of one sort, and no success, end it for now."""
FOR_GOOD: Final = 3
"""A pod's gate that could not be opened so often, for a reason of its own, will not open."""
SLOW_SECONDS: Final = 2.0
"""A refusal that took so long counts twice: all other writes waited for it."""
REMEMBERED_MAX: Final = 20_000
_BACKOFF: Final = backoff.Backoff(first_seconds=0.2, longest_seconds=60.0, factor=3.0)
_SORT_BACKOFF: Final = backoff.Backoff(first_seconds=0.2, longest_seconds=5.0)
"""Others of the same sort wait no longer than that: most refusals are about one job."""
_PASSING: Final = frozenset({403, 404, 409, 429})
"""Refusals that may well not be the object's own fault, or end by themselves."""


class Sort(NamedTuple):
    """Writes that are refused for the same reasons."""

    on: On
    kind: str
    verb: Verb
    step: Step


class _Place(NamedTuple):
    """What has one moment at which it is tried again."""

    sort: Sort
    key: objects.Key


@dataclass(slots=True)
class Outcomes:
    """What came of a number of writes."""

    done: list[Write] = field(default_factory=list)
    refused: list[tuple[Write, port.KubeError]] = field(default_factory=list)
    put_off: list[Write] = field(default_factory=list)
    """Not tried: it is too soon after a refusal."""

    @property
    def failed(self) -> list[Write]:
        """Those that were refused or put off."""
        return [*self.put_off, *(write for write, _ in self.refused)]


class Executor:
    """Writes to Workloads, jobs and pods."""

    def __init__(
        self,
        context: control.ControllerContext,
        targets: Mapping[On, writer.Target[Any]],
        kinds: Mapping[str, tuple[jobs.ResizableJob, writer.Target[Any]]],
        unanswered: doubts.Doubts,
    ) -> None:
        self.refused_for_good: dict[str, None] = {}
        """UIDs of pods whose gate will not open."""
        self.touched: dict[str, None] = {}
        """UIDs of pods that were changed since the last attempt to open them."""
        self._context = context
        self._targets = targets
        self._kinds = kinds
        self._doubts = unanswered
        self._retries: dict[_Place, backoff.Retry] = {}
        self._sorts: dict[Sort, backoff.Retry] = {}
        self._fenced: writer.FencedError | None = None

    async def carry_out(self, writes: Iterable[Write]) -> Outcomes:
        """Try each write that is due; FencedError if we may not act any more."""
        outcomes = Outcomes()
        groups: dict[Sort, list[Write]] = defaultdict(list)
        for write in writes:
            (groups[_sort(write)] if self._is_due(write) else outcomes.put_off).append(write)
        async with asyncio.TaskGroup() as tasks:
            for sort, group in groups.items():
                tasks.create_task(self._all(sort, group, outcomes))
        if self._fenced is not None:
            fenced, self._fenced = self._fenced, None
            raise fenced
        return outcomes

    def due_at(self, write: Write) -> float | None:
        """Return when a write may be tried again, on the monotonic clock; None: now."""
        retries = (self._retries.get(_place(write)), self._sorts.get(_sort(write)))
        times = [retry.next_at for retry in retries if retry is not None and not retry.is_due]
        return max((at for at in times if at is not None), default=None)

    def _is_due(self, write: Write) -> bool:
        return self.due_at(write) is None

    async def _all(self, sort: Sort, group: Sequence[Write], outcomes: Outcomes) -> None:
        """Write one sort: those that were refused before come last, so that they keep nobody waiting."""
        left = iter(sorted(group, key=self._failures))
        tally = _Tally()

        async def work() -> None:
            while not tally.is_over and self._fenced is None and (write := next(left, None)) is not None:
                await self._one(write, outcomes, tally)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(AT_ONCE, len(group))):
                tasks.create_task(work())
        outcomes.put_off.extend(left)
        retry = self._sorts.setdefault(sort, backoff.Retry(self._context.clock, _SORT_BACKOFF))
        retry.note(is_done=not tally.is_over)
        if retry.failures == 0:
            del self._sorts[sort]

    async def _one(self, write: Write, outcomes: Outcomes, tally: "_Tally") -> None:
        place, began = _place(write), self._context.clock.monotonic()
        try:
            with self._doubts.unless_answered(write):
                await self._send(write)
        except port.KubeError as error:
            tally.refused()
            outcomes.refused.append((write, error))
            self._note_refusal(place, write, error, seconds=self._context.clock.monotonic() - began)
        except writer.FencedError as error:
            self._fenced = error
        else:
            tally.done()
            outcomes.done.append(write)
            self._retries.pop(place, None)
            if write.step is Step.TOUCH:
                _remember(self.touched, write.uid)

    def _note_refusal(self, place: _Place, write: Write, error: port.KubeError, *, seconds: float) -> None:
        retry = self._retries.setdefault(place, backoff.Retry(self._context.clock, _BACKOFF))
        pause = retry.failed()
        if seconds >= SLOW_SECONDS:
            pause = retry.failed()
        if len(self._retries) > REMEMBERED_MAX:
            del self._retries[next(iter(self._retries))]
        is_own_fault = isinstance(error, port.ApiError) and 400 <= error.status < 500 and error.status not in _PASSING
        if write.step is Step.OPEN and is_own_fault and retry.failures >= FOR_GOOD:
            _remember(self.refused_for_good, write.uid)
        log.info("write_refused", step=write.step, on=write.on, key=write.key, error=str(error), again_in_seconds=pause)

    def _failures(self, write: Write) -> int:
        retry = self._retries.get(_place(write))
        return retry.failures if retry is not None else 0

    async def _send(self, write: Write) -> None:
        target, body, writes = self._target(write), write.body, self._context.writer
        only_if = writer.Precondition(uid=write.uid, resource_version=write.resource_version)
        if write.step is Step.OPEN:
            self.touched.pop(write.uid, None)
        match write.verb:
            case Verb.CREATE:
                await writes.create(target, body, attempts=1)
            case Verb.PATCH if write.on is On.JOB:
                patch = self._kinds[write.kind][0].suspension(is_suspended=body["suspend"])
                await writes.patch(target, write.key, patch, only_if=only_if, attempts=1)
            case Verb.PATCH:
                await writes.patch(target, write.key, body, only_if=only_if, attempts=1)
            case Verb.PATCH_STATUS:
                changes = {"status": dict(body)}
                await writes.patch(target, write.key, changes, only_if=only_if, subresource="status", attempts=1)
            case Verb.DELETE:
                await writes.delete(target, write.key, only_if=only_if, attempts=1)

    def _target(self, write: Write) -> writer.Target[Any]:
        return self._kinds[write.kind][1] if write.on is On.JOB else self._targets[write.on]


class _Tally:
    """How writes of one sort went."""

    def __init__(self) -> None:
        self._in_a_row = 0

    def done(self) -> None:
        self._in_a_row = 0

    def refused(self) -> None:
        self._in_a_row += 1

    @property
    def is_over(self) -> bool:
        """Whether nothing succeeds."""
        return self._in_a_row >= REFUSED_MAX


def _remember(uids: dict[str, None], uid: str) -> None:
    uids[uid] = None
    if len(uids) > REMEMBERED_MAX:
        del uids[next(iter(uids))]


def _sort(write: Write) -> Sort:
    return Sort(write.on, write.kind, write.verb, write.step)


def _place(write: Write) -> _Place:
    return _Place(_sort(write), write.key)
