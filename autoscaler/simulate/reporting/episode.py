"""An episode: a decision, or several that belong together. Values, and how lines are parted into episodes. Pure."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeVar


class Timed(Protocol):
    """What happened at a moment."""

    @property
    def at(self) -> float: ...


T = TypeVar("T", bound=Timed)
K = TypeVar("K")


class Kind(StrEnum):
    """What an episode is about, the most telling first."""

    SHORTAGE = "shortage"
    BUDGET = "budget"
    LIMIT = "limit"
    EVICTION = "eviction"
    RESIZE = "resize"
    ADMISSION = "admission"
    MACHINE = "machine"
    ROOM = "room"
    GROWTH = "growth"
    REMOVAL = "removal"
    WORKERS = "workers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """A decision, or several that are one: when, how large, what, and why."""

    at: float
    kind: Kind
    size: int
    what: str
    why: str


def together(lines: Iterable[T], key: Callable[[T], K], pause_seconds: float) -> Iterator[tuple[K, list[T]]]:
    """Part lines by a key, and where nothing happened for long."""
    by_key: dict[K, list[list[T]]] = {}
    for line in lines:
        runs = by_key.setdefault(key(line), [])
        if not runs or line.at - runs[-1][-1].at > pause_seconds:
            runs.append([])
        runs[-1].append(line)
    for each, runs in by_key.items():
        for run in runs:
            yield each, run
