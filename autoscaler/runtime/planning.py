"""Run a plan without holding up the loop: in a thread of its own, or on the spot where time is virtual."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

R = TypeVar("R")


async def in_thread(function: Callable[..., R], *arguments: Any) -> R:  # noqa: ANN401
    """Plan in a thread, so that health checks, watches and deadlines go on meanwhile.

    The thread is a daemon: a plan that takes long must not keep the process from ending.
    """
    loop = asyncio.get_running_loop()
    planned: asyncio.Future[R] = loop.create_future()

    def work() -> None:
        try:
            settle = partial(_settle, planned, function(*arguments), None)
        except Exception as error:  # noqa: BLE001  # it belongs to whoever waits for the plan
            settle = partial(_settle, planned, None, error)
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(settle)

    threading.Thread(target=work, name="planning", daemon=True).start()
    return await planned


def _settle(planned: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
    if planned.done():  # nobody waits any more
        return
    if error is None:
        planned.set_result(result)
    else:
        planned.set_exception(error)


async def inline(function: Callable[..., R], *arguments: Any) -> R:  # noqa: ANN401
    """Plan on the spot: in virtual time a plan takes no time."""
    return function(*arguments)
