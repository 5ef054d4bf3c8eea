"""Run what blocks in a thread of its own, and wait for it without holding up the event loop.

A thread cannot be stopped, so it is a daemon: one that takes long, or hangs, never keeps the process from ending.
"""

import asyncio
import contextlib
import functools
import threading
from collections.abc import Callable
from typing import TypeVar

R = TypeVar("R")


async def run(name: str, call: Callable[[], R], *, ended: Callable[[], None] | None = None) -> R:
    """Return what a call that blocks returns, or raise what it raises, in a thread of this name.

    `ended` is called in the event loop when the call has ended, also where nobody waits for it any more.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[R] = loop.create_future()

    def settle(result: Callable[[], None]) -> None:
        if ended is not None:
            ended()
        if not answer.done():  # somebody still waits
            result()

    def work() -> None:
        try:
            result = functools.partial(answer.set_result, call())
        except StopIteration as error:  # no future takes it: whoever waits would wait for ever
            result = functools.partial(answer.set_exception, RuntimeError(f"{name} raised {error!r}"))
        except Exception as error:  # noqa: BLE001  # it belongs to whoever waits
            result = functools.partial(answer.set_exception, error)
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(settle, result)

    threading.Thread(target=work, name=name, daemon=True).start()
    return await answer
