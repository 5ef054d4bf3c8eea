"""Which types of a group share nodes: guests of such types are placed one after the other. Pure.

It decides what can be decided apart, so that one type's wait holds up no other that has no node in common with it. It
must not leave out a type, nor look at whether there is room.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from autoscaler.machines.model import MachineType, Plan


@dataclass(slots=True, kw_only=True)
class Share:
    """Types that share nodes, directly or by way of others."""

    types: tuple[MachineType, ...]
    settled: Plan | None = None
    """What was decided while nobody waited, which time does not change; None: something changed since."""


def shares(types: Sequence[MachineType], served: Iterable[frozenset[str]]) -> list[Share]:
    """Split types into those that can be decided apart, given which ones are served by one node each."""
    parents = {each.name: each.name for each in types}

    def find(name: str) -> str:
        while parents[name] != name:
            name = parents[name]
        return name

    for together in served:
        first, *others = sorted(name for name in together if name in parents) or [""]
        for other in others:
            parents[find(other)] = find(first)
    members: dict[str, list[MachineType]] = defaultdict(list)
    for each in types:
        members[find(each.name)].append(each)
    return [Share(types=tuple(there)) for there in members.values()]
