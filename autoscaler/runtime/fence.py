"""Whether a write may be sent: only while we lead, are not paused, and do not merely observe.

It is asked right before each send, so that a plan made before a pause or a lost Lease dies here.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Final

import structlog

from autoscaler import clock
from autoscaler.kube import port
from autoscaler.kube.writing import writer

log = structlog.get_logger()
_WOULD_SECONDS: Final = 10.0
_WOULD_MAX: Final = 1000


class Closed(StrEnum):
    """Why nothing may be written."""

    OBSERVING = "Observing"
    PAUSED = "Paused"
    NOT_LEADING = "NotLeading"


class Fence:
    """A writer.Fence over leadership, the pause annotation and observe mode."""

    def __init__(
        self,
        *,
        remaining: Callable[[], float],
        is_paused: Callable[[], bool],
        observe: bool,
        monotonic: Callable[[], float] = clock.SystemClock().monotonic,  # noqa: B008  # it has no state
    ) -> None:
        self._remaining = remaining
        self._is_paused = is_paused
        self._observe = observe
        self._monotonic = monotonic
        self._would: dict[tuple[str, str], tuple[int, float]] = {}

    def closed(self) -> Closed | None:
        """Return why nothing may be written now; None if it may."""
        return self._closed(self._remaining())

    def check(self, request: port.Request) -> float:
        """Return how long the call may take: it must end while we still lead."""
        remaining = self._remaining()  # asked once: between two questions time may be up
        reason = self._closed(remaining)
        if reason is Closed.OBSERVING:
            self._tell(request)
            raise writer.ObservedError(request.path)
        if reason is not None:
            raise writer.FencedError(f"{request.method} {request.path} was not sent: {reason}")
        return min(request.timeout_seconds, remaining)

    def _tell(self, request: port.Request) -> None:
        """Say what would be written; of many alike, one now and then says how many there were."""
        kind = (request.method, request.path.rpartition("/")[0] if request.method != "POST" else request.path)
        count, told_at = self._would.get(kind, (0, float("-inf")))
        if self._monotonic() - told_at < _WOULD_SECONDS:
            self._would[kind] = (count + 1, told_at)
            return
        log.info("would_write", method=request.method, path=request.path, alike_since=count)
        self._would[kind] = (0, self._monotonic())
        if len(self._would) > _WOULD_MAX:
            self._would.pop(next(iter(self._would)))

    def permits(self, what: str) -> bool:
        """Tell whether something may be done outside of the API server; False: we only observe."""
        reason = self.closed()
        if reason is Closed.OBSERVING:
            log.info("would_act", what=what)
            return False
        if reason is not None:
            raise writer.FencedError(f"{what}: not done: {reason}")
        return True

    def _closed(self, remaining: float) -> Closed | None:
        if remaining <= 0:
            return Closed.NOT_LEADING
        if self._is_paused():
            return Closed.PAUSED
        return Closed.OBSERVING if self._observe else None
