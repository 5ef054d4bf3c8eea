"""Wait for what a real cluster does in its own time: by asking again, with a deadline, never by a bare sleep."""

import time
from collections.abc import Callable
from typing import TypeVar

from tools.local import api

INTERVAL_SECONDS = 0.1
T = TypeVar("T")


def eventually(check: Callable[[], T], *, within_seconds: float = 20.0) -> T:
    """Return the first true value of `check`; fail with the last value or error once time is up.

    An assertion that fails and an API server that does not answer both mean "not yet".
    """
    deadline = time.monotonic() + within_seconds
    while True:
        try:
            seen: object = check()
        except (AssertionError, api.ApiError) as error:
            seen, last = None, f"{type(error).__name__}: {error}"
        else:
            last = repr(seen)
        if seen:
            return seen  # type: ignore[return-value]
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_seconds:g} s; last seen: {last}")
        time.sleep(INTERVAL_SECONDS)
