"""An index that follows a table, and the same made afresh beside it, a few objects at a time. It decides nothing.

Objects that were taken in already are followed as they change, so that at the end the fresh one says what is true then,
whatever happened meanwhile, and no cycle pays for all of it. Where the two differ, the one in use is made anew.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from autoscaler.kube import objects, store

T = TypeVar("T", bound=objects.Stored)


class Index(Protocol):
    """What follows a table."""

    def said(self) -> object:
        """Return all that it says, to be compared."""
        ...

    def heal(self) -> None:
        """Make it anew from all objects of its table."""
        ...


class Afresh(Generic[T]):
    """Makes the index of a table afresh, again and again."""

    def __init__(
        self, table: store.Table[T], kept: Index, make: Callable[[store.Table[T]], Index], *, portion: int
    ) -> None:
        """Make it for the index in use; `portion` is how many objects a cycle can afford to take in."""
        self.table = table
        self.portion = portion
        self._kept = kept
        self._make = make
        self._ahead: deque[objects.Key] = deque()
        self._taken: set[objects.Key] = set()
        self._copy: store.Table[Any] = store.Table()
        self._fresh: Index | None = None
        table.listen(self._follow)

    def go_on(self, count: int) -> bool:
        """Take in so many more objects; True: with these it has all, and the index in use differed and was healed."""
        if self._fresh is None:
            self._copy = store.Table()
            self._fresh = self._make(self._copy)
            self._ahead.extend(stored.meta.key for stored in self.table)
        for _ in range(min(count, len(self._ahead))):
            stored = self.table.get(self._ahead.popleft())
            if stored is not None and stored.meta.key not in self._taken:
                self._take(stored)
        return not self._ahead and self._compare(self._fresh)

    def _compare(self, fresh: Index) -> bool:
        self._fresh = None
        self._taken.clear()
        if fresh.said() == self._kept.said():
            return False
        self._kept.heal()
        return True

    def _take(self, stored: T) -> None:
        self._taken.add(stored.meta.key)
        self._copy.seen(stored)

    def _follow(self, old: T | None, new: T | None) -> None:
        """Follow what was taken in, and take in what is new; all else is yet to come."""
        if self._fresh is None:
            return
        if new is not None and (old is None or new.meta.key in self._taken):
            self._take(new)
        elif new is None and old is not None:
            self._copy.gone(old.meta)
