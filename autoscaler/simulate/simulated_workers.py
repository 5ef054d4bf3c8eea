"""Queues and the workers that empty them: a worker takes one job after another and ends when it finds none for long.

What a real queue and a real worker would do, in virtual time. It must not know how many workers there should be.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from autoscaler.api.resources.worker_pools import QueueSource
from autoscaler.queues import port
from autoscaler.simulate.observation.waits import Wait

ANSWER_SECONDS: Final = 0.02
"""How long a queue takes to tell its length."""


@dataclass(slots=True, kw_only=True, eq=False)
class Job:
    """A piece of work."""

    came_at: float
    takes_seconds: float
    began_at: float | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class Worker:
    """A pod that takes jobs."""

    uid: str
    idle_seconds: float
    """How long it looks for a job before it ends."""
    end: Callable[[], None]
    job: Job | None = None
    timer: asyncio.TimerHandle | None = None


class Line:
    """One queue."""

    def __init__(self, name: str, now: Callable[[], float]) -> None:
        self.name = name
        self._now = now
        self._all: list[Job] = []
        self._jobs: deque[Job] = deque()
        self._workers: dict[str, Worker] = {}
        self._idle: dict[str, Worker] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def all_waits(self) -> tuple[Wait, ...]:
        """Return the waits of all jobs, in the order in which they came."""
        return tuple(Wait(came_at=job.came_at, began_at=job.began_at) for job in self._all)

    def push(self, takes_seconds: float) -> None:
        """Add a job; a worker that has nothing to do takes it."""
        job = Job(came_at=self._now(), takes_seconds=takes_seconds)
        self._all.append(job)
        self._jobs.append(job)
        if self._idle:
            self._look(self._idle.pop(next(iter(self._idle))))

    def begin(self, worker: Worker) -> None:
        """Let a worker look for jobs."""
        self._workers[worker.uid] = worker
        self._look(worker)

    def leave(self, uid: str) -> None:
        """Forget a worker that ended; a job that it had not done goes back to the front."""
        worker = self._workers.pop(uid, None)
        self._idle.pop(uid, None)
        if worker is None:
            return
        if worker.timer is not None:
            worker.timer.cancel()
        if worker.job is not None:
            worker.job.began_at = None
            self._jobs.appendleft(worker.job)

    def _look(self, worker: Worker) -> None:
        if worker.timer is not None:
            worker.timer.cancel()
        loop = asyncio.get_running_loop()
        if not self._jobs:
            worker.job = None
            self._idle[worker.uid] = worker
            worker.timer = loop.call_later(worker.idle_seconds, worker.end)
            return
        worker.job = self._jobs.popleft()
        worker.job.began_at = self._now()
        worker.timer = loop.call_later(worker.job.takes_seconds, self._look, worker)


@dataclass(slots=True)
class Lines:
    """All queues, by their endpoints: what the runtime asks for lengths."""

    by_endpoint: dict[str, Line] = field(default_factory=dict)

    def queue(self, source: QueueSource, *, namespace: str, secret: port.SecretData | None) -> port.Queue:
        """Return the queue of a pool."""
        del namespace, secret
        found = self.by_endpoint.get(source.endpoint)
        if found is None:
            raise port.QueueError(port.Reason.NOT_FOUND, f"the trace has no queue behind {source.endpoint}")
        return _Asked(found)

    async def aclose(self) -> None:
        """Close nothing."""


@dataclass(frozen=True, slots=True)
class _Asked:
    line: Line

    async def length(self) -> int:
        await asyncio.sleep(ANSWER_SECONDS)
        return len(self.line)
