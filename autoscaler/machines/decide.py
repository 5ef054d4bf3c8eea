"""Decide what is to be done about a machine group: which gates are opened, which sleepers go, who waits for what.

Pure: the same group at the same time gives the same plan. A plan takes one step; the next one is made of what the
cluster is after it. Groups share nothing, and neither do types of a group that have no node in common.
"""

from collections.abc import Iterable

from autoscaler import clock
from autoscaler.machines.model import Command, DeleteSleeper, Group, Guest, Plan, Sleeper
from autoscaler.machines.placement import guests, rooms, sleepers, why_waiting
from autoscaler.machines.placement.group_state import GroupState
from autoscaler.machines.placement.sharing import Share


def decide(group: Group, *, now: float) -> Plan:
    """Plan the next step of a group."""
    return of_state(GroupState.of(group), now=now)


def of_state(state: GroupState, *, now: float) -> Plan:
    """Plan the next step of a group whose state is kept current."""
    state.refresh()
    told = tuple(why_waiting.of_group(state))
    if state.is_deleted:
        writes = tuple(_given_up(state.sleepers.values(), "its machine group is deleted"))
        usage = {name: count.usage for name, count in state.counts(state.types).items()}
        return Plan(group=state.name, writes=writes, waiting=told, usage=usage)
    steps = [_decide_share(state, share, now) for share in state.shares]
    writes = (
        *(DeleteSleeper(sleeper=each.sleeper, why=each.why) for each in state.doomed),
        *(command for step in steps for command in step.writes),
    )
    return Plan(
        group=state.name,
        writes=writes,
        waiting=(*told, *(each for step in steps for each in step.waiting)),
        usage={name: each for step in steps for name, each in step.usage.items()},
        wake_at=clock.earliest(step.wake_at for step in steps),
    )


def _given_up(there: Iterable[Sleeper], why: str) -> Iterable[Command]:
    for sleeper in sorted(there, key=lambda each: each.key):
        if sleeper.is_open and not sleeper.is_terminating:
            yield DeleteSleeper(sleeper=sleeper, why=why)


def _decide_share(state: GroupState, share: Share, now: float) -> Plan:
    """Plan the next step of types that share nodes; while nobody waits there, only a change makes another."""
    if share.settled is not None:
        return share.settled
    waiting = state.waiting(share.types)
    plan = _decide_types(state, share, waiting, now)
    share.settled = plan if not waiting else None
    return plan


def _decide_types(state: GroupState, share: Share, waiting: list[Guest], now: float) -> Plan:
    """Plan the next step of types that share nodes.

    The first guest that can be served gets what it needs next, and the others are planned. Sleepers beyond what is
    wanted then go, and others are opened for the room that is left.
    """
    tally, room = state.counts(share.types), rooms.Rooms(state.places)
    usage = {name: count.usage for name, count in tally.items()}
    placing = guests.place(state, waiting, tally, room, now=now)
    told = tuple(why_waiting.of_share(state, waiting, tally, room, placing))
    writes: list[Command] = list(placing.commands)
    writes += sleepers.surplus(state, share.types, tally, placing)
    writes += sleepers.openings(state, share.types, tally, room, placing.contested)
    return Plan(group=state.name, writes=tuple(writes), waiting=told, usage=usage, wake_at=placing.wake_at)
