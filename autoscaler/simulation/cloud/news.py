"""The queue that tells of instances about to go and launches that failed, as EventBridge and SQS would carry it."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

from autoscaler.cloud import port
from autoscaler.simulation.cloud import faults

BATCH: Final = 10
"""SQS hands out so many messages at once."""


class News:
    """What was told and not yet taken. One reader at a time."""

    def __init__(self) -> None:
        self._waiting: list[port.Event] = []
        self._arrived = asyncio.Event()

    def tell(self, event: port.Event) -> None:
        self._waiting.append(event)
        self._arrived.set()

    async def next(self) -> tuple[port.Event, ...]:
        """Wait for news and return it; it stays until it is forgotten."""
        await self._arrived.wait()
        return tuple(self._waiting[:BATCH])

    def forget(self, count: int) -> None:
        del self._waiting[:count]
        if not self._waiting:
            self._arrived.clear()


class SimulatedInterruptions:
    """The port on that queue."""

    def __init__(self, news: News, broken: faults.Faults) -> None:
        self._news = news
        self._faults = broken

    async def batches(self) -> AsyncGenerator[tuple[port.Event, ...], None]:
        while True:
            if self._faults.next(faults.Call.NEWS) is not None:
                raise port.CloudError(port.Reason.UNREACHABLE, "the interruption queue gave no answer; ask again later")
            batch = await self._news.next()
            yield batch
            self._news.forget(len(batch))

    async def aclose(self) -> None:
        """Nothing is open."""
