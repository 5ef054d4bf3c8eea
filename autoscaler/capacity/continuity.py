"""Since when the cluster was followed without a gap: nothing is ended, and nobody given up, shortly after one.

While the API server, a watch or our Lease is away, nobody sees what happens, and schedulers and kubelets are cut off,
too. What was true before says little then, and time that passed meanwhile is nobody's fault. A watch that the server
ends in its time is never away. One that breaks, and is accepted within two seconds where it was, has missed nothing,
unless that happens so often that it hardly gets to say anything.
"""

from collections.abc import Iterable
from typing import Any, Final

from autoscaler import control
from autoscaler.control import metrics, ticking
from autoscaler.kube import store

CHECK_SECONDS: Final = 2.0
"""No gap is over sooner: who loses the Lease waits longer for it, and what a table lost is counted there."""
SETTLE_SECONDS: Final = 60.0
"""So long after our return, schedulers have found room for what waits, and kubelets have told of their nodes."""
BRIEF_SECONDS: Final = 2.0
"""A watch that goes on within this was not away."""
OFTEN_SECONDS: Final = 10.0
"""A watch that breaks again within this was not back."""


class Continuity:
    """Watches whether we may act, and see what happens."""

    def __init__(self, context: control.ControllerContext, followed: Iterable[store.Table[Any]]) -> None:
        self._context = context
        self._followed = [_Followed(table) for table in followed]
        self._has_acted = False
        self._is_away = False
        self._settled_at = 0.0
        """By the clock that never goes back."""
        self._held_since: float | None = None
        """Since when nothing may be ended, by the same clock; None: it may."""
        context.feed(self)
        context.measure(self._measure)

    async def run(self) -> None:
        """Look again and again."""
        await ticking.every(CHECK_SECONDS, self.look)

    def unsynced(self) -> str | None:
        """Return None: nothing is waited for."""
        return None

    def look(self) -> None:
        """Note whether we may act now. What was before we ever could is no gap: nothing was learned."""
        now = self._context.clock.monotonic()
        is_held = self._context.held_back() is not None and not self._context.is_paused()  # who pauses goes on watching
        had_gap = [each.had_gap(now) for each in self._followed]
        was_away = self._is_away or any(had_gap)
        self._is_away = is_held or any(each.is_away(now) for each in self._followed)
        if was_away and not self._is_away and self._has_acted:
            self._settled_at = now + SETTLE_SECONDS
        self._has_acted = self._has_acted or not self._is_away
        is_settled = not self._is_away and now >= self._settled_at
        self._held_since = None if is_settled else now if self._held_since is None else self._held_since

    def settled_at(self) -> float:
        """Return from when on anything may be ended again; a time in the past if there was no gap lately."""
        self.look()
        now, monotonic = self._context.clock.now(), self._context.clock.monotonic()
        return now + (SETTLE_SECONDS if self._is_away else self._settled_at - monotonic)

    def _measure(self) -> list[metrics.Metric]:
        acts = self._context.held_back() is None
        held = 0.0 if self._held_since is None else self._context.clock.monotonic() - self._held_since
        text = "For how long nothing has been ended because of gaps in what is seen."
        return [metrics.gauge("sluice_removals_held_seconds", text, [({}, held)] if acts else [])]


class _Followed:
    """One watch, as its table tells of it."""

    def __init__(self, table: store.Table[Any]) -> None:
        self._table = table
        self._cuts = 0
        self._lists = 0
        self._cut_at = float("-inf")
        """When its last break was noticed."""

    def had_gap(self, now: float) -> bool:
        """Tell, once, whether it was listed anew or broke too often since it was asked the last time."""
        cuts, lists = self._table.cuts - self._cuts, self._table.lists - self._lists
        self._cuts, self._lists = self._table.cuts, self._table.lists
        is_often = cuts > 1 or (cuts == 1 and now < self._cut_at + OFTEN_SECONDS)
        self._cut_at = now if cuts else self._cut_at
        return is_often or lists > 0

    def is_away(self, now: float) -> bool:
        """Tell whether it has been away for more than a moment."""
        return self._table.is_cut_off and now >= self._cut_at + BRIEF_SECONDS
