"""Lists: sorted as the real store sorts, in pages that all show the same moment."""

import base64
import binascii
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from autoscaler.kube import port
from autoscaler.kube.kinds import ResourceType
from autoscaler.simulation.cluster import failures, selectors, served
from autoscaler.simulation.cluster.store import Entry, Store

_KEPT_SNAPSHOTS: Final = 64
_TOO_OLD: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without"
    " the continue parameter, or use the continue token in this response to retrieve the remainder of the results."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What was there at one version, in order."""

    version: int
    entries: tuple[tuple[str, Entry], ...]


class _Token(msgspec.Struct):
    rv: int
    start: str
    """The last key that was shown."""


class Reads:
    """Answers lists, and remembers what half-read ones began with."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._snapshots: OrderedDict[tuple[ResourceType, str | None, int], Snapshot] = OrderedDict()

    def list(self, kind: served.Kind, namespace: str | None, query: Mapping[str, str]) -> port.Response:
        """Return the objects of a collection, or a page of them."""
        predicate = selectors.of_query(kind.resource, query)
        limit = int(query.get("limit") or 0)
        snapshot, after = self._snapshot(kind, namespace, query)
        taken: list[Entry] = []
        last = after
        remaining = 0
        rest = [(key, entry) for key, entry in snapshot.entries if key > after]
        for number, (key, entry) in enumerate(rest):
            if not predicate(entry.object):
                continue
            if limit and len(taken) == limit:
                remaining = len(rest) - number
                break
            taken.append(entry)
            last = key
        metadata: dict[str, object] = {"resourceVersion": str(snapshot.version)}
        if remaining:
            self._keep(kind, namespace, snapshot)
            metadata["continue"] = _encode(_Token(rv=snapshot.version, start=last))
            if predicate is selectors.everything:
                metadata["remainingItemCount"] = remaining
        return _list_response(kind, metadata, taken)

    def forget(self) -> None:
        """Let half-read lists expire."""
        self._snapshots.clear()

    def _snapshot(self, kind: served.Kind, namespace: str | None, query: Mapping[str, str]) -> tuple[Snapshot, str]:
        if query.get("continue"):
            token = _decode(query["continue"])
            kept = self._snapshots.get((kind.resource, namespace, token.rv))
            if kept is None:
                raise failures.expired(_TOO_OLD)
            return kept, token.start
        asked = int(query.get("resourceVersion") or 0)
        if asked > self._store.version:
            raise _too_large(asked, self._store.version)
        found = self._store.collection(kind.resource).within(namespace)
        entries = sorted((f"{key.namespace}/{key.name}", entry) for key, entry in found)
        return Snapshot(version=self._store.version, entries=tuple(entries)), ""

    def _keep(self, kind: served.Kind, namespace: str | None, snapshot: Snapshot) -> None:
        self._snapshots[kind.resource, namespace, snapshot.version] = snapshot
        while len(self._snapshots) > _KEPT_SNAPSHOTS:
            self._snapshots.popitem(last=False)


def _list_response(kind: served.Kind, metadata: dict[str, object], entries: list[Entry]) -> port.Response:
    """Write the list; items of built-in kinds do not repeat their kind."""
    if kind.is_custom:
        items = b",".join(entry.encoded for entry in entries)
    else:
        head = len(f'{{"kind":"{kind.resource.kind}","apiVersion":"{kind.resource.api_version}",')
        items = b",".join(b"{" + entry.encoded[head:] for entry in entries)
    opening = msgspec.json.encode(
        {"kind": kind.list_kind, "apiVersion": kind.resource.api_version, "metadata": metadata}
    )
    return port.Response(status=200, body=opening[:-1] + b',"items":[' + items + b"]}")


def _encode(token: _Token) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def _decode(text: str) -> _Token:
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        return msgspec.json.decode(raw, type=_Token)
    except (binascii.Error, msgspec.MsgspecError, UnicodeError) as error:
        raise failures.bad_request(f"invalid continue token: continue key is not valid: {error}") from error


def _too_large(asked: int, current: int) -> failures.Refusal:
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return failures.Refusal(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {asked}, current: {current}",
        details={"causes": [cause], "retryAfterSeconds": 1},
        retry_after_seconds=1,
    )
