"""Where pods of a group fit: its usable nodes with what is free there, kept current node by node.

For each sort of pod that asks, the nodes where it fits are kept in the order in which they are chosen, so that a guest
that comes is not compared with every node again. Nothing is planned here: see `rooms`.
"""

from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from autoscaler.machines.model import Amounts, Guest, Node, Phase, Reason, Sleeper
from autoscaler.machines.placement.ordered import Ordered, Rank

KEPT_MAX: Final = 32
"""So many sorts of pods of one type are kept, those that were asked for last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A usable node, and the sleepers there."""

    node: Node
    free: Amounts
    """What is left. Sleepers that are pinned there and not yet bound hold their room already."""
    sleepers: Mapping[str, tuple[Sleeper, ...]]
    """By type, those that can be given up for a guest, in the order in which they go."""
    held_by: frozenset[str]
    """The types of all sleepers that hold room there."""

    @classmethod
    def of(cls, node: Node, sleepers: Collection[Sleeper], doomed: Container[str]) -> "Place":
        """Look at a node and its open sleepers; those that are doomed hold room and cannot be given up for anybody."""
        free = {name: amount - node.used.get(name, 0) for name, amount in node.allocatable.items()}
        by_type: dict[str, list[Sleeper]] = defaultdict(list)
        for sleeper in sleepers:
            if sleeper.phase is Phase.OPEN:
                take(free, sleeper.requests)
            if not sleeper.is_terminating and sleeper.uid not in doomed:
                by_type[sleeper.type].append(sleeper)
        return cls(
            node=node,
            free=free,
            sleepers={name: tuple(sorted(there, key=_given_up_first)) for name, there in by_type.items()},
            held_by=frozenset(each.type for each in sleepers),
        )


class Fits:
    """The nodes where pods of one sort fit."""

    def __init__(self, pod: Guest | Sleeper) -> None:
        self.allowed: dict[str, Place] = {}
        """Those that serve its type and that it may go to, and has not tried in vain."""
        self.free = Ordered()
        """Of these, those that have room with no sleeper given up."""
        self.by_giving_up = Ordered()
        """Those that have room for a guest when sleepers of its type are given up."""
        self.nodes = 0
        """How many nodes are one of both."""
        self.said: tuple[Reason, str] | None = None
        """Why such a guest finds no room, as it was last worded; None: not since a node changed."""
        self._pod = pod

    def put(self, name: str, place: Place | None) -> None:
        """Look at a node that changed; None: it is not usable."""
        self.said = None
        self.nodes -= self._is_fitting(name)
        self.allowed.pop(name, None)
        self.free.put(name, None)
        self.by_giving_up.put(name, None)
        if place is None or not self._may_go(place.node):
            return
        self.allowed[name] = place
        self.free.put(name, self.rank(place.node, place.free))
        if given_up(place, place.free, self._pod):
            self.by_giving_up.put(name, _order(place.node))
        self.nodes += self._is_fitting(name)

    def rank(self, node: Node, room: Amounts) -> Rank | None:
        """Return when a node is chosen that has so much room; None: there is too little."""
        if not is_enough(room, self._pod.requests):
            return None
        if isinstance(self._pod, Guest):
            return _order(node)
        return len(node.types), _machines(self._pod, room), node.name

    def _is_fitting(self, name: str) -> bool:
        return name in self.free or name in self.by_giving_up

    def _may_go(self, node: Node) -> bool:
        pod = self._pod
        tried = pod.tried if isinstance(pod, Guest) else frozenset[str]()
        return pod.type in node.types and node.name not in tried and node.name not in pod.barred


class Places:
    """The usable nodes of a group."""

    def __init__(self) -> None:
        self._places: dict[str, Place] = {}
        self._by_type: dict[str, dict[str, None]] = defaultdict(dict)
        self._fits: dict[str, dict[tuple[object, ...], Fits]] = defaultdict(dict)
        """By type and by what makes pods alike, the last asked for last."""

    def __getitem__(self, name: str) -> Place:
        return self._places[name]

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def put(self, name: str, place: Place | None) -> None:
        """Take a node over as it is now; None: it is not usable."""
        before = self._places.pop(name, None)
        for each in before.node.types if before is not None else ():
            del self._by_type[each][name]
        if place is not None:
            self._places[name] = place
            for each in place.node.types:
                self._by_type[each][name] = None
        for each in {each for one in (before, place) if one is not None for each in one.node.types}:
            for fits in self._fits[each].values():
                fits.put(name, place)

    def fits(self, pod: Guest | Sleeper) -> Fits:
        """Return the nodes where a pod fits."""
        # Requests are compared by identity: pods of one shape share them, and what is kept here keeps them.
        alike = (id(pod.requests), pod.barred, pod.tried if isinstance(pod, Guest) else None)
        known = self._fits[pod.type]
        found = known.pop(alike, None)
        if found is None:
            found = Fits(pod)
            for name in self._by_type[pod.type]:
                found.put(name, self._places[name])
        known[alike] = found
        if len(known) > KEPT_MAX:
            del known[next(iter(known))]
        return found


def given_up(place: Place, room: Amounts, pod: Guest | Sleeper, taken: int = 0) -> tuple[Sleeper, ...]:
    """Return the fewest sleepers of a guest's own type whose room, with what is free, is enough for it.

    Args:
        place: the node.
        room: what is free there.
        pod: the guest; for a sleeper nobody is given up.
        taken: how many sleepers of its type are given up there already.
    """
    there = place.sleepers.get(pod.type, ())[taken:] if isinstance(pod, Guest) else ()
    more, given = dict(room), list[Sleeper]()
    for sleeper in there:
        given.append(sleeper)
        for name, amount in sleeper.requests.items():
            more[name] = more.get(name, 0) + amount
        if is_enough(more, pod.requests):
            return tuple(given)
    return ()


def is_enough(room: Amounts, requests: Amounts) -> bool:
    """Tell whether there is enough room for a pod."""
    return all(amount <= room.get(name, 0) for name, amount in requests.items() if amount > 0)


def take(room: dict[str, int], requests: Amounts, back: Iterable[Sleeper] = ()) -> None:
    """Take room; what sleepers give back beyond the need stays taken, so that room only shrinks."""
    given = list(back)
    for name, amount in requests.items():
        room[name] = room.get(name, 0) - max(0, amount - sum(each.requests.get(name, 0) for each in given))


def _order(node: Node) -> Rank:
    """Sort nodes: those of the fewest types first, so that room that many can use is left to them."""
    return len(node.types), node.name


def _machines(pod: Guest | Sleeper, room: Amounts) -> int:
    """Count how many such pods there is room for."""
    return min((room.get(name, 0) // amount for name, amount in pod.requests.items() if amount > 0), default=0)


def _given_up_first(sleeper: Sleeper) -> tuple[bool, int]:
    return sleeper.phase is Phase.BOUND, -sleeper.ordinal
