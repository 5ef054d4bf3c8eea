"""Which Machine has which node. Pure.

A node belongs to one group at most. Where several Machines ask for one, the oldest has it, then the first by name; the
others leave it alone and say so. A Machine that is being deleted asks for none. Within a Machine an entry that names a
node goes before one that selects it by labels, and then the first of them counts, so that one node of many that are
alike can be sent into maintenance.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from autoscaler.api.resources import Machine
from autoscaler.api.resources.machines import MachineSpec, NodeMode, NodePoolEntry
from autoscaler.kube import objects

K = TypeVar("K")
Labels = Mapping[str, str]


class GroupType(NamedTuple):
    """A machine type of a group."""

    group: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a Machine asks of a node."""

    group: str
    type: str
    """The type that its entry names."""
    types: tuple[str, ...]
    """That type, and the types cut from it that have no nodes of their own."""
    mode: NodeMode
    taint: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeClaims:
    """Who asks for a node."""

    owner: Claim | None = None
    """Whose it is; None: nobody's."""
    others: tuple[Claim, ...] = ()
    """The claims of Machines that leave it alone."""


class _Rank(NamedTuple):
    """What goes first where several entries ask for one node."""

    created_at: float
    group: str
    is_selected: bool
    position: int


class _Entry(NamedTuple):
    rank: _Rank
    selector: Labels
    claim: Claim


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """The entries of all Machines, found by a node's name or by one of its labels."""

    _by_name: Mapping[str, tuple[_Entry, ...]]
    _by_label: Mapping[tuple[str, str], tuple[_Entry, ...]]
    """By one of the labels that each entry selects by."""

    @classmethod
    def of(cls, machines: Iterable[objects.Custom[Machine]]) -> "Claims":
        """Read the entries of Machines."""
        by_name: dict[str, list[_Entry]] = defaultdict(list)
        by_label: dict[tuple[str, str], list[_Entry]] = defaultdict(list)
        for machine in machines:
            if machine.meta.deleted_at is not None:
                continue
            for name, entry in _entries(machine):
                if name is not None:
                    by_name[name].append(entry)
                else:
                    by_label[min(entry.selector.items())].append(entry)
        return cls(_by_name=_frozen(by_name), _by_label=_frozen(by_label))

    def of_node(self, name: str, labels: Labels) -> NodeClaims:
        """Return who asks for a node, whether it is there or not."""
        found = list(self._by_name.get(name, ()))
        for label in labels.items():
            found += [each for each in self._by_label.get(label, ()) if each.selector.items() <= labels.items()]
        first: dict[str, Claim] = {}
        for entry in sorted(found, key=lambda each: each.rank):
            first.setdefault(entry.claim.group, entry.claim)
        in_order = tuple(first.values())
        return NodeClaims(owner=in_order[0] if in_order else None, others=in_order[1:])


def named(spec: MachineSpec) -> frozenset[str]:
    """Return the nodes that a Machine names, which are missed where they are not there."""
    return frozenset(entry.name for entry in spec.node_pool if entry.name is not None)


def residents(spec: MachineSpec) -> dict[str, tuple[str, ...]]:
    """Return which types live on nodes of each type: itself, and those cut from it without nodes of their own."""
    settled = {_type(entry) for entry in spec.node_pool}
    found = {each.name: [each.name] for each in spec.machine_types}
    for each in spec.machine_types:
        dependence = each.spec.dependence
        if dependence is not None and each.name not in settled and dependence.parent in found:
            found[dependence.parent].append(each.name)
    return {name: tuple(types) for name, types in found.items()}


def _entries(machine: objects.Custom[Machine]) -> Iterable[tuple[str | None, _Entry]]:
    """Return a Machine's entries, those of one node by its name."""
    meta, spec = machine.meta, machine.resource.spec
    living = residents(spec)
    for position, entry in enumerate(spec.node_pool):
        name = _type(entry)
        claim = Claim(group=meta.key.name, type=name, types=living.get(name, ()), mode=entry.mode, taint=entry.taint)
        rank = _Rank(meta.created_at, meta.key.name, entry.name is None, position)
        yield entry.name, _Entry(rank, entry.node_selector or {}, claim)


def _type(entry: NodePoolEntry) -> str:
    (only,) = entry.machine_type
    return only.name


def _frozen(lists: Mapping[K, list[_Entry]]) -> dict[K, tuple[_Entry, ...]]:
    return {key: tuple(entries) for key, entries in lists.items()}
