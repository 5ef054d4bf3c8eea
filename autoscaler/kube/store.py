"""What we know of the cluster: tables of objects with indexes kept current at each change.

A table never goes back in time: an object older than the one it has is ignored, whether it comes from the watch or as
the answer to a write of ours. That is how a controller sees its own writes, and never acts twice on an old view.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, Generic, NamedTuple, TypeVar

from autoscaler.kube import overlay
from autoscaler.kube.objects import Key, Meta, Stored

T = TypeVar("T", bound=Stored)
K = TypeVar("K", bound=Hashable)
Listener = Callable[[T | None, T | None], None]
_DELETED_MAX: Final = 20_000
_NOTHING: Final[Mapping[Key, Any]] = MappingProxyType({})


class Unreadable(NamedTuple):
    """An object that we cannot make sense of, and why."""

    meta: Meta
    problem: str


class Index(Generic[K, T]):
    """The objects of a table by something other than their key."""

    def __init__(self, values: Callable[[T], Collection[K]]) -> None:
        self._values = values
        self._groups: dict[K, dict[Key, T]] = {}

    def get(self, value: K) -> Mapping[Key, T]:
        """Return the objects with this value. A view: it changes with the table."""
        return MappingProxyType(self._groups[value]) if value in self._groups else _NOTHING

    def __iter__(self) -> Iterator[K]:
        return iter(self._groups)

    def __len__(self) -> int:
        return len(self._groups)

    def update(self, old: T | None, new: T | None) -> None:
        """Take over one change of the table."""
        before = self._values(old) if old is not None else ()
        after = self._values(new) if new is not None else ()
        if old is not None:
            for value in before:
                if value not in after:
                    self._remove(value, old.meta.key)
        if new is not None:
            for value in after:
                self._groups.setdefault(value, {})[new.meta.key] = new

    def _remove(self, value: K, key: Key) -> None:
        group = self._groups[value]
        del group[key]
        if not group:
            del self._groups[value]


class Table(Generic[T]):
    """All objects of one kind that we watch."""

    def __init__(self) -> None:
        self.synced = False
        """Whether the first list is complete. Before, absence means nothing."""
        self.resource_version = 0
        """How far the list or the watch has come."""
        self.is_cut_off = False
        """Whether the watch broke, and has said nothing since."""
        self.cuts = 0
        """How often that happened."""
        self.lists = 0
        """How often a whole list was taken over."""
        self.unreadable: dict[Key, Unreadable] = {}
        """Objects that we cannot make sense of. They are in no index."""
        self.on_unreadable: list[Callable[[Unreadable], None]] = []
        """Called for each object that is put aside."""
        self._objects: dict[Key, T] = {}
        self._deleted: dict[str, None] = {}
        self._unechoed: dict[Key, int] = {}
        """Versions that answers to our writes have brought and the watch has yet to bring."""
        self._indexes: dict[Callable[[T], Collection[Any]], Index[Any, T]] = {}
        self._listeners: list[Listener[T]] = []
        self._frozen = overlay.Overlaid(self._objects)

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        return iter(self._objects.values())

    def get(self, key: Key) -> T | None:
        return self._objects.get(key)

    def snapshot(self) -> Mapping[Key, T]:
        """Return all objects as they are now; later changes do not show. Free while nothing changes."""
        return self._frozen.snapshot()

    def index(self, values: Callable[[T], Collection[K]]) -> Index[K, T]:
        """Return the index by a function's values; the first call for that function makes it."""
        if values not in self._indexes:
            made: Index[K, T] = Index(values)
            for stored in self:
                made.update(None, stored)
            self._indexes[values] = made
            self.listen(made.update)
        return self._indexes[values]

    def listen(self, listener: Listener[T]) -> None:
        """Call this with the old and the new object at each change, None standing for absence."""
        self._listeners.append(listener)

    # What the watch says

    def seen(self, stored: T) -> None:
        """Take over an object from the watch."""
        self.resource_version = max(self.resource_version, stored.meta.resource_version)
        self._unechoed.pop(stored.meta.key, None)
        self._take(stored)

    @property
    def awaits_echoes(self) -> bool:
        """Whether the watch has yet to bring what answers to our writes have brought."""
        return bool(self._unechoed)

    def echoed(self, key: Key, resource_version: int) -> bool:
        """Tell whether the watch brings nothing newer than an answer did; who asks need not read the object then."""
        known, awaited = self._objects.get(key), self._unechoed.get(key)
        if known is None or awaited is None or known.meta.resource_version < resource_version:
            return False
        self.resource_version = max(self.resource_version, resource_version)
        if awaited <= resource_version:
            del self._unechoed[key]
        return True

    def gone(self, meta: Meta) -> None:
        """Take over a deletion from the watch."""
        self.resource_version = max(self.resource_version, meta.resource_version)
        self.unreadable.pop(meta.key, None)
        self._unechoed.pop(meta.key, None)
        self._deleted.pop(meta.uid, None)
        known = self._objects.get(meta.key)
        if known is not None and known.meta.resource_version <= meta.resource_version:
            self._change(known, None)

    def replace(self, listed: Iterable[T], resource_version: int, aside: Iterable[Unreadable] = ()) -> None:
        """Take over a whole list: what it lacks was deleted, unless we wrote it after the list was made."""
        self.lists += 1
        everything = list(listed)
        uids = {stored.meta.uid for stored in everything}
        self._deleted = {uid: None for uid in self._deleted if uid in uids}
        self._unechoed.clear()
        self.catch_up(everything, resource_version)
        self.resource_version = max(self.resource_version, resource_version)
        self.synced = True
        self.unreadable = {found.meta.key: found for found in aside}
        for found in self.unreadable.values():
            self._tell_unreadable(found)

    def catch_up(self, listed: Iterable[T], resource_version: int) -> None:
        """Take over a list that may be newer than the watch; what it lacks was deleted, unless we know of it since."""
        everything = list(listed)
        there = {stored.meta.key for stored in everything}
        for stored in everything:
            self._take(stored)
        for known in list(self._objects.values()):
            if known.meta.key not in there and known.meta.resource_version <= resource_version:
                self._change(known, None)

    def put_aside(self, meta: Meta, problem: str) -> None:
        """Remember an object that cannot be read, and why, instead of what we knew of it."""
        self.gone(meta)
        self.unreadable[meta.key] = Unreadable(meta, problem)
        self._tell_unreadable(self.unreadable[meta.key])

    def forget(self) -> None:
        """Drop everything: the cluster's history began anew, and its versions say nothing about ours."""
        for known in list(self._objects.values()):
            self._change(known, None)
        self._deleted.clear()
        self._unechoed.clear()
        self.resource_version = 0

    def cut_off(self) -> None:
        """Say that the watch broke. What we know is trusted for a while, but nobody tells us of changes."""
        self.cuts += not self.is_cut_off
        self.is_cut_off = True

    def lost(self) -> None:
        """Say that what we know may be wrong, until the next sign of life."""
        self.synced = False

    def found(self) -> None:
        """Say that we follow the cluster again."""
        self.synced, self.is_cut_off = True, False

    # What our own writes say

    def wrote(self, stored: T) -> None:
        """Take over the answer to a write of ours; one that the watch has already overtaken is old news."""
        meta = stored.meta
        if meta.resource_version > self.resource_version:
            self._unechoed[meta.key] = meta.resource_version
        if meta.key in self._objects or meta.resource_version > self.resource_version:
            self._take(stored)

    def deleted(self, key: Key, uid: str) -> None:
        """Forget an object that we deleted, and do not take it up again until the watch has said so too."""
        self._deleted[uid] = None
        if len(self._deleted) > _DELETED_MAX:  # answers that came after the watch's word: no one asks for them again
            del self._deleted[next(iter(self._deleted))]
        known = self._objects.get(key)
        if known is not None and known.meta.uid == uid:
            self._change(known, None)

    def _take(self, stored: T) -> None:
        key = stored.meta.key
        known = self._objects.get(key)
        if known is not None and known.meta.resource_version >= stored.meta.resource_version:
            return
        if stored.meta.uid in self._deleted:
            return
        self.unreadable.pop(key, None)
        self._change(known, stored)

    def _tell_unreadable(self, found: Unreadable) -> None:
        for tell in self.on_unreadable:
            tell(found)

    def _change(self, old: T | None, new: T | None) -> None:
        if new is not None:
            self._objects[new.meta.key] = new
            self._frozen.note(new.meta.key)
        elif old is not None:
            del self._objects[old.meta.key]
            self._frozen.note(old.meta.key)
        for listener in self._listeners:
            listener(old, new)
