"""Place waiting guests, one after the other among types that share nodes, and those that are alike together. Pure.

Guests are never pinned: the room may be stolen and the node may go. Only the first that can be served has a sleeper
given up for it or is opened, and with it those right behind it that are alike: whichever of them takes the room that is
planned for another leaves its own, which fits as well. Those that are open hold the others back until they have a node
or were refused for long enough. All others are planned too, so that nobody else takes the room that they will need.
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from autoscaler import clock
from autoscaler.kube.objects import Key
from autoscaler.machines.model import (
    Command,
    DeleteSleeper,
    Guest,
    OpenGuest,
    Phase,
    PromiseGuest,
    RecordTried,
    Sleeper,
)
from autoscaler.machines.placement.counts import Count
from autoscaler.machines.placement.group_state import GroupState
from autoscaler.machines.placement.rooms import Rooms, Spot

REFUSED_SECONDS: Final = 30.0
"""A guest that the scheduler refuses for so long does not hold others back any more."""
SILENT_SECONDS: Final = 300.0
"""One about which the scheduler says nothing at all for so long does not either: it may have a scheduler of its own."""
TOGETHER_MAX: Final = 32
"""So many guests are served together at most."""
FRESH_SECONDS: Final = 5.0
"""A sleeper is given up for an open guest within so long of the promise, so that its time begins with the room."""


class Turn(IntEnum):
    """Who comes first."""

    TRYING = 0
    """Opened, and the scheduler has time left to find a node."""
    PROMISED = 1
    GATED = 2
    REFUSED = 3


@dataclass(slots=True)
class Placing:
    """What is to be done for guests, and what is planned for them."""

    commands: list[Command] = field(default_factory=list)
    spots: dict[str, Spot] = field(default_factory=dict)
    """By UID: where each guest is planned that can be."""
    served: set[str] = field(default_factory=set)
    """The UIDs of the guests whose turn it is; none: nobody can be served."""
    together: tuple[object, ...] | None = None
    """What makes a guest alike to those; None: nobody else is served with them."""
    going: set[str] = field(default_factory=set)
    """The UIDs of the sleepers that are given up now."""
    full: set[str] = field(default_factory=set)
    """The UIDs of guests for whom no machine of their type is left."""
    contested: list[Container[str]] = field(default_factory=list)
    """Nodes that the scheduler may choose for a guest that is open, whatever is planned: no sleeper is opened there."""
    wake_at: float | None = None

    @property
    def given_up(self) -> list[Sleeper]:
        """Return the sleepers that make room for guests, now or in their turn."""
        now = [each.sleeper for each in self.commands if isinstance(each, DeleteSleeper)]
        return [*now, *(sleeper for spot in self.spots.values() for sleeper in spot.gives_up)]


def place(
    state: GroupState, guests: Iterable[Guest], counts: Mapping[str, Count], rooms: Rooms, *, now: float
) -> Placing:
    """Do the next thing for the first guest that can be served and those alike, and plan all others.

    Args:
        state: the group.
        guests: those of its guests that wait, of types that share nodes.
        counts: what there is of each of these types.
        rooms: where they fit.
        now: the time.
    """
    placing = Placing()
    left = {name: count.maximum - count.open_guests for name, count in counts.items()}
    for turn, guest in in_order(guests, rooms, now):
        if _is_over(guest, now):
            placing.commands.append(_tried(guest, rooms))
            continue
        if guest.phase is Phase.GATED and left[guest.type] <= 0:
            placing.full.add(guest.uid)
            continue
        spot = rooms.spot(guest)
        if _is_turn(placing, turn, guest, spot):
            _serve(placing, turn, guest, spot, _Means(state, counts[guest.type], rooms, placing.going, now))
        if spot is not None:
            placing.spots[guest.uid] = spot
            rooms.plan(guest, spot)
            left[guest.type] -= guest.phase is Phase.GATED
        if turn is Turn.TRYING:
            placing.contested.append(rooms.free_nodes(guest))
            placing.wake_at = clock.earliest((placing.wake_at, _over_at(guest)))
    return placing


def in_order(guests: Iterable[Guest], rooms: Rooms, now: float) -> list[tuple[Turn, Guest]]:
    """Return waiting guests with their turns, first come first within each."""
    turns = [(_turn(guest, now), guest) for guest in guests]
    return sorted(turns, key=lambda each: _rank(each[0], each[1], rooms))


@dataclass(frozen=True, slots=True)
class _Means:
    """What a guest can be served with."""

    state: GroupState
    count: Count
    rooms: Rooms
    going: set[str]
    now: float


def _is_turn(placing: Placing, turn: Turn, guest: Guest, spot: Spot | None) -> bool:
    """Tell whether it is a guest's turn; one that has room and is not alike ends the turn of those before it."""
    if not placing.served:
        return True
    is_alike = placing.together is not None and placing.together == _alike(turn, guest)
    if spot is not None and not is_alike:
        placing.together = None
    return is_alike and len(placing.served) < TOGETHER_MAX


def _alike(turn: Turn, guest: Guest) -> tuple[object, ...] | None:
    """Return what guests have in common that may be served together; None: such a one is served alone."""
    if turn is Turn.REFUSED or not guest.is_independent:
        return None
    return turn is Turn.TRYING, guest.type, id(guest.requests), guest.barred, guest.tried


def _serve(placing: Placing, turn: Turn, guest: Guest, spot: Spot | None, means: _Means) -> None:
    """Do the next thing for a guest, if there is one; note whether it is the one whose turn it is."""
    command = _next(turn, guest, spot, means) if spot is not None else None
    if isinstance(command, DeleteSleeper) and command.sleeper.uid in means.going:
        return  # another of its type makes way already
    if command is None and turn is not Turn.TRYING:
        return
    placing.served.add(guest.uid)
    placing.together = _alike(turn, guest)
    if command is not None:
        placing.commands.append(command)
    if isinstance(command, DeleteSleeper):
        placing.going.add(command.sleeper.uid)
    if isinstance(command, OpenGuest):
        means.count.open_guests += 1
        placing.contested.append(means.rooms.free_nodes(guest))


def _next(turn: Turn, guest: Guest, spot: Spot, means: _Means) -> Command | None:
    if guest.phase is Phase.OPEN:
        return _next_of_open(turn, guest, spot, means.now)
    if spot.gives_up:
        return _next_of_promised(guest, spot)
    if means.count.may_open:
        why = f"node {spot.node} has room for it"
        return OpenGuest(guest=guest, trying_since=means.now, why=why)
    for uid in means.state.open_sleepers(guest.type):
        why = f"{_named(guest)} finds room on node {spot.node}, and no more than {means.count.maximum} may be open"
        if uid not in means.going:
            return DeleteSleeper(sleeper=means.state.sleepers[uid], why=why)
    return None


def _next_of_promised(guest: Guest, spot: Spot) -> Command:
    """Promise first, then give up: whoever leads next knows whom the room is for."""
    if guest.promised != spot.node:
        return PromiseGuest(guest=guest, node=spot.node, why=f"a sleeper of its type holds room for it on {spot.node}")
    return DeleteSleeper(sleeper=spot.gives_up[0], why=f"node {spot.node} is promised to {_named(guest)}")


def _next_of_open(turn: Turn, guest: Guest, spot: Spot, now: float) -> Command | None:
    """Make room for a guest that is open; each time that there is new room, the scheduler's time begins anew."""
    if turn is Turn.TRYING and not spot.gives_up:
        return None
    is_fresh = guest.trying_since is not None and now - guest.trying_since <= FRESH_SECONDS
    if turn is Turn.TRYING and guest.promised == spot.node and is_fresh:
        return _next_of_promised(guest, spot)
    what = "a sleeper of its type holds room for it" if spot.gives_up else "there is room that it has not tried"
    return PromiseGuest(guest=guest, node=spot.node, trying_since=now, why=f"{what} on {spot.node}")


def _tried(guest: Guest, rooms: Rooms) -> RecordTried:
    free = frozenset(rooms.free_nodes(guest))
    kept = {name for name in guest.tried if rooms.is_usable(name)}
    said = f"although {', '.join(sorted(free))} had room" if free else "and no node had room"
    why = f"the scheduler found no node for it for {REFUSED_SECONDS:g} s, {said}"
    return RecordTried(guest=guest, nodes=frozenset({*kept, *free}), why=why)


def _turn(guest: Guest, now: float) -> Turn:
    if guest.phase is Phase.GATED:
        return Turn.PROMISED if guest.promised is not None else Turn.GATED
    return Turn.REFUSED if guest.trying_since is None or _is_over(guest, now) else Turn.TRYING


def _is_over(guest: Guest, now: float) -> bool:
    """Tell whether a guest's time is over, which is still to be recorded."""
    over_at = _over_at(guest)
    return over_at is not None and now >= over_at


def _over_at(guest: Guest) -> float | None:
    if guest.phase is not Phase.OPEN or guest.trying_since is None:
        return None
    if guest.unschedulable_since is None:
        return guest.trying_since + SILENT_SECONDS
    return max(guest.trying_since, guest.unschedulable_since) + REFUSED_SECONDS


def _rank(turn: Turn, guest: Guest, rooms: Rooms) -> tuple[Turn, int, float, Key]:
    fitting = rooms.fitting_nodes(guest) if turn is Turn.GATED else 0
    return turn, fitting, guest.created_at, guest.key


def _named(guest: Guest) -> str:
    return f"pod {guest.key.namespace}/{guest.key.name}"
