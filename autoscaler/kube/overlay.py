"""A mapping as it was at one moment, as another one and what has changed since. It costs what changed, not what exists.

`Overlaid` hands these out of a dictionary that goes on changing. Small ones are copied, which is simpler and as fast.
"""

from collections.abc import Hashable, Iterator, Mapping, ValuesView
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
COPIED_MAX: Final = 1000
"""So many entries are copied. So many changes, or a sixteenth of all, are laid over a copy before the next is made."""
_ABSENT: Final[Any] = object()


class Overlaid(Generic[K, V]):
    """Hands out what a dictionary holds; whoever changes that says so."""

    def __init__(self, current: Mapping[K, V], copied_max: int = COPIED_MAX) -> None:
        self._current = current
        self._copied_max = copied_max
        self._base: dict[K, V] | None = None
        self._changes: dict[K, V] = {}
        self._frozen: Mapping[K, V] | None = None

    def note(self, key: K) -> None:
        """Take over how an entry is now, or that it is gone."""
        self._frozen = None
        if self._base is not None:
            self._changes[key] = self._current.get(key, _ABSENT)
            if len(self._changes) > max(self._copied_max, len(self._current) // 16):
                self._base, self._changes = None, {}

    def snapshot(self) -> Mapping[K, V]:
        """Return all entries as they are now; later changes do not show. Free while nothing changes."""
        if self._frozen is None:
            self._frozen = self._freeze()
        return self._frozen

    def _freeze(self) -> Mapping[K, V]:
        if self._base is None:
            copied = dict(self._current)
            self._base = copied if len(copied) > self._copied_max else None
            return MappingProxyType(copied)
        return _Overlay(self._base, dict(self._changes), len(self._current))


class _Overlay(Mapping[K, V]):
    __slots__ = ("_base", "_changes", "_length")

    def __init__(self, base: Mapping[K, V], changes: Mapping[K, V], length: int) -> None:
        self._base, self._changes, self._length = base, changes, length

    def __getitem__(self, key: K) -> V:
        found = self._changes[key] if key in self._changes else self._base[key]
        if found is _ABSENT:
            raise KeyError(key)
        return found

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[K]:
        changes = self._changes
        yield from (key for key in self._base if changes.get(key) is not _ABSENT)
        yield from (key for key, value in changes.items() if key not in self._base and value is not _ABSENT)

    def values(self) -> ValuesView[V]:
        """Return the values, in the order of their keys."""
        return _Values(self)


class _Values(ValuesView[V]):
    _mapping: _Overlay[Any, V]

    def __iter__(self) -> Iterator[V]:
        base, changes = self._mapping._base, self._mapping._changes  # noqa: SLF001  # its own view
        for key, value in base.items():
            now = changes.get(key, value)
            if now is not _ABSENT:
                yield now
        yield from (value for key, value in changes.items() if key not in base and value is not _ABSENT)
