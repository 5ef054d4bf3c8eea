"""How a check says what would have been right where a name is none of those that are known."""

from collections.abc import Iterable


def known(demand: str, names: Iterable[str]) -> str:
    """Write a demand with the names that would meet it."""
    listed = ", ".join(sorted(names))
    return f"{demand}: {listed}" if listed else f"{demand}; there are none"
