"""Decide what is to be done about a machine group: which gates are opened, which sleepers go, who waits for what.

Pure: the same group at the same time gives the same plan. A plan takes one step; the next one is made of what the
cluster is after it. Groups share nothing, and neither do types of a group that have no node in common.
"""

from collections.abc import Iterable, Sequence

from autoscaler import clock
from autoscaler.machines import counts, guests, rooms, sharing, sleepers, why_waiting
from autoscaler.machines.model import Command, DeleteSleeper, Group, Plan, Sleeper


def decide(group: Group, *, now: float) -> Plan:
    """Plan the next step of a group."""
    usage = counts.usage(group.types, group.nodes, group.guests, group.sleepers)
    told = tuple(why_waiting.of_group(group))
    if group.is_deleted:
        writes = tuple(_given_up(group.sleepers, "its machine group is deleted"))
        return Plan(group=group.name, writes=writes, waiting=told, usage=usage)
    doomed = sleepers.doomed(group.sleepers, group.nodes)
    going = [each.sleeper for each in doomed]
    steps = [_decide_share(share, going, now) for share in sharing.shares(group)]
    writes = (
        *(DeleteSleeper(sleeper=each.sleeper, why=each.why) for each in doomed),
        *(command for step in steps for command in step.writes),
    )
    return Plan(
        group=group.name,
        writes=writes,
        waiting=(*told, *(each for step in steps for each in step.waiting)),
        usage=usage,
        wake_at=clock.earliest(step.wake_at for step in steps),
    )


def _given_up(there: Iterable[Sleeper], why: str) -> Iterable[Command]:
    for sleeper in there:
        if sleeper.is_open and not sleeper.is_terminating:
            yield DeleteSleeper(sleeper=sleeper, why=why)


def _decide_share(share: sharing.Share, doomed: Sequence[Sleeper], now: float) -> Plan:
    """Plan the next step of types that share nodes.

    The first guest that can be served gets what it needs next, and the others are planned. Sleepers beyond what is
    wanted then go, and others are opened for the room that is left.
    """
    tally = counts.of(share.types, share.guests, share.sleepers)
    room = rooms.Rooms(share.nodes, share.sleepers, doomed)
    line = guests.sleepers_in_order(share.sleepers, share.nodes, doomed)
    placing = guests.place(share.guests, tally, room, line, now)
    waiting = tuple(why_waiting.of_share(share, tally, room, placing))
    writes: list[Command] = list(placing.commands)
    writes += sleepers.surplus(share, tally, placing, line)
    writes += sleepers.openings(share, tally, room, placing.contested)
    return Plan(group="", writes=tuple(writes), waiting=waiting, wake_at=placing.wake_at)
