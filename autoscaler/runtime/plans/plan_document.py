"""The answer to GET /plan, and how it is printed. Values and text only.

The JSON is stable: fields may come, none goes or changes its meaning while `version` stays. docs/operations.md has it.
"""

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

import msgspec

from autoscaler.control import plans
from autoscaler.runtime import leadership

VERSION: Final = 1
LISTED_MAX: Final = 5000
"""So many commands of a controller are in the document; the rest is counted."""
PRINTED_MAX: Final = 100
"""So many of them are printed as text."""
_SIGNS: Final = {"create": "+", "open": "+", "delete": "-", "terminate": "-", "evict": "-"}


class State(StrEnum):
    """What a controller does with its plan."""

    ACTING = "acting"
    """It carries it out."""
    OBSERVING = "observing"
    """It writes nothing, as the runtime was told to."""
    PAUSED = "paused"
    """It does nothing until the annotation is taken off the runtime's namespace."""
    STARTING = "starting"
    """It has not seen everything yet."""
    STANDBY = "standby"
    """Another replica leads, or none does."""


class Section(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What one controller would do."""

    controller: str
    leader: str | None
    """Who holds its Lease; None: nobody."""
    state: State
    waits_for: str | None = None
    """Of one that is starting: what is missing."""
    commands: tuple[plans.Command, ...] = ()
    more: int = 0
    """How many commands were left out."""
    unknown: tuple[str, ...] = ()
    """What cannot be said now, and why."""

    @property
    def has_plan(self) -> bool:
        return self.state not in {State.STARTING, State.STANDBY}


class Document(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What all controllers would do."""

    at: datetime
    controllers: tuple[Section, ...]
    version: int = VERSION


def section(controller: str, leader: str | None, state: State, planned: plans.Planned) -> Section:
    """Write a controller's plan down, as far as it is not too long."""
    listed = planned.commands[:LISTED_MAX]
    more = len(planned.commands) - len(listed)
    return Section(
        controller=controller, leader=leader, state=state, commands=listed, more=more, unknown=planned.unknown
    )


def joined(documents: Sequence[Document]) -> Document:
    """Make one of what several replicas said: of each controller, what its leader did."""
    said = [each for document in documents for each in document.controllers]
    found = {(each.controller, each.leader): each for each in said if each.state is not State.STANDBY}
    led = {controller for controller, _ in found}
    left = {each.controller: each for each in said if each.controller not in led}
    sections = sorted((*found.values(), *left.values()), key=lambda each: each.controller)
    return Document(at=min(document.at for document in documents), controllers=tuple(sections))


def as_json(document: Document) -> str:
    """Write a plan for programs."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def text(document: Document) -> str:
    """Write a plan for people, at 80 columns."""
    return "\n".join([*_header(document), *_sections(document), "", *_wrapped(_summary(document))])


def _header(document: Document) -> Iterator[str]:
    leaders = dict.fromkeys(_leader(each) for each in document.controllers)
    by = f", by {next(iter(leaders))}" if len(leaders) == 1 else ""
    yield from _wrapped(f"Plan of {document.at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC{by}")
    states = {each.state for each in document.controllers}
    if State.PAUSED in states:
        yield from _wrapped("The runtime is paused: nothing of this is done until it goes on.")
    if State.OBSERVING in states:
        yield from _wrapped("The runtime only observes: nothing of this is done.")


def _sections(document: Document) -> Iterator[str]:
    has_one_leader = len({each.leader for each in document.controllers}) == 1
    for each in document.controllers:
        yield ""
        yield from _wrapped(each.controller if has_one_leader else f"{each.controller}, by {_leader(each)}")
        yield from _body(each)


def _body(each: Section) -> Iterator[str]:
    if each.state is State.STANDBY:
        yield from _wrapped("no plan: it was not asked, or leads no more", indent=2)
        return
    if each.state is State.STARTING:
        yield from _wrapped(f"no plan yet, it waits for {each.waits_for}", indent=2)
        return
    for command in each.commands[:PRINTED_MAX]:
        sign = _SIGNS.get(command.verb, "~")
        yield from _wrapped(f"{sign} {command.verb} {command.what}: {command.why}", indent=2, hanging=4)
    if more := len(each.commands) - len(each.commands[:PRINTED_MAX]) + each.more:
        yield f"  ... and {more} more"
    for said in each.unknown:
        yield from _wrapped(f"? not known: {said}", indent=2, hanging=4)
    if not each.commands and not each.unknown:
        yield "  nothing to do"


def _summary(document: Document) -> str:
    counts = Counter(command.verb for each in document.controllers for command in each.commands)
    more = sum(each.more for each in document.controllers)
    parts = [f"{count} {verb.removesuffix(' of')}" for verb, count in counts.most_common()]
    said = ", ".join([*parts, *([f"{more} not listed"] if more else [])]) or "nothing to do"
    is_whole = all(each.has_plan and not each.unknown for each in document.controllers)
    return f"Plan: {said}." if is_whole else f"Plan: {said}, as far as it is known."


def _leader(each: Section) -> str:
    return "nobody: no replica leads" if each.leader is None else f"leader {leadership.pod_of(each.leader)}"


def _wrapped(line: str, *, indent: int = 0, hanging: int = 0) -> Iterable[str]:
    """Break a line, and keep from the terminal what is no text."""
    plain = "".join(letter if letter.isprintable() else " " for letter in line)
    return textwrap.wrap(plain, plans.WIDTH, initial_indent=" " * indent, subsequent_indent=" " * (indent + hanging))
