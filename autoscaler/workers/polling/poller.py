"""When a pool's queue is asked, and what came of it.

It is asked on schedule, at once when the pool was changed, and once more beside its schedule where workers could not be
made. A reading goes on beside everything else, and wakes who waits for it. What its answer means is decided elsewhere.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from autoscaler import clock
from autoscaler.api.resources.worker_pools import QueueSource
from autoscaler.queues import port as queues
from autoscaler.workers.model import Pool, Problem
from autoscaler.workers.polling import poll_schedule, queue_reader

log = structlog.get_logger()
TICK_SECONDS: Final = 0.001
"""What is due within this is due now: clocks are rounded."""
READ: Final = "Read"
"""How a reading that succeeded is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a reading came to: a size, or a problem, which is not the same as an empty queue."""

    size: int | None = None
    problem: Problem | None = None


class Poller:
    """Asks the queue of one pool."""

    def __init__(
        self, time: clock.Clock, reader: queue_reader.QueueReader, *, uid: str, wake: Callable[[], None]
    ) -> None:
        self.polls: Counter[str] = Counter()
        """Readings by how they ended."""
        self.poll_seconds = 0.0
        """How long all readings took together."""
        self._clock = time
        self._reader = reader
        self._uid = uid
        self._wake = wake
        self._reading: asyncio.Task[int] | None = None
        self._again_at: float | None = None
        """When the queue is asked once more beside its schedule. Monotonic, as all times here."""
        self._next_poll: float | None = None
        self._asked: int | None = None
        """The generation of the spec that the queue was last asked for."""
        self._source: QueueSource | None = None
        """Which queue that was."""
        self._unread = 0
        """How many readings in a row have failed."""

    def ask(self, pool: Pool) -> bool:
        """Ask if its time has come; return whether that is because the pool was changed."""
        now, changed = self._clock.monotonic(), self._asked != pool.meta.generation
        source = pool.resource.spec.queue.source
        if changed:
            self._unread = 0
            if source != self._source:
                self.stop()
        elif self._reading is not None or not self._is_due(now):
            return False
        self._asked, self._source = pool.meta.generation, source
        if self._reading is not None:  # of the same queue: who is changed all the time would never get an answer
            return changed
        self._next_poll, self._again_at = self._due(pool), None
        self._reading = asyncio.create_task(self._read(pool), name=f"reading {pool.meta.key}")
        self._reading.add_done_callback(lambda _: self._wake())
        return changed

    def ask_again(self, at: float) -> None:
        """Ask once more at a time, beside the schedule."""
        self._again_at = at

    @property
    def is_done(self) -> bool:
        """Whether a reading waits to be taken."""
        return self._reading is not None and self._reading.done()

    def take(self, pool: Pool) -> Answer | None:
        """Return what a reading came to, once; None if none is done."""
        if self._reading is None or not self._reading.done():
            return None
        read, self._reading = self._reading, None
        answer = self._answer(read, pool)
        self._unread = 0 if answer.problem is None else self._unread + 1
        self.polls[READ if answer.problem is None else answer.problem.reason] += 1
        self._next_poll = self._due(pool)
        return answer

    def stop(self) -> None:
        """Give up a reading that is under way."""
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def forget(self) -> None:
        """Stop, and ask nothing until there is a reason to begin anew."""
        self.stop()
        self._next_poll, self._again_at, self._asked = None, None, None

    def times(self) -> tuple[float | None, ...]:
        """Return when the queue is to be asked; nothing while it is, since that wakes by itself."""
        return (self._next_poll, self._again_at) if self._reading is None else ()

    def _is_due(self, now: float) -> bool:
        times = [at for at in (self._next_poll, self._again_at) if at is not None]
        return not times or now >= min(times) - TICK_SECONDS

    def _due(self, pool: Pool) -> float:
        """Return when the queue is next asked. The wall clock only says how far off that is, for it may be set."""
        interval = poll_schedule.seconds(pool.resource.spec.queue.interval)
        now = self._clock.now() + 2 * TICK_SECONDS  # one that is due now is not the next
        due = poll_schedule.next_poll(now, uid=self._uid, interval_seconds=interval, failures=self._unread)
        return self._clock.monotonic() + due - self._clock.now()

    async def _read(self, pool: Pool) -> int:
        started = self._clock.monotonic()
        try:
            return await self._reader.read(pool.resource.spec.queue.source, pool.meta.key.namespace)
        finally:
            self.poll_seconds += self._clock.monotonic() - started

    def _answer(self, read: asyncio.Task[int], pool: Pool) -> Answer:
        try:
            return Answer(size=read.result())
        except queues.QueueError as error:
            return Answer(problem=Problem(reason=error.reason, message=error.message))
        except Exception as error:  # a fault of ours, and no reason to take the queue for empty or to forget it
            log.exception("reading_failed", pool=pool.meta.key, error=str(error))
            return Answer(problem=Problem(reason="InternalError", message=f"{type(error).__name__}: {error}"))
