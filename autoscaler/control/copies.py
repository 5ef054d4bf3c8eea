"""Tables as they were at one moment, for whoever decides beside the controller without touching what it knows.

A copy is empty at first, so that indexes can listen to it, and is filled then, as a watch fills a table.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from autoscaler.kube import store

T = TypeVar("T")


class Copies:
    """Copies of tables. They are made in the loop; they may be filled and read in any thread."""

    def __init__(self) -> None:
        self._filled: list[tuple[store.Table[Any], Mapping[Any, Any], tuple[store.Unreadable, ...]]] = []

    def of(self, tables: T) -> T:
        """Copy a table, a mapping of tables, or a value all of whose fields are such."""
        if isinstance(tables, store.Table):
            made: store.Table[Any] = store.Table()
            self._filled.append((made, tables.snapshot(), tuple(tables.unreadable.values())))
            return made  # type: ignore[return-value]
        if isinstance(tables, Mapping):
            return {name: self.of(each) for name, each in tables.items()}  # type: ignore[return-value]
        fields = {each.name: self.of(getattr(tables, each.name)) for each in dataclasses.fields(tables)}  # type: ignore[arg-type]
        return type(tables)(**fields)

    def fill(self) -> None:
        """Let the copies hold what their originals did."""
        for made, listed, aside in self._filled:
            made.replace(listed.values(), 0, aside)
