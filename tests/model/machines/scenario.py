"""What an exploration of machines is given: the cluster at the start, and how often what may happen to it."""

from dataclasses import dataclass
from typing import NamedTuple


class Type(NamedTuple):
    """A machine type."""

    name: str
    maximum: int
    cpu: int = 1
    sleepers: bool = True
    """False: its StatefulSet makes none, to have fewer states."""


class Host(NamedTuple):
    """A node of the group."""

    name: str
    cpu: int
    types: frozenset[str]


class Visitor(NamedTuple):
    """A guest that comes, or is there from the start."""

    name: str
    type: str
    comes: bool = False
    """Whether it comes at some time; else it is there, gated."""
    held: bool = False
    """Whether a gate of others is on it, which goes at some time."""
    refused: frozenset[str] = frozenset()
    """Nodes where the scheduler does not put it, for reasons that the runtime does not know."""
    barred: frozenset[str] = frozenset()
    """Nodes where it may not go, as it says itself."""
    must_be_served: bool = False
    """Whether it always gets a machine in the end, once it has come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One exploration."""

    name: str
    types: tuple[Type, ...]
    hosts: tuple[Host, ...]
    visitors: tuple[Visitor, ...]
    foreign: int = 0
    """The cpu of a pod of others that comes at some time; 0: none does."""
    foreign_goes: bool = False
    from_rest: bool = False
    """Whether to begin when nothing moves any more; else sleepers are gated, and guests too."""
    ends: int = 0
    """How many guests end, at some time."""
    deletions: int = 0
    """How many guests, and how many open sleepers, people delete."""
    failures: int = 0
    """How many nodes fail; each recovers at some time."""
    drops: int = 0
    """How many nodes are dropped from the Machine, for good."""
    crashes: int = 0
    lost: int = 0
    """How many writes are never answered; such a write may take effect at any later time, or never."""
    lagging: int = 1
    """How many objects the runtime may be behind with at once."""
