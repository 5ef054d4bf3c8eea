"""The watches of one process: one per kind and namespace, however many controllers read it."""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from autoscaler.kube import kinds, objects, store
from autoscaler.kube.reading import reflector

T = TypeVar("T", bound=objects.Stored)


class Watches:
    """The watches of this process: one for each kind and namespace, however many controllers read it."""

    def __init__(self, start: Callable[..., reflector.Reflector[Any]]) -> None:
        self._start = start
        self._tables: dict[tuple[str, str | None], store.Table[Any]] = {}
        self.reflectors: dict[tuple[str, str | None], reflector.Reflector[Any]] = {}

    def table(
        self,
        resource: kinds.ResourceType,
        decode: Callable[[bytes | msgspec.Raw], T],
        namespace: str | None = None,
    ) -> store.Table[T]:
        """Return the table of a kind; the first call starts its watch."""
        place = (resource.collection(), namespace)
        if place not in self._tables:
            self._tables[place] = store.Table()
            self.reflectors[place] = self._start(resource, self._tables[place], decode, namespace=namespace)
        return self._tables[place]
