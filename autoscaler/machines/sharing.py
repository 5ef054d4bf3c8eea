"""Which types of a group share nodes: guests of such types are placed one at a time. Pure.

It decides what can be decided apart, so that one type's wait holds up no other that has no node in common with it. It
must not leave out a guest or sleeper of a type, nor look at whether there is room.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from autoscaler.machines.model import Group, Guest, MachineType, Node, Sleeper


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Types that share nodes, directly or by way of others, with everything that belongs to them."""

    types: tuple[MachineType, ...]
    nodes: tuple[Node, ...]
    """Those that serve one of these types."""
    guests: tuple[Guest, ...]
    sleepers: tuple[Sleeper, ...]


def shares(group: Group) -> Iterator[Share]:
    """Split a group into what can be decided apart."""
    root = _roots(group)
    types, nodes, guests, sleepers = (defaultdict[str | None, list[Any]](list) for _ in range(4))
    for each in group.types:
        types[root[each.name]].append(each)
    for node in group.nodes:
        nodes[next((root[name] for name in node.types if name in root), None)].append(node)
    for guest in group.guests:
        guests[root.get(guest.type)].append(guest)
    for sleeper in group.sleepers:
        sleepers[root.get(sleeper.type)].append(sleeper)
    for name, members in types.items():
        yield Share(
            types=tuple(members),
            nodes=tuple(nodes[name]),
            guests=tuple(guests[name]),
            sleepers=tuple(sleepers[name]),
        )


def _roots(group: Group) -> dict[str | None, str]:
    """Name for each type the one that stands for all that share nodes with it."""
    parents: dict[str | None, str] = {each.name: each.name for each in group.types}

    def find(name: str) -> str:
        while parents[name] != name:
            name = parents[name]
        return name

    for together in {node.types for node in group.nodes}:
        first, *others = _known(together, parents) or [""]
        for other in others:
            parents[find(other)] = find(first)
    return {each.name: find(each.name) for each in group.types}


def _known(names: Iterable[str], parents: dict[str | None, str]) -> list[str]:
    return sorted(name for name in names if name in parents)
