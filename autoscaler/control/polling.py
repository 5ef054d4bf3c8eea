"""A source that looks at something again and again: what cannot be watched, or must not be."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from autoscaler import backoff, control
from autoscaler.kube import port
from autoscaler.kube.writing import writer

log = structlog.get_logger()
CHECK_SECONDS: Final = 0.5
"""How often to see whether we may act."""
_BACKOFF: Final = backoff.Backoff(first_seconds=1.0, longest_seconds=60.0)
Look = Callable[[], Awaitable[float]]
"""Looks once, and returns for how many seconds there is no need to look again."""


class Polling:
    """Looks while we may act, or always. A look that fails is told of, and repeated less and less often."""

    def __init__(
        self,
        context: control.ControllerContext,
        name: str,
        look: Look,
        *,
        also_standing_by: bool = False,
        missing: Callable[[], str | None] = lambda: None,
    ) -> None:
        """Look for as long as the controller runs; nothing is decided while `missing` says that something is."""
        self._context = context
        self._name = name
        self._look = look
        self._also_standing_by = also_standing_by
        self._missing = missing
        self._retry = backoff.Retry(context.clock, _BACKOFF)
        context.feed(self)

    async def run(self) -> None:
        """Go on until cancelled."""
        while True:
            pause = await self._step()
            await asyncio.sleep(pause)

    def unsynced(self) -> str | None:
        """Return what is missing before anything may be decided."""
        return self._missing()

    async def _step(self) -> float:
        if not self._also_standing_by and self._context.held_back() is not None:
            return CHECK_SECONDS
        try:
            pause = await self._look()
        except (port.KubeError, writer.FencedError) as error:
            log.info("look_failed", what=self._name, error=str(error))
            return self._retry.failed()
        self._retry.succeeded()
        return pause
