"""Which sleepers are deleted and which are opened, and on which node. Pure.

A sleeper is born gated and holds nothing. It is opened only for room that is left over after all waiting guests are
planned, and pinned to that node in the same patch: an unpinned one would roam into room that was given up for a guest.
It goes when its node is no longer ready or its room went. It never makes room for a guest here: see `guests`.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from autoscaler.machines.counts import Count
from autoscaler.machines.guests import Placing, Sleepers
from autoscaler.machines.model import DeleteSleeper, Node, OpenSleeper, Phase, Sleeper
from autoscaler.machines.rooms import Rooms
from autoscaler.machines.sharing import Share


@dataclass(frozen=True, slots=True, kw_only=True)
class Doomed:
    """A sleeper that holds nothing worth keeping, and why."""

    sleeper: Sleeper
    why: str


def doomed(sleepers: Iterable[Sleeper], nodes: Iterable[Node]) -> list[Doomed]:
    """Find the sleepers that must go, whoever waits."""
    by_name = {node.name: node for node in nodes}
    found: list[Doomed] = []
    for sleeper in sleepers:
        why = None if sleeper.is_terminating else _why_doomed(sleeper, by_name)
        if why is not None:
            found.append(Doomed(sleeper=sleeper, why=why))
    return found


def surplus(share: Share, counts: Mapping[str, Count], placing: Placing, line: Sleepers) -> Iterator[DeleteSleeper]:
    """Delete open sleepers above what is wanted; those that guests are planned on go in these guests' turn."""
    given_up = placing.given_up
    going = {each.sleeper.uid for each in placing.commands if isinstance(each, DeleteSleeper)}
    for each in share.types:
        there = line.by_type.get(each.name, [])
        spared = [sleeper for sleeper in there if sleeper.uid in given_up or sleeper.uid in going]
        wanted = counts[each.name].sleepers_wanted
        others = [sleeper for sleeper in there if sleeper not in spared]
        for sleeper in others[: max(0, len(there) - len(spared) - wanted)]:
            why = f"guests use or wait for all but {wanted} of {each.maximum} machines"
            yield DeleteSleeper(sleeper=sleeper, why=why)


def openings(share: Share, counts: Mapping[str, Count], rooms: Rooms, barred: Collection[str]) -> Iterator[OpenSleeper]:
    """Open sleepers for room that is left over, never more than may be open."""
    for each in share.types:
        count = counts[each.name]
        asleep = [one for one in share.sleepers if one.type == each.name and _may_be_opened(one)]
        asleep.sort(key=lambda one: one.ordinal)
        nodes = _left_over(asleep[0], rooms, {*barred, *asleep[0].barred}) if asleep else iter(())
        for sleeper in asleep:
            node = next(nodes, None) if count.may_open and count.open_sleepers < count.sleepers_wanted else None
            if node is None:
                break
            count.open_sleepers += 1
            rooms.hold(node, sleeper.requests)
            yield OpenSleeper(sleeper=sleeper, node=node, why=f"node {node} has room that no guest waits for")


def _why_doomed(sleeper: Sleeper, nodes: Mapping[str, Node]) -> str | None:
    if sleeper.is_outdated:
        return "its StatefulSet's template has changed since it was made"
    if not sleeper.is_open:
        return None
    node = nodes.get(sleeper.node)
    if node is None:
        return f"its node {sleeper.node} is not in the group" if sleeper.node else "it is pinned to no node"
    if not node.is_ready:  # a bound one keeps its room until nobody else is let in there
        return f"node {node.name} is not ready" if node.is_closed or sleeper.phase is Phase.OPEN else None
    if sleeper.type not in node.types:
        return f"node {node.name} does not serve its type"
    return _why_not_bound(sleeper, node) if sleeper.phase is Phase.OPEN else None


def _why_not_bound(sleeper: Sleeper, node: Node) -> str | None:
    if not _has_room(node, sleeper):
        return f"the room on node {node.name} is taken"
    return f"node {node.name} does not let it in" if node.name in sleeper.barred else None


def _has_room(node: Node, sleeper: Sleeper) -> bool:
    return all(
        amount <= node.allocatable.get(name, 0) - node.used.get(name, 0)
        for name, amount in sleeper.requests.items()
        if amount > 0
    )


def _may_be_opened(sleeper: Sleeper) -> bool:
    return sleeper.phase is Phase.GATED and not sleeper.is_terminating and not sleeper.is_outdated


def _left_over(sleeper: Sleeper, rooms: Rooms, barred: Collection[str]) -> Iterator[str]:
    """Return nodes with room for a sleeper, over and over while they have: of the fewest types, then the tightest."""
    there = [
        node
        for name, node in rooms.nodes.items()
        if sleeper.type in node.types and name not in barred and rooms.fits(name, sleeper.requests)
    ]
    there.sort(key=lambda node: (len(node.types), _machines(sleeper, rooms.free(node.name)), node.name))
    for node in there:
        while rooms.fits(node.name, sleeper.requests):
            yield node.name


def _machines(sleeper: Sleeper, room: Mapping[str, int]) -> int:
    """Count how many such sleepers there is room for."""
    return min((room.get(name, 0) // amount for name, amount in sleeper.requests.items() if amount > 0), default=0)
