"""Where objects live: plain data under one global, increasing resource version, with a bounded history.

An object is never changed in place; a write stores another one, which shares the parts that stayed. So whoever holds
one, a page of a list or a watcher, keeps what it saw.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from autoscaler.api.manifests import Manifest
from autoscaler.kube.kinds import ResourceType

FIRST_VERSION: Final = 1000
"""What came before is too old to be watched from, as on a server that has been restarted."""

HISTORY: Final = 20_000
"""How many changes of each kind a watch may be behind."""

_ENCODER: Final = msgspec.json.Encoder()


class Key(NamedTuple):
    """Where an object stands within its kind; the namespace of a cluster's own objects is empty."""

    namespace: str
    name: str


class Entry:
    """An object as it was after one write, and its JSON, made once and only if somebody reads it."""

    __slots__ = ("_encoded", "object", "version")

    def __init__(self, body: Manifest, version: int) -> None:
        self.object: Final = body
        self.version: Final = version
        self._encoded: bytes | None = None

    @property
    def encoded(self) -> bytes:
        if self._encoded is None:
            self._encoded = _ENCODER.encode(self.object)
        return self._encoded

    @property
    def uid(self) -> str:
        uid: str = self.object["metadata"]["uid"]
        return uid


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One write: what was there before it, what is there after it, and what it shows to watchers."""

    resource: ResourceType
    key: Key
    before: Entry | None
    after: Entry | None
    shown: Entry
    """The object after the write, or as it was last, under the version of its removal."""


Listener = Callable[[Change], None]


@dataclass(slots=True)
class Collection:
    """All objects of one kind."""

    resource: ResourceType
    floor: int
    """The oldest version from which the history is whole."""
    entries: dict[Key, Entry] = field(default_factory=dict)
    namespaces: dict[str, dict[Key, Entry]] = field(default_factory=dict)
    history: deque[Change] = field(default_factory=deque)
    listeners: list[Listener] = field(default_factory=list)
    on_end: list[Callable[[], None]] = field(default_factory=list)
    """Told when the kind itself is gone."""

    def within(self, namespace: str | None) -> Iterable[tuple[Key, Entry]]:
        """Return the objects of one namespace, or all, in no order."""
        return (self.entries if namespace is None else self.namespaces.get(namespace, {})).items()

    def since(self, version: int) -> Iterator[Change]:
        """Return the changes after a version, oldest first; the caller has looked at `floor`."""
        newer: list[Change] = []
        for change in reversed(self.history):
            if change.shown.version <= version:
                break
            newer.append(change)
        return reversed(newer)


class Store:
    """All objects. Whatever is decided about a write is decided before it gets here."""

    def __init__(self) -> None:
        self.version = FIRST_VERSION
        self._collections: dict[ResourceType, Collection] = {}
        self.listeners: list[Listener] = []
        """Told of every change of every kind."""
        self._by_uid: dict[str, tuple[ResourceType, Key]] = {}

    def add_collection(self, resource: ResourceType) -> None:
        self._collections[resource] = Collection(resource=resource, floor=self.version)

    def drop_collection(self, resource: ResourceType) -> None:
        """Forget a kind, and end what watches it."""
        for tell in list(self._collections.pop(resource).on_end):
            tell()

    def collection(self, resource: ResourceType) -> Collection:
        return self._collections[resource]

    def collections(self) -> tuple[Collection, ...]:
        return tuple(self._collections.values())

    def find(self, resource: ResourceType, key: Key) -> Entry | None:
        collection = self._collections.get(resource)
        return collection.entries.get(key) if collection else None

    def find_uid(self, uid: str) -> tuple[ResourceType, Key] | None:
        return self._by_uid.get(uid)

    def put(self, resource: ResourceType, body: Manifest) -> Entry:
        """Store an object under the next version."""
        metadata = body["metadata"]
        key = Key(metadata.get("namespace", ""), metadata["name"])
        collection = self._collections[resource]
        before = collection.entries.get(key)
        after = self._next(body)
        collection.entries[key] = after
        collection.namespaces.setdefault(key.namespace, {})[key] = after
        self._by_uid[after.uid] = (resource, key)
        self._tell(collection, Change(resource=resource, key=key, before=before, after=after, shown=after))
        return after

    def remove(self, resource: ResourceType, last: Manifest) -> Entry:
        """Remove an object; `last` is how watchers see it go."""
        metadata = last["metadata"]
        key = Key(metadata.get("namespace", ""), metadata["name"])
        collection = self._collections[resource]
        before = collection.entries.pop(key)
        inside = collection.namespaces[key.namespace]
        del inside[key]
        if not inside:
            del collection.namespaces[key.namespace]
        del self._by_uid[before.uid]
        gone = self._next(last)
        self._tell(collection, Change(resource=resource, key=key, before=before, after=None, shown=gone))
        return gone

    def compact(self) -> None:
        """Forget the history, so that a watch from an older version must list again."""
        for collection in self._collections.values():
            collection.history.clear()
            collection.floor = self.version

    def _next(self, body: Manifest) -> Entry:
        self.version += 1
        metadata = {**body["metadata"], "resourceVersion": str(self.version)}
        return Entry({**body, "metadata": metadata}, self.version)

    def _tell(self, collection: Collection, change: Change) -> None:
        collection.history.append(change)
        if len(collection.history) > HISTORY:
            collection.floor = collection.history.popleft().shown.version
        for listener in (*collection.listeners, *self.listeners):
            listener(change)
