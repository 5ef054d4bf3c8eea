"""Faults on demand: what goes wrong between a client and the API server, for whom and how often."""

import asyncio
from dataclasses import dataclass
from typing import Final

from autoscaler.simulation.cluster import failures
from autoscaler.simulation.cluster.verbs.watches import Watch

WATCH: Final = "WATCH"
"""The method by which a rule is about watches being opened."""
_REASONS: Final = {
    429: "TooManyRequests",
    500: "InternalError",
    502: "",
    503: "ServiceUnavailable",
    504: "Timeout",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Matching:
    """Which requests a fault is about; what is not said does not matter."""

    method: str | None = None
    path: str = ""
    """A part of the path."""
    username: str | None = None

    def covers(self, method: str, path: str, username: str) -> bool:
        return (
            self.method in {None, method}
            and self.path in path
            and self.username in {None, username}
            and not (self.method is None and method == WATCH)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """There is no connection: nothing happens at the server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseAnswer:
    """The server does it, and the answer never arrives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The server says this instead of doing it."""

    code: int
    retry_after_seconds: int | None = None

    def refusal(self) -> failures.Refusal:
        return failures.Refusal(
            self.code,
            _REASONS.get(self.code, ""),
            f"the fault that was asked for: {self.code}",
            retry_after_seconds=self.retry_after_seconds,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """The request reaches the server this much later."""

    seconds: float


Effect = Refuse | LoseAnswer | Answer | Delay


@dataclass(slots=True)
class _Rule:
    matching: Matching
    effect: Effect
    left: int | None
    """How many more requests; None: all of them."""


class Faults:
    """The faults in force. Each request meets all rules that cover it, oldest first."""

    def __init__(self) -> None:
        self.watch_lag_seconds = 0.0
        """How long the events of watches opened from now on are on their way."""
        self._rules: list[_Rule] = []
        self._frozen: dict[str, asyncio.Event] = {}
        self._watches: dict[Watch, str] = {}

    def add(self, effect: Effect, matching: Matching | None = None, *, times: int | None = 1) -> None:
        """Make the next requests that match fail so; without a number, all until `clear`."""
        self._rules.append(_Rule(matching or Matching(), effect, times))

    def clear(self) -> None:
        """End all faults but frozen clients."""
        self._rules.clear()
        self.watch_lag_seconds = 0.0

    def partition(self, username: str) -> None:
        """Cut a client off: its watches break, its calls find nobody, until `clear`."""
        for method in (None, WATCH):
            self.add(Refuse(), Matching(method=method, username=username), times=None)
        self.cut_watches(username)

    def freeze(self, username: str) -> None:
        """Stop a client: its calls and the events of its watches wait until it is thawed."""
        self._frozen.setdefault(username, asyncio.Event())

    def thaw(self, username: str) -> None:
        frozen = self._frozen.pop(username, None)
        if frozen is not None:
            frozen.set()

    async def until_thawed(self, username: str) -> None:
        """Wait while the client is frozen."""
        while username in self._frozen:
            await self._frozen[username].wait()

    def cut_watches(self, username: str | None = None) -> int:
        """Break the open watches, of one client or of all, and tell how many."""
        cut = [watch for watch, owner in self._watches.items() if username in {None, owner}]
        for watch in cut:
            watch.cut()
        return len(cut)

    def opened(self, watch: Watch, username: str) -> None:
        self._watches[watch] = username

    def closed(self, watch: Watch) -> None:
        self._watches.pop(watch, None)

    def next(self, method: str, path: str, username: str) -> list[Effect]:
        """Return what happens to a request, and count it."""
        met = [rule for rule in self._rules if rule.matching.covers(method, path, username)]
        for rule in met:
            if rule.left is not None:
                rule.left -= 1
        self._rules = [rule for rule in self._rules if rule.left is None or rule.left > 0]
        return [rule.effect for rule in met]
