"""Whether a write may be sent: only while we lead, are not paused, and do not merely observe.

It is asked right before each send, so that a plan made before a pause or a lost Lease dies here.
"""

from collections.abc import Callable
from enum import StrEnum

import structlog

from autoscaler.kube import port, writer

log = structlog.get_logger()


class Closed(StrEnum):
    """Why nothing may be written."""

    OBSERVING = "Observing"
    PAUSED = "Paused"
    NOT_LEADING = "NotLeading"


class Fence:
    """A writer.Fence over leadership, the pause annotation and observe mode."""

    def __init__(self, *, remaining: Callable[[], float], is_paused: Callable[[], bool], observe: bool) -> None:
        self._remaining = remaining
        self._is_paused = is_paused
        self._observe = observe

    def closed(self) -> Closed | None:
        """Return why nothing may be written now; None if it may."""
        return self._closed(self._remaining())

    def check(self, request: port.Request) -> float:
        """Return how long the call may take: it must end while we still lead."""
        remaining = self._remaining()  # asked once: between two questions time may be up
        reason = self._closed(remaining)
        if reason is Closed.OBSERVING:
            log.info("would_write", method=request.method, path=request.path)
            raise writer.ObservedError(request.path)
        if reason is not None:
            raise writer.FencedError(f"{request.method} {request.path} was not sent: {reason}")
        return min(request.timeout_seconds, remaining)

    def _closed(self, remaining: float) -> Closed | None:
        if remaining <= 0:
            return Closed.NOT_LEADING
        if self._is_paused():
            return Closed.PAUSED
        return Closed.OBSERVING if self._observe else None
