"""Run a plan without holding up the loop: in a thread of its own, or on the spot where time is virtual."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from autoscaler import threads

R = TypeVar("R")


async def in_thread(function: Callable[..., R], *arguments: Any) -> R:  # noqa: ANN401
    """Plan in a thread, so that health checks, watches and deadlines go on meanwhile."""
    return await threads.run("planning", functools.partial(function, *arguments))


async def inline(function: Callable[..., R], *arguments: Any) -> R:  # noqa: ANN401
    """Plan on the spot: in virtual time a plan takes no time."""
    return function(*arguments)
