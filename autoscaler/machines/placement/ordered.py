"""Names in the order of what they are sorted by, kept current name by name. Pure."""

import bisect
from collections.abc import Iterator
from typing import Any

Rank = tuple[Any, ...]
"""What a name is sorted by; the name itself is its last part, so that no two are alike."""


class Ordered:
    """Names in order."""

    def __init__(self) -> None:
        self._ranks: dict[str, Rank] = {}
        self._sorted: list[Rank] = []

    def put(self, name: str, rank: Rank | None) -> None:
        """Put a name where it belongs now; None: it is in here no longer."""
        before = self._ranks.pop(name, None)
        if before is not None:
            del self._sorted[bisect.bisect_left(self._sorted, before)]
        if rank is not None:
            self._ranks[name] = rank
            bisect.insort(self._sorted, rank)

    def __getitem__(self, place: int) -> str:
        name: str = self._sorted[place][-1]
        return name

    def __contains__(self, name: object) -> bool:
        return name in self._ranks

    def __iter__(self) -> Iterator[str]:
        return (rank[-1] for rank in self._sorted)

    def __len__(self) -> int:
        return len(self._sorted)

    def ranks(self) -> Iterator[Rank]:
        """Return what names are sorted by, in order."""
        return iter(self._sorted)
