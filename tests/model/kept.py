"""Books of quota that live through a whole history: they follow each change of what the runtime has seen.

The exploration reads books anew in every state; here a change costs what changed, as in the real runtime, and what was
refused once is remembered until something changes.
"""

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from autoscaler.admission.quota import cycle
from autoscaler.admission.quota.cache import books
from autoscaler.admission.writes import Write
from tests.autoscaler.admission import builders
from tests.autoscaler.admission.quota import recomputing
from tests.model.contents import Contents


class Kept:
    """One process' books, and the tables that they follow."""

    def __init__(self, contents: Contents, configuration: Iterable[Any]) -> None:
        self._contents = contents
        self._tables = builders.tables(*configuration)
        self._books = books.Books(self._tables)
        self._there: dict[str, int] = {}
        self._versions = itertools.count(100)

    def configure(self, configuration: Iterable[Any]) -> None:
        """Let the books see queues as they are now; each has a newer version than the last."""
        for each in configuration:
            builders.table_of(self._tables, each).seen(each)

    def follow(self, numbers: Iterable[int]) -> None:
        """Tell the books what changed: these contents are all that the runtime knows."""
        now = {self._contents.facts(number).uid: number for number in numbers}
        for uid in list(self._there):
            if uid not in now:
                old = self._versioned(self._contents[self._there.pop(uid)].decoded)
                builders.table_of(self._tables, old).gone(old.meta)
        for uid, number in now.items():
            if self._there.get(uid) != number:
                new = self._versioned(self._contents[number].decoded)
                builders.table_of(self._tables, new).seen(new)
        self._there = now

    def plan(self, now: float) -> tuple[Write, ...]:
        """Decide about quota."""
        return cycle.decide(self._books, now=now, most=100).writes

    def differences(self, now: float) -> Iterator[str]:
        """Say where the books differ from what the tables say."""
        self._books.wake(now)
        read, want = recomputing.read(self._books), recomputing.recompute(self._tables, now)
        if read != want:
            yield f"the books say {read}, the objects {want}"

    def _versioned(self, decoded: Any) -> Any:
        meta = msgspec.structs.replace(decoded.meta, resource_version=next(self._versions))
        return msgspec.structs.replace(decoded, meta=meta)
