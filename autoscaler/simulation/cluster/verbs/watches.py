"""Watches: a stream of changes from a version on, for the objects that a selector holds on to.

An object that enters the selector is ADDED, one that leaves it DELETED, whatever the write itself was.
"""

import asyncio
from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

import msgspec

from autoscaler.kube import port
from autoscaler.simulation.cluster import failures, selectors, served
from autoscaler.simulation.cluster.store import Change, Collection, Entry, Store

BOOKMARK_SECONDS: Final = 60.0
_TIMEOUT_SECONDS: Final = (1800.0, 3600.0)
"""How long a watch lives that does not say."""
_BEFORE_END_SECONDS: Final = 2.0
"""A last bookmark comes this long before the server ends a watch."""
_ROUNDING_SECONDS: Final = 0.001
"""A timer may come a little early: what is due within this was just done."""


class Watch:
    """One open watch."""

    def __init__(self, store: Store, kind: served.Kind, namespace: str | None, query: Mapping[str, str]) -> None:
        self._store = store
        self._kind = kind
        self._namespace = namespace
        self._predicate = selectors.of_query(kind.resource, query)
        self._collection: Collection = store.collection(kind.resource)
        self._ready: list[bytes] = []
        self._wake = asyncio.Event()
        self._timers: list[asyncio.TimerHandle] = []
        self._error: Exception | None = None
        self._is_ended = False
        self.lag_seconds = 0.0
        """How long each event is on its way."""

    def open(self, query: Mapping[str, str], random: Random) -> None:
        """Begin: what is there already or what happened since, then every change as it comes."""
        asked = query.get("resourceVersion") or "0"
        since = int(asked) if asked.isdigit() else -1
        if since < 0:
            raise failures.bad_request(f'resourceVersion: Invalid value: "{asked}"')
        self._collection.listeners.append(self._offer)
        self._collection.on_end.append(self.end)
        self._begin(since)
        seconds = float(query.get("timeoutSeconds") or random.uniform(*_TIMEOUT_SECONDS))
        loop = asyncio.get_running_loop()
        self._timers.append(loop.call_later(seconds, self.end))
        if query.get("allowWatchBookmarks") in {"true", "1"}:
            ends_at = loop.time() + seconds
            first = min(BOOKMARK_SECONDS, max(seconds - _BEFORE_END_SECONDS, 1.0))
            self._timers.append(loop.call_later(first, self._bookmark, ends_at))

    async def batch(self) -> Sequence[bytes] | None:
        """Wait for events; None once the watch has ended."""
        while not self._ready:
            if self._error is not None:
                raise self._error
            if self._is_ended:
                return None
            self._wake.clear()
            await self._wake.wait()
        ready, self._ready = self._ready, []
        return ready

    def end(self) -> None:
        """Let what is ready be read, then no more."""
        self._is_ended = True
        self.close()
        self._wake.set()

    def cut(self) -> None:
        """Break the connection."""
        self._error = port.UnreachableError("the watch was cut off")
        self._ready.clear()
        self.end()

    def close(self) -> None:
        if self._offer in self._collection.listeners:
            self._collection.listeners.remove(self._offer)
        if self.end in self._collection.on_end:
            self._collection.on_end.remove(self.end)
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def _begin(self, since: int) -> None:
        if since == 0:
            for _, entry in sorted(self._collection.within(self._namespace)):
                if self._predicate(entry.object):
                    self._deliver(_event("ADDED", entry))
        elif since < self._collection.floor:
            gone = failures.expired(f"too old resource version: {since} ({self._collection.floor})")
            self._deliver(msgspec.json.encode({"type": "ERROR", "object": gone.status()}))
            self.end()
        else:
            for change in self._collection.since(since):
                self._offer(change)

    def _offer(self, change: Change) -> None:
        if self._namespace is not None and change.key.namespace != self._namespace:
            return
        was_in = change.before is not None and self._predicate(change.before.object)
        is_in = change.after is not None and self._predicate(change.after.object)
        if not was_in and not is_in:
            return
        if not is_in:
            event = _event("DELETED", change.shown)
        else:
            event = _event("MODIFIED" if was_in else "ADDED", change.shown)
        if self.lag_seconds:
            self._timers.append(asyncio.get_running_loop().call_later(self.lag_seconds, self._deliver, event))
        else:
            self._deliver(event)

    def _deliver(self, event: bytes) -> None:
        self._ready.append(event)
        self._wake.set()

    def _bookmark(self, ends_at: float) -> None:
        self._deliver(self._bookmark_event())
        loop = asyncio.get_running_loop()
        next_at = min(loop.time() + BOOKMARK_SECONDS, ends_at - _BEFORE_END_SECONDS)
        if next_at > loop.time() + _ROUNDING_SECONDS:
            self._timers.append(loop.call_at(next_at, self._bookmark, ends_at))

    def _bookmark_event(self) -> bytes:
        metadata = {"resourceVersion": str(self._store.version)}
        resource = self._kind.resource
        body = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        return msgspec.json.encode({"type": "BOOKMARK", "object": body})


def _event(kind: str, entry: Entry) -> bytes:
    return b'{"type":"%s","object":%s}' % (kind.encode(), entry.encoded)
