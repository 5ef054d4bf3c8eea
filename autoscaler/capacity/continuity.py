"""Since when the cluster was followed without a gap: nothing is ended, and nobody given up, shortly after one.

While the API server, a watch or our Lease is away, nobody sees what happens, and schedulers and kubelets are cut off,
too. What was true before says little then, and time that passed meanwhile is nobody's fault. A watch is away from its
failure until it says something again; one that the server ends in its time, and that goes on at once, never is.
"""

from collections.abc import Collection
from typing import Any, Final

from autoscaler import control
from autoscaler.control import ticking
from autoscaler.kube import store

CHECK_SECONDS: Final = 2.0
"""No gap is over sooner: who loses the Lease waits longer for it, and what a table lost is counted there."""
SETTLE_SECONDS: Final = 60.0
"""So long after our return, schedulers have found room for what waits, and kubelets have told of their nodes."""


class Continuity:
    """Watches whether we may act, and see what happens."""

    def __init__(self, context: control.ControllerContext, followed: Collection[store.Table[Any]]) -> None:
        self._context = context
        self._followed = followed
        self._cuts = 0
        self._has_acted = False
        self._is_away = False
        self._settled_at = 0.0
        """By the clock that never goes back."""
        context.feed(self)

    async def run(self) -> None:
        """Look again and again."""
        await ticking.every(CHECK_SECONDS, self.look)

    def unsynced(self) -> str | None:
        """Return None: nothing is waited for."""
        return None

    def look(self) -> None:
        """Note whether we may act now. What was before we ever could is no gap: nothing was learned."""
        is_held = self._context.held_back() is not None and not self._context.is_paused()  # who pauses goes on watching
        cuts, before = sum(table.cuts for table in self._followed), self._cuts
        was_away, self._cuts = self._is_away or cuts != before, cuts
        self._is_away = is_held or any(table.is_cut_off for table in self._followed)
        if was_away and not self._is_away and self._has_acted:
            self._settled_at = self._context.clock.monotonic() + SETTLE_SECONDS
        self._has_acted = self._has_acted or not self._is_away

    def settled_at(self) -> float:
        """Return from when on anything may be ended again; a time in the past if there was no gap lately."""
        self.look()
        now, monotonic = self._context.clock.now(), self._context.clock.monotonic()
        return now + (SETTLE_SECONDS if self._is_away else self._settled_at - monotonic)
