"""News of instances that are about to go, and of launches that failed, sooner than a reading would tell.

It remembers who is doomed and hurries readings; what is done about it is the controller's.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

import structlog

from autoscaler import control
from autoscaler.capacity import clouds
from autoscaler.cloud import port as cloud
from autoscaler.kube import objects

log = structlog.get_logger()
PAUSE_SECONDS: Final = 5.0
REMEMBERED_SECONDS: Final = 3600.0
CHECK_SECONDS: Final = 1.0
Open = Callable[[], cloud.Interruptions]


class News:
    """A source of interruptions. Only who acts listens: news are told once."""

    def __init__(self, context: control.ControllerContext, known: clouds.Clouds, open_news: Open) -> None:
        self._context = context
        self._clouds = known
        self._open = open_news
        self.doomed: dict[cloud.InstanceId, float] = {}
        """Instances that the provider will take away, and since when we know."""
        context.feed(self)

    async def run(self) -> None:
        """Listen while we may act."""
        while True:
            if self._context.held_back() is not None:
                await asyncio.sleep(CHECK_SECONDS)
                continue
            async with contextlib.aclosing(self._open()) as queue:
                try:
                    await self._listen(queue)
                except cloud.CloudError as error:
                    log.warning("interruptions_not_read", reason=error.reason, error=error.message)
            await asyncio.sleep(PAUSE_SECONDS)

    def unsynced(self) -> str | None:
        """Return None: without news, readings tell the same a little later."""
        return None

    async def _listen(self, queue: cloud.Interruptions) -> None:
        async with contextlib.aclosing(queue.batches()) as batches:
            async for batch in batches:
                for event in batch:
                    self._take(event)
                if self._context.held_back() is not None:
                    return

    def _take(self, event: cloud.Event) -> None:
        now = self._context.clock.now()
        self.doomed = {one: at for one, at in self.doomed.items() if now - at < REMEMBERED_SECONDS}
        match event:
            case cloud.SpotInterruption():
                log.info("interruption_announced", instance=event.instance)
                self.doomed[event.instance] = now
                self._context.wake(clouds.KIND, objects.Key("", event.instance))
            case cloud.GroupChanged():
                self._clouds.read_now()
            case cloud.InstancesChanged():
                self._clouds.hurry()
