"""Run one controller: wake it when something changed or its time has come, and keep its failures to itself.

Changes are gathered for a moment, so that a burst is one cycle. A cycle starts only when everything it reads is synced
and the fence is open; it is cancelled when the fence closes. What a failed cycle was woken for is not forgotten.
"""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Final

import structlog

from autoscaler import backoff, clock, control
from autoscaler.kube import objects, store
from autoscaler.kube.writing import writer
from autoscaler.runtime import fence
from autoscaler.runtime.observability import telemetry

log = structlog.get_logger()
DIRTY_MAX: Final = 100_000
_CLOSED_CHECK_SECONDS: Final = 0.2
_OPEN_CHECK_SECONDS: Final = (0.05, 1.0)
"""How often to look whether we may act: at first, and at last."""


_RETRIES: Final = backoff.Backoff(first_seconds=0.5, longest_seconds=60.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How changes are gathered and failures spaced."""

    idle_seconds: float = 0.05
    """A cycle starts when nothing has changed for so long,"""
    gather_seconds: float = 1.0
    """or at the latest so long after the first change."""
    again_seconds: float = 1.0
    """A cycle that asks for a time that has passed is repeated after so long."""
    retries: backoff.Backoff = _RETRIES


DEFAULT_PACE: Final = Pace()


class Runner:
    """The task of one controller."""

    def __init__(
        self,
        name: str,
        time: clock.Clock,
        fence_: fence.Fence,
        metrics: telemetry.Metrics,
        *,
        pace: Pace = DEFAULT_PACE,
    ) -> None:
        self.name = name
        self.sources: list[control.Source] = []
        self.tables: list[tuple[str, store.Table[Any]]] = []
        self._time = time
        self._fence = fence_
        self._metrics = metrics
        self._pace = pace
        self._dirty: set[tuple[str, objects.Key]] = set()
        self._dirty_since: float | None = None
        self._is_everything_dirty = False
        self._changed = asyncio.Event()
        self._wake_at: float | None = None
        self._failures = 0
        self._told: str | None = None

    def wake(self, kind: str, key: objects.Key) -> None:
        """Note that something changed."""
        self._dirty.add((kind, key))
        if len(self._dirty) > DIRTY_MAX:  # we have not acted for long: what changed meanwhile is not worth remembering
            self._dirty.clear()
            self._is_everything_dirty = True
        if self._dirty_since is None:
            self._dirty_since = self._time.monotonic()
        self._changed.set()

    def oldest_change_seconds(self) -> float:
        """Return how long the oldest change has waited for a cycle."""
        return 0.0 if self._dirty_since is None else self._time.monotonic() - self._dirty_since

    def held_back(self) -> str | None:
        """Return why no cycle may start now: something is not synced, or we may not act; None if it may."""
        closed = self._fence.closed()
        return self.unsynced() or (str(closed) if closed not in (None, fence.Closed.OBSERVING) else None)

    def unsynced(self) -> str | None:
        """Return what is not synced that the controller reads; None if everything is."""
        for source in self.sources:  # asked several times a second, by all who look whether they may act
            missing = source.unsynced()
            if missing:
                return missing
        return None

    async def run(self, controller: control.Controller) -> None:
        """Run cycles until cancelled."""
        await self._until_open()
        await self._cycle(controller)
        while True:
            await self._until_woken()
            await self._gather()
            await self._until_open()
            await self._cycle(controller)

    async def _cycle(self, controller: control.Controller) -> None:
        dirty, since = frozenset(self._dirty | self._everything()), self._dirty_since
        self._dirty.clear()
        self._dirty_since = None
        self._changed.clear()
        started = self._time.monotonic()
        outcome = "done"
        try:
            wake_at = await self._unless_closed(controller.reconcile(dirty))
            self._wake_in(wake_at)
            self._failures = 0
        except writer.FencedError as error:
            outcome = "fenced"
            self._again(dirty, since, 0.0)
            log.info("cycle_fenced", controller=self.name, reason=str(error))
        except Exception as error:  # the one place where a controller's failure is caught: the others go on
            outcome = "failed"
            self._failures += 1
            pause = self._pace.retries.pause(self._failures)
            self._again(dirty, since, pause)
            log.exception("cycle_failed", controller=self.name, error=str(error), again_in_seconds=pause)
        finally:
            self._metrics.cycle(self.name, outcome, self._time.monotonic() - started)

    def _everything(self) -> set[tuple[str, objects.Key]]:
        """Return all that there is, if so much changed that it was not noted."""
        if not self._is_everything_dirty:
            return set()
        self._is_everything_dirty = False
        return {(kind, stored.meta.key) for kind, table in self.tables for stored in table}

    def _wake_in(self, wake_at: float | None) -> None:
        """Note when to wake, on the clock that never goes back: the wall clock may be set meanwhile."""
        seconds = None if wake_at is None else wake_at - self._time.now()
        if seconds is not None and seconds <= 0:
            seconds = self._pace.again_seconds
        self._wake_at = None if seconds is None else self._time.monotonic() + seconds

    def _again(self, dirty: control.Dirty, since: float | None, pause: float) -> None:
        self._dirty |= dirty
        self._dirty_since = since if since is not None else self._dirty_since
        self._wake_at = self._time.monotonic() + pause
        self._changed.clear()

    async def _unless_closed(self, cycle: Coroutine[Any, Any, float | None]) -> float | None:
        """Cancel a cycle when the fence closes under it."""
        task = asyncio.create_task(cycle)
        try:
            while True:
                done, _ = await asyncio.wait({task}, timeout=_CLOSED_CHECK_SECONDS)
                if task.cancelled():
                    raise RuntimeError("the cycle was cancelled from within")
                if done:
                    return task.result()
                reason = self._fence.closed()
                if reason not in (None, fence.Closed.OBSERVING):
                    raise writer.FencedError(f"the cycle was cancelled: {reason}")
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _until_woken(self) -> None:
        """Wait for a change or for the time the controller named."""
        limit = None if self._wake_at is None else max(0.0, self._wake_at - self._time.monotonic())
        try:
            async with asyncio.timeout(limit):
                await self._changed.wait()
        except TimeoutError:
            self._wake_at = None

    async def _gather(self) -> None:
        latest = self._time.monotonic() + self._pace.gather_seconds
        while self._changed.is_set() and self._time.monotonic() < latest:
            self._changed.clear()
            await asyncio.sleep(self._pace.idle_seconds)
        self._changed.clear()

    async def _until_open(self) -> None:
        """Wait until everything is synced and we may act; say once what is missing."""
        pause, longest = _OPEN_CHECK_SECONDS
        while True:
            reason = self.held_back()
            if reason != self._told:
                self._told = reason
                log.info("waiting" if reason else "acting", controller=self.name, reason=reason)
            if reason is None:
                return
            await asyncio.sleep(pause)
            pause = min(longest, pause * 1.5)
