"""Node groups with the nodes of their instances, and what pure functions say of each. It decides nothing.

When an instance or a node changes, its group alone is looked at anew: what was said of the others is kept, for as long
as group and nodes are equal to what they were.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from autoscaler.capacity.indexes import remembered
from autoscaler.cloud import port as cloud
from autoscaler.kube import objects

R = TypeVar("R")
GONE_MAX: Final = 1000
"""So many groups are remembered that are not asked about any more."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupNodes:
    """A group and its nodes. While neither changes it is the very same object."""

    group: cloud.NodeGroup
    provider_ids: tuple[str, ...]
    nodes: tuple[objects.Node | None, ...]
    """Of each instance, in their order."""


class ByGroup(Generic[R]):
    """A pure function of one group with its nodes, and of more that is compared by identity, asked for all groups."""

    def __init__(self, function: Callable[..., R]) -> None:
        self._function = function
        self._all = remembered.Remembered(self._say)
        self._last: dict[cloud.GroupName, tuple[tuple[object, ...], R]] = {}

    def __call__(
        self, groups: tuple[cloud.NodeGroup, ...], nodes: Mapping[str, objects.Node], *more: object
    ) -> Mapping[cloud.GroupName, R]:
        """Return what the function says of each group, by its name."""
        return self._all(groups, nodes, *more)

    def _say(
        self, groups: tuple[cloud.NodeGroup, ...], nodes: Mapping[str, objects.Node], *more: object
    ) -> dict[cloud.GroupName, R]:
        there, last = _joined(groups, nodes), self._last
        said = {name: self._one(last.get(name), (each, *more)) for name, each in there.items()}
        self._last = said if len(last) > len(said) + GONE_MAX else {**last, **said}
        return {name: answer for name, (_, answer) in said.items()}

    def _one(self, known: tuple[tuple[Any, ...], R] | None, asked: tuple[Any, ...]) -> tuple[tuple[Any, ...], R]:
        if known is not None and remembered.are_same(known[0], asked):
            return known
        return asked, self._function(*asked)


class _Joiner:
    """Looks up the nodes of all instances, and keeps what says the same as before."""

    def __init__(self) -> None:
        self._last: dict[cloud.GroupName, GroupNodes] = {}

    def __call__(
        self, groups: tuple[cloud.NodeGroup, ...], nodes: Mapping[str, objects.Node]
    ) -> dict[cloud.GroupName, GroupNodes]:
        last = self._last
        joined = {group.name: _with_nodes(last.get(group.name), group, nodes) for group in groups}
        self._last = joined if len(last) > len(joined) + GONE_MAX else {**last, **joined}
        return joined


_joined: Final = remembered.Remembered(_Joiner())


def _with_nodes(known: GroupNodes | None, group: cloud.NodeGroup, nodes: Mapping[str, objects.Node]) -> GroupNodes:
    is_same = known is not None and known.group == group
    provider_ids = known.provider_ids if known is not None and is_same else _provider_ids(group)
    there = tuple(map(nodes.get, provider_ids))
    if known is not None and is_same and known.nodes == there:
        return known
    return GroupNodes(group=group, provider_ids=provider_ids, nodes=there)


def _provider_ids(group: cloud.NodeGroup) -> tuple[str, ...]:
    return tuple(one.provider_id for one in group.instances)
