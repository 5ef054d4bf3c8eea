"""Which sleepers are deleted and which are opened, and on which node. Pure.

A sleeper is born gated and holds nothing. It is opened only for room that is left over after all waiting guests are
planned, and pinned to that node in the same patch: an unpinned one would roam into room that was given up for a guest.
It goes when its node is no longer ready or its room went: see `doomed`. It never makes room for a guest here: see
`guests`.
"""

import itertools
from collections.abc import Collection, Container, Iterable, Iterator, Mapping

from autoscaler.machines.model import DeleteSleeper, MachineType, OpenSleeper
from autoscaler.machines.placement.counts import Count
from autoscaler.machines.placement.group_state import GroupState
from autoscaler.machines.placement.guests import Placing
from autoscaler.machines.placement.rooms import Rooms


def surplus(
    state: GroupState, types: Iterable[MachineType], counts: Mapping[str, Count], placing: Placing
) -> Iterator[DeleteSleeper]:
    """Delete open sleepers above what is wanted; those that guests are planned on go in these guests' turn."""
    given_up = placing.given_up
    for each in types:
        there, wanted = state.open_sleepers(each.name), counts[each.name].sleepers_wanted
        spared = {sleeper.uid for sleeper in given_up if sleeper.type == each.name}
        others = (uid for uid in there if uid not in spared)
        for uid in itertools.islice(others, max(0, len(there) - len(spared) - wanted)):
            why = f"guests use or wait for all but {wanted} of {each.maximum} machines"
            yield DeleteSleeper(sleeper=state.sleepers[uid], why=why)


def openings(
    state: GroupState,
    types: Iterable[MachineType],
    counts: Mapping[str, Count],
    rooms: Rooms,
    barred: Collection[Container[str]],
) -> Iterator[OpenSleeper]:
    """Open sleepers for room that is left over on nodes that are not barred, never more than may be open."""
    for each in types:
        count, asleep = counts[each.name], state.asleep(each.name)
        nodes = rooms.left_over(state.sleepers[asleep[0]], barred) if len(asleep) else iter(())
        for uid in asleep:
            node = next(nodes, None) if count.may_open and count.open_sleepers < count.sleepers_wanted else None
            if node is None:
                break
            count.open_sleepers += 1
            sleeper = state.sleepers[uid]
            rooms.hold(node, sleeper.requests)
            yield OpenSleeper(sleeper=sleeper, node=node, why=f"node {node} has room that no guest waits for")
