"""Look again and again whether something has changed that tells nobody: whether we may act, above all.

It decides nothing: who looks does.
"""

import asyncio
from collections.abc import Callable


async def every(seconds: float, look: Callable[[], None]) -> None:
    """Call a function now and again and again, until cancelled. A bare timer costs a third of a task that sleeps."""
    loop = asyncio.get_running_loop()
    failed: asyncio.Future[None] = loop.create_future()
    timer: asyncio.TimerHandle

    def tick() -> None:
        nonlocal timer
        timer = loop.call_later(seconds, tick)
        try:
            look()
        except Exception as error:  # noqa: BLE001  # whoever waits for this gets it
            if not failed.done():
                failed.set_exception(error)

    tick()
    try:
        await failed
    finally:
        timer.cancel()
