"""Leave: when the stack goes, a controller lets go of all that would hang on it, and then of the drain object.

It decides when that is tried again: later and later. What is let go of is each controller's own to say. Nothing of the
stack may be taken away before: the drain object is let go last.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from autoscaler import backoff, clock, control
from autoscaler.control import drain_object
from autoscaler.kube import port
from autoscaler.kube.writing import writer

log = structlog.get_logger()
_BACKOFF: Final = backoff.Backoff(first_seconds=5.0, longest_seconds=60.0)
SENT_SECONDS: Final = 10.0
"""How long what was sent before may take to arrive."""


class Farewell:
    """Lets go of what is one controller's, once the stack leaves."""

    def __init__(
        self,
        context: control.ControllerContext,
        part: str,
        leave: Callable[[], Awaitable[float | None]],
        *,
        once_left: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Take what lets go of everything, and returns when to go on with it; None: nothing is left.

        `once_left` lets go of what comes after that, for as long as this process lives.
        """
        self._context = context
        self._part = part
        self._leave = leave
        self._once_left = once_left
        self._object = drain_object.DrainObject(context, part)
        self._has_left = False
        self._retry = backoff.Retry(context.clock, _BACKOFF)

    @property
    def is_leaving(self) -> bool:
        """Whether nothing is to be done any more but to let go."""
        is_leaving = self._object.stage is not drain_object.Stage.STAYING
        self._has_left = self._has_left and is_leaving
        return is_leaving

    @property
    def attempts(self) -> int:
        """How often the writer may try: once after a failure, since we come back."""
        return 1 if self._retry.failures else writer.ATTEMPTS

    async def carry_out(self) -> float | None:
        """Let go of everything, then of the drain object; return when to go on, on the wall clock."""
        if not self._retry.is_due:
            return clock.on_wall(self._context.clock, self._retry.next_at)
        try:
            again_at = await self._take_step()
        except port.KubeError as error:
            log.info("not_let_go", part=self._part, error=str(error))
            return self._context.clock.now() + self._retry.failed()
        self._retry.succeeded()
        return again_at

    async def _take_step(self) -> float | None:
        if self._has_left:
            if self._once_left is not None:
                await self._once_left()
            return None
        await self._context.writer.flush(SENT_SECONDS)
        again_at = await self._leave()
        if again_at is None:
            await self._object.let_go()
            self._has_left = True
            log.info("let_go", part=self._part)
        return again_at
