"""Where a guest would find room: what nodes have free, and what sleepers of its own type hold there. Pure.

It starts from what is, and is then filled by planning one guest after the other; room that is planned is not planned
again. Sleepers that are pinned and not yet bound hold their room already. Sleepers of other types are never given up.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from autoscaler.machines.model import Amounts, Guest, Node, Phase, Sleeper


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A node where a guest fits."""

    node: str
    gives_up: tuple[Sleeper, ...] = ()
    """The sleepers of its type that must go first; none: the room is free."""


@dataclass(slots=True)
class _Kind:
    """Guests that fit on the same nodes, and these nodes, last first.

    Planning takes off the ends what has no room any more; room only shrinks by planning, so no node comes back.
    """

    free: list[str] = field(default_factory=list)
    by_giving_up: list[str] = field(default_factory=list)
    nodes: int = 0
    """How many nodes there are where such a guest fits, before anything is planned."""
    free_nodes: frozenset[str] = frozenset()
    """Those that had free room, before anything was planned."""


class Rooms:
    """The room on the usable nodes of types that share nodes."""

    def __init__(self, nodes: Iterable[Node], sleepers: Iterable[Sleeper], doomed: Iterable[Sleeper] = ()) -> None:
        """Begin with what is free; sleepers that are doomed hold room and cannot be given up for anybody."""
        self.nodes = {node.name: node for node in sorted(nodes, key=_order) if node.is_usable}
        self._free = {name: _left(node.allocatable, node.used) for name, node in self.nodes.items()}
        self._sleepers: dict[tuple[str, str], list[Sleeper]] = defaultdict(list)
        self._kinds: dict[tuple[object, ...], _Kind] = {}
        gone = {each.uid for each in doomed}
        for sleeper in sleepers:
            if sleeper.phase is Phase.OPEN and sleeper.node in self._free:
                self._take(sleeper.node, sleeper.requests)
            if sleeper.is_open and not sleeper.is_terminating and sleeper.uid not in gone:
                self._sleepers[sleeper.node, sleeper.type].append(sleeper)
        for held in self._sleepers.values():
            held.sort(key=_given_up_first)

    def free(self, node: str) -> Amounts:
        """Return what is left on a node."""
        return self._free[node]

    def fits(self, node: str, requests: Amounts) -> bool:
        """Tell whether a node has free room."""
        return node in self._free and _fits(requests, self._free[node])

    def fitting_nodes(self, guest: Guest) -> int:
        """Count the nodes where a guest would fit if nobody else waited."""
        return self._kind(guest).nodes

    def free_nodes(self, guest: Guest) -> frozenset[str]:
        """Return the nodes, tried ones left out, that have room for a guest with no sleeper given up."""
        return self._kind(guest).free_nodes

    def may_go(self, guest: Guest) -> Iterator[str]:
        """Return the usable nodes that serve a guest's type and that it may go to, and has not tried in vain."""
        for name, node in self.nodes.items():
            if guest.type in node.types and name not in guest.barred and name not in guest.tried:
                yield name

    def spot(self, guest: Guest) -> Spot | None:
        """Find where a guest fits: with free room before giving up sleepers, and where it was promised before all."""
        kind = self._kind(guest)
        promised = guest.promised if guest.promised in set(self._open_to(guest)) else None
        if promised is not None and self.fits(promised, guest.requests):
            return Spot(node=promised)
        while kind.free:
            if self.fits(kind.free[-1], guest.requests):
                return Spot(node=kind.free[-1])
            kind.free.pop()
        if promised is not None and (given := self._given_up(promised, guest)):
            return Spot(node=promised, gives_up=given)
        while kind.by_giving_up:
            if given := self._given_up(kind.by_giving_up[-1], guest):
                return Spot(node=kind.by_giving_up[-1], gives_up=given)
            kind.by_giving_up.pop()
        return None

    def plan(self, guest: Guest, spot: Spot) -> None:
        """Keep a spot for a guest."""
        for sleeper in spot.gives_up:
            self._sleepers[sleeper.node, sleeper.type].remove(sleeper)
        self._take(spot.node, guest.requests, given_up=spot.gives_up)

    def hold(self, node: str, requests: Amounts) -> None:
        """Keep free room of a node for a sleeper."""
        self._take(node, requests)

    def _open_to(self, guest: Guest) -> Iterator[str]:
        name = guest.promised
        if name in self.nodes and guest.type in self.nodes[name].types and name not in guest.barred | guest.tried:
            yield name

    def _kind(self, guest: Guest) -> _Kind:
        # Requests are compared by identity: pods of one shape share them, and all guests outlive this object.
        key = (guest.type, id(guest.requests), guest.barred, guest.tried)
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = self._new_kind(guest)
        return kind

    def _new_kind(self, guest: Guest) -> _Kind:
        there = list(self.may_go(guest))
        free = [name for name in there if self.fits(name, guest.requests)]
        by_giving_up = [name for name in there if self._given_up(name, guest)]
        free.reverse()
        by_giving_up.reverse()
        nodes = len({*free, *by_giving_up})
        return _Kind(free=free, by_giving_up=by_giving_up, nodes=nodes, free_nodes=frozenset(free))

    def _given_up(self, node: str, guest: Guest) -> tuple[Sleeper, ...]:
        """Return the fewest sleepers of its own type whose room, with what is free, is enough for a guest."""
        room, given = dict(self._free[node]), []
        for sleeper in self._sleepers.get((node, guest.type), ()):
            given.append(sleeper)
            for name, amount in sleeper.requests.items():
                room[name] = room.get(name, 0) + amount
            if _fits(guest.requests, room):
                return tuple(given)
        return ()

    def _take(self, node: str, requests: Amounts, given_up: tuple[Sleeper, ...] = ()) -> None:
        """Take room; what is given up beyond the need stays taken, so that room only shrinks."""
        free = self._free[node]
        for name, amount in requests.items():
            back = sum(each.requests.get(name, 0) for each in given_up)
            free[name] = free.get(name, 0) - max(0, amount - back)


def _fits(requests: Amounts, room: Mapping[str, int]) -> bool:
    return all(amount <= room.get(name, 0) for name, amount in requests.items() if amount > 0)


def _left(allocatable: Amounts, used: Amounts) -> dict[str, int]:
    return {name: amount - used.get(name, 0) for name, amount in allocatable.items()}


def _order(node: Node) -> tuple[int, str]:
    """Sort nodes: those of the fewest types first, so that room that many can use is left to them."""
    return len(node.types), node.name


def _given_up_first(sleeper: Sleeper) -> tuple[bool, int]:
    return sleeper.phase is Phase.BOUND, -sleeper.ordinal
