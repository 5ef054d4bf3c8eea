"""See everything that was written before deciding on a sum: by an earlier leader, or by us without an answer.

A watch may lag behind. Sums over many objects are guarded by no precondition, so a new leader reads these objects anew,
as the API server itself has them, before it decides on their sum. What the earlier leader sent has ended by
then: each write ends before its Lease does. A write of our own that was not answered may take effect until its time is
over; it is waited for, and everything is read anew then.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import structlog

from autoscaler import clock, control
from autoscaler.kube import kinds, port, store
from autoscaler.kube.reading import listing

log = structlog.get_logger()
UNSURE_SECONDS: Final = 2 * port.DEFAULT_TIMEOUT_SECONDS
"""How long a write may take effect that was not answered: its own time, and as much again for a server that is slow."""
_SERVER_ERROR: Final = 500
_TIMED_OUT: Final = 504


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A kind that sums are made over."""

    resource: kinds.ResourceType
    decode: Any
    table: store.Table[Any]


def unsure_seconds(error: port.KubeError) -> float | None:
    """Return for how long a write may take effect that failed so; None: it does not."""
    if not isinstance(error, port.ApiError) or error.status == _TIMED_OUT:
        return UNSURE_SECONDS
    return 0.0 if error.status >= _SERVER_ERROR else None


class Takeover:
    """Brings the tables up to date each time that we begin to lead, or do not know what we wrote."""

    def __init__(self, context: control.ControllerContext, summed_up: Iterable[Read]) -> None:
        self._context = context
        self._summed_up = tuple(summed_up)
        self._vacant_since: float | None = None
        self._unsure_until: float | None = None

    def doubt(self, error: port.KubeError) -> None:
        """Note that a write on the sum of many objects failed, if nobody can tell whether it took effect."""
        seconds = unsure_seconds(error)
        if seconds is not None:
            until = self._context.clock.monotonic() + seconds
            self._unsure_until = max(until, self._unsure_until or 0.0)

    @property
    def unsure_until(self) -> float | None:
        """When to read everything anew, on the wall clock, as we do not know what was written; None: we do."""
        return clock.on_wall(self._context.clock, self._unsure_until)

    async def catch_up(self, *, anew: bool = False) -> bool:
        """Read anew what others or we ourselves may have written, if anybody may have, or if asked; tell whether."""
        vacant_since, until = self._context.vacant_since(), self._unsure_until
        is_over = until is not None and until <= self._context.clock.monotonic()
        if vacant_since == self._vacant_since and not is_over and not anew:
            return False
        for each in self._summed_up:
            listed, version = await listing.read_readable(self._context.api, each.resource, each.decode)
            each.table.catch_up(listed, version)
        self._vacant_since = vacant_since
        if is_over:
            self._unsure_until = None
        log.info("read_anew", vacant_since=vacant_since)
        return True
