"""What a controller would do now, as data that can be printed. Printing it is the dry run."""

import textwrap
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Final, Protocol

from autoscaler.api.manifests import Manifest

WIDTH: Final = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One thing to do, and why."""

    verb: str
    """As kubectl would say it: create, delete, patch."""
    what: str
    """The object: `pod research/worker-x7k2p`, or a number of them."""
    why: str


class Plan(Protocol):
    """A decision of a controller."""

    def commands(self) -> Iterable[Command]:
        """Return what is to be done, in order."""
        ...


def text(plan: Plan) -> str:
    """Write a plan for people: a paragraph for each command."""
    lines = [f"{each.verb} {each.what}: {each.why}" for each in plan.commands()]
    return "\n".join(map(wrapped, lines)) or "nothing to do"


def wrapped(line: str) -> str:
    """Break a line where it is too long for people to read."""
    return textwrap.fill(line, WIDTH, subsequent_indent="  ")


def as_json(plan: Plan) -> list[Manifest]:
    """Write a plan for programs."""
    return [asdict(each) for each in plan.commands()]
