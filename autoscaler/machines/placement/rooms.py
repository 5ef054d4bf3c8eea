"""Plan room for guests and sleepers: what nodes have free, and what sleepers of a guest's own type hold there. Pure.

It starts from what is, and is then filled by planning one pod after the other; room that is planned is not planned
again, and only shrinks. Sleepers of other types are never given up.
"""

import heapq
from collections.abc import Collection, Container, Iterator
from dataclasses import dataclass, field

from autoscaler.machines.model import Amounts, Guest, Sleeper
from autoscaler.machines.placement import places
from autoscaler.machines.placement.ordered import Ordered
from autoscaler.machines.placement.places import Fits, Places


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A node where a guest fits."""

    node: str
    gives_up: tuple[Sleeper, ...] = ()
    """The sleepers of its type that must go first; none: the room is free."""


@dataclass(slots=True)
class _Passed:
    """How many of the nodes where pods of one sort fit have no room left; as room only shrinks, none comes back."""

    free: int = 0
    by_giving_up: int = 0


@dataclass(slots=True)
class Rooms:
    """The room on the usable nodes of a group."""

    _places: Places
    _free: dict[str, dict[str, int]] = field(default_factory=dict)
    """What is left on nodes where something is planned."""
    _given: dict[tuple[str, str], int] = field(default_factory=dict)
    """How many sleepers are given up, by node and type."""
    _passed: dict[Fits, _Passed] = field(default_factory=dict)

    def is_usable(self, node: str) -> bool:
        """Tell whether the room of a node counts."""
        return node in self._places

    def fitting_nodes(self, guest: Guest) -> int:
        """Count the nodes where a guest would fit if nobody else waited."""
        return self._places.fits(guest).nodes

    def free_nodes(self, guest: Guest) -> Ordered:
        """Return the nodes, tried ones left out, that have room for a guest now with no sleeper given up."""
        return self._places.fits(guest).free

    def fits(self, guest: Guest) -> Fits:
        """Return all nodes where a guest fits, before anything was planned."""
        return self._places.fits(guest)

    def spot(self, guest: Guest) -> Spot | None:
        """Find where a guest fits: with free room before giving up sleepers, and where it was promised before all."""
        fits = self._places.fits(guest)
        passed = self._passed.setdefault(fits, _Passed())
        promised = guest.promised if guest.promised in fits.allowed else None
        if promised is not None and self._is_free(promised, guest.requests):
            return Spot(node=promised)
        while passed.free < len(fits.free):
            if self._is_free(name := fits.free[passed.free], guest.requests):
                return Spot(node=name)
            passed.free += 1
        if promised is not None and (given := self._given_up(promised, guest)):
            return Spot(node=promised, gives_up=given)
        while passed.by_giving_up < len(fits.by_giving_up):
            if given := self._given_up(name := fits.by_giving_up[passed.by_giving_up], guest):
                return Spot(node=name, gives_up=given)
            passed.by_giving_up += 1
        return None

    def plan(self, guest: Guest, spot: Spot) -> None:
        """Keep a spot for a guest."""
        if spot.gives_up:
            place = (spot.node, guest.type)
            self._given[place] = self._given.get(place, 0) + len(spot.gives_up)
        places.take(self._taken(spot.node), guest.requests, back=spot.gives_up)

    def hold(self, node: str, requests: Amounts) -> None:
        """Keep free room of a node for a sleeper."""
        places.take(self._taken(node), requests)

    def left_over(self, sleeper: Sleeper, barred: Collection[Container[str]]) -> Iterator[str]:
        """Return nodes with room for a sleeper, over and over while they have: of the fewest types, then the tightest.

        It is asked for the next one once room is kept for a sleeper on the last.
        """
        fits, planned = self._places.fits(sleeper), set(self._free)
        changed = (fits.rank(self._places[name].node, self._free[name]) for name in planned & fits.allowed.keys())
        ranks = sorted(rank for rank in changed if rank is not None)
        others = (rank for rank in fits.free.ranks() if rank[-1] not in planned)
        for *_, name in heapq.merge(ranks, others):
            while not any(name in each for each in barred) and self._is_free(name, sleeper.requests):
                yield name

    def _is_free(self, node: str, requests: Amounts) -> bool:
        return places.is_enough(self._room(node), requests)

    def _room(self, node: str) -> Amounts:
        return self._free[node] if node in self._free else self._places[node].free

    def _taken(self, node: str) -> dict[str, int]:
        if node not in self._free:
            self._free[node] = dict(self._places[node].free)
        return self._free[node]

    def _given_up(self, node: str, guest: Guest) -> tuple[Sleeper, ...]:
        taken = self._given.get((node, guest.type), 0)
        return places.given_up(self._places[node], self._room(node), guest, taken)
