"""What a controller would do now, as data, and how facts are printed. Printing a plan is the dry run."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

WIDTH: Final = 80
_NAMES: Final = 13
"""How wide the names of facts are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One thing to do, and why."""

    verb: str
    """As kubectl would say it: create, delete, patch."""
    what: str
    """The object: `pod research/worker-x7k2p`, or a number of them."""
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What a controller would do now: the next step for each object; what follows from it is planned once it is done.

    Leases are not in it, nor what is told by events and statuses, for that says what was done: but for capacity's
    statuses, and what it tells pods for which it can do nothing.
    """

    commands: tuple[Command, ...] = ()
    unknown: tuple[str, ...] = ()
    """What cannot be said now, and why."""


def wrapped(line: str) -> str:
    """Break a line where it is too long for people to read."""
    return textwrap.fill(line, WIDTH, subsequent_indent="  ")


def facts(named: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Write facts for people, each behind its name."""
    for name, fact in named:
        yield textwrap.fill(fact, WIDTH, initial_indent=f"  {name:<{_NAMES}}", subsequent_indent=" " * (_NAMES + 2))


def table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Write rows for people, the first of which is the heading."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
