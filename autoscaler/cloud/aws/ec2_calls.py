"""How boto3 is called: in a few threads, with bounded time; reads are tried again, writes never.

A thread cannot be stopped, so it is a daemon and keeps its place until it is done: calls that hang slow only
themselves, and neither the event loop nor the process's end waits for them.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

import structlog

from autoscaler import backoff, threads
from autoscaler.cloud import port
from autoscaler.cloud.aws import ec2_errors

T = TypeVar("T")
THREADS: Final = 8
_RANDOM: Final = random.SystemRandom()
_LONGEST_SECONDS: Final = 60.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a call may take, and how often a read is tried."""

    call_seconds: float = 15.0
    """For one attempt, the wait for a thread included. Longer than boto's own timeouts."""
    attempts: int = 4
    pause_seconds: float = 0.5
    """The longest first pause between attempts; it doubles, and is four times as long after throttling."""


class Calls:
    """Runs blocking calls. Belongs to one event loop."""

    def __init__(self, patience: Patience | None = None, *, threads: int = THREADS) -> None:
        self._patience = patience or Patience()
        self._slots = asyncio.Semaphore(threads)

    async def read(self, what: str, call: Callable[[], T]) -> T:
        """Return the answer; try again if it was throttled or there was none; raise CloudError in the end."""
        for attempt in range(self._patience.attempts - 1):
            try:
                return await self._once(what, call, is_write=False)
            except port.CloudError as error:
                if error.reason not in {port.Reason.THROTTLED, port.Reason.UNREACHABLE}:
                    raise
                log.info("read_tried_again", what=what, reason=error.reason, attempt=attempt + 1)
                await asyncio.sleep(self._pause(attempt + 1, error.reason))
        return await self._once(what, call, is_write=False)

    async def write(self, what: str, call: Callable[[], T]) -> T:
        """Send it once; raise CloudError that tells whether it may have landed."""
        return await self._once(what, call, is_write=True)

    async def _once(self, what: str, call: Callable[[], T], *, is_write: bool) -> T:
        was_sent = False
        try:
            async with asyncio.timeout(self._patience.call_seconds):
                await self._slots.acquire()
                was_sent = True
                return await threads.run(f"aws {what}", call, ended=self._slots.release)
        except TimeoutError as error:
            if not was_sent:
                raise port.CloudError(
                    port.Reason.UNREACHABLE, f"{what} was not sent: too many other calls wait for an answer"
                ) from error
            raise ec2_errors.unanswered(what, "timeout", is_write=is_write) from error
        except Exception as error:
            raise ec2_errors.translated(error, what, is_write=is_write) from error

    def _pause(self, failures: int, reason: port.Reason) -> float:
        first = self._patience.pause_seconds * (4 if reason is port.Reason.THROTTLED else 1)
        grown = backoff.Backoff(first_seconds=first, longest_seconds=_LONGEST_SECONDS)
        return grown.jittered(failures, _RANDOM)
