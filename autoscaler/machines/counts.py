"""How many guests and sleepers of a type there are, and how many more may be opened. Pure: all is derived from pods.

Open sleepers, bound or not and on any node, and open guests, bound, unbound, refused or terminating, are never more
than the type's maximum. That is checked here, before every opening of either.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from autoscaler.machines.model import Guest, MachineType, Node, Phase, Sleeper, Usage


@dataclass(slots=True)
class Count:
    """What there is of one type, and what the plan in hand opens besides."""

    maximum: int
    open_guests: int = 0
    open_sleepers: int = 0
    """Terminating ones among them."""
    used: int = 0
    waiting: int = 0
    """Guests that are looked at and have no node."""

    @property
    def may_open(self) -> bool:
        """Tell whether one more guest or sleeper may be opened."""
        return self.open_guests + self.open_sleepers < self.maximum

    @property
    def sleepers_wanted(self) -> int:
        """Return how many sleepers should be open at most."""
        return max(0, self.maximum - self.used - self.waiting)


def of(types: Iterable[MachineType], guests: Iterable[Guest], sleepers: Iterable[Sleeper]) -> dict[str, Count]:
    """Count each type's guests and sleepers."""
    counts = {each.name: Count(each.maximum) for each in types}
    for guest in guests:
        count = counts[guest.type]
        count.open_guests += guest.is_open
        count.used += guest.is_used
        count.waiting += guest.is_waiting
    for sleeper in sleepers:
        counts[sleeper.type].open_sleepers += sleeper.is_open
    return counts


def usage(
    types: Iterable[MachineType], nodes: Iterable[Node], guests: Iterable[Guest], sleepers: Iterable[Sleeper]
) -> dict[str, Usage]:
    """Count what status shows of each type."""
    ready = {node.name for node in nodes if node.is_ready}
    used, waiting, reserved = (dict.fromkeys((each.name for each in types), 0) for _ in range(3))
    for guest in guests:
        if guest.type in used:
            used[guest.type] += guest.is_used
            waiting[guest.type] += guest.phase is not Phase.BOUND
    for sleeper in sleepers:
        if sleeper.type in reserved:
            reserved[sleeper.type] += sleeper.phase is Phase.BOUND and sleeper.node in ready
    return {
        each.name: Usage(
            maximum=each.maximum,
            reserved=reserved[each.name],
            used=used[each.name],
            waiting=waiting[each.name],
        )
        for each in types
    }
