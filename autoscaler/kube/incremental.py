"""What is known of objects by group, kept current by each change of a table: it costs what changed, not what exists.

A group is any value that can take one object in and give one up; both must cost the same however many it holds. What it
says must be what adding its objects afresh would say: `recomputed` does that, slowly, for tests to compare with.
"""

from collections.abc import Callable, Collection, Hashable, Iterator
from typing import Any, Generic, Protocol, TypeVar

from autoscaler.kube import objects, store

T = TypeVar("T", bound=objects.Stored)
T_contra = TypeVar("T_contra", contravariant=True)
K = TypeVar("K", bound=Hashable)


class Group(Protocol[T_contra]):
    """What is known of the objects of one group."""

    def add(self, stored: T_contra, /) -> None:
        """Take an object in."""
        ...

    def remove(self, stored: T_contra, /) -> None:
        """Give up an object that was taken in, in the very version it had then."""
        ...

    def __len__(self) -> int: ...


G = TypeVar("G", bound=Group[Any])


class IncrementalIndex(Generic[K, T, G]):
    """The groups of a table's objects."""

    def __init__(
        self, table: store.Table[T], *, groups_of: Callable[[T], Collection[K]], make: Callable[[], G]
    ) -> None:
        self.on_change: list[Callable[[K], None]] = []
        """Called with each group that one of its objects came to, left or changed in."""
        self._table = table
        self._groups_of = groups_of
        self._make = make
        self._groups: dict[K, G] = {}
        for stored in table:
            self._change(None, stored)
        table.listen(self._change)

    def get(self, key: K) -> G | None:
        """Return a group; None if it has no objects. It changes with the table."""
        return self._groups.get(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self._groups)

    def __len__(self) -> int:
        return len(self._groups)

    def as_dict(self) -> dict[K, G]:
        """Return all groups."""
        return dict(self._groups)

    def recomputed(self) -> dict[K, G]:
        """Return all groups, made afresh from every object of the table."""
        groups: dict[K, G] = {}
        for stored in self._table:
            for key in self._groups_of(stored):
                groups.setdefault(key, self._make()).add(stored)
        return groups

    def heal(self) -> None:
        """Take the groups that were made afresh instead of those that followed changes."""
        self._groups = self.recomputed()

    def _change(self, old: T | None, new: T | None) -> None:
        before = self._groups_of(old) if old is not None else ()
        after = self._groups_of(new) if new is not None else ()
        for key in before:
            self._groups[key].remove(old)
        for key in after:
            if key not in self._groups:
                self._groups[key] = self._make()
            self._groups[key].add(new)
        for key in {*before, *after}:
            if not self._groups[key]:
                del self._groups[key]
            for tell in self.on_change:
                tell(key)
