"""The steps of one object's reconciliation: each has one moment at which it is tried again after it failed.

A round takes some of the steps. One that it did not come to is not needed any more, and its failures are forgotten;
so the next moment that matters is always one that the next round acts on, and no loop can become busy.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Generic, TypeVar

from autoscaler import backoff, clock
from autoscaler.kube.writing import writer

S = TypeVar("S", bound=StrEnum)


class Steps(Generic[S]):
    """The steps of one object."""

    def __init__(self, time: clock.Clock, steps: Iterable[S], pauses: backoff.Backoff) -> None:
        self._retries = {step: backoff.Retry(time, pauses) for step in steps}
        self._taken: set[S] = set()

    def begin(self) -> None:
        """Begin a round."""
        self._taken.clear()

    def end(self) -> None:
        """End a round that was not broken off."""
        for step in self._retries.keys() - self._taken:
            self._retries[step].succeeded()

    def forget(self) -> None:
        """Forget all failures: what failed may succeed now."""
        for retry in self._retries.values():
            retry.succeeded()

    def may_take(self, step: S) -> bool:
        """Tell whether a step may be taken now, and note that this round came to it."""
        self._taken.add(step)
        return self._retries[step].is_due

    def attempts(self, step: S) -> int:
        """Return how often the writer may try: several times at first; once after a failure, since we come back."""
        return 1 if self._retries[step].failures else writer.ATTEMPTS

    def failures(self, step: S | None = None) -> int:
        """Return how often in a row a step failed, or all of them together."""
        return sum(retry.failures for each, retry in self._retries.items() if step in (None, each))

    def note(self, step: S, *, is_done: bool) -> None:
        """Note what became of a step."""
        self._retries[step].note(is_done=is_done)

    def next_at(self) -> float | None:
        """Return when the next step is due, on the monotonic clock; None if none has failed."""
        return clock.earliest(retry.next_at for retry in self._retries.values())
