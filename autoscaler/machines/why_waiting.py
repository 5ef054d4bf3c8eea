"""Why each guest waits, with the numbers compared. Pure; the words are for events and `explain`.

A message names nothing that changes from moment to moment, or each step would tell every guest in line something new.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from autoscaler.api import keys
from autoscaler.machines.counts import Count
from autoscaler.machines.guests import REFUSED_SECONDS, Placing
from autoscaler.machines.model import Group, Guest, Phase, Reason, Sleeper, Waiting
from autoscaler.machines.rooms import Rooms
from autoscaler.machines.sharing import Share

NAMED_MAX: Final = 5
"""So many names stand in a message."""


def of_group(group: Group) -> Iterator[Waiting]:
    """Tell guests that no machine is left for, whatever there is room for."""
    known = {each.name for each in group.types}
    for guest in group.guests:
        if guest.phase is Phase.BOUND or guest.is_terminating:
            continue
        if group.is_deleted:
            text = (
                f"machine group {group.name} is deleted: the guest goes on waiting, also for one of that name to come"
            )
            yield Waiting(guest=guest, reason=Reason.GROUP_DELETED, message=text)
        elif guest.type not in known:
            offered = ", ".join(sorted(known)[:NAMED_MAX]) or "none"
            text = f"machine group {group.name} has no machine type {guest.type}; it has {offered}"
            yield Waiting(guest=guest, reason=Reason.NO_TYPE, message=text)
        elif guest.phase is Phase.HELD:
            text = "it has other scheduling gates, and is looked at once the machine's is the last"
            yield Waiting(guest=guest, reason=Reason.OTHER_GATES, message=text)
    for guest in group.outsiders:
        if not guest.is_terminating:
            yield Waiting(guest=guest, reason=Reason.OUTSIDE, message=outside(guest.key.namespace))


def outside(namespace: str) -> str:
    """Say why nobody opens the gate of a pod in a namespace where no machines are given."""
    label = f"{keys.INJECT_RESOURCE}: {keys.INJECT_ENABLED}"
    return f"namespace {namespace} has no label {label}, so nobody opens its gate: set the label, or delete the pod"


def of_share(share: Share, counts: Mapping[str, Count], rooms: Rooms, placing: Placing) -> Iterator[Waiting]:
    """Tell each guest that is looked at what it waits for."""
    facts = _Facts(share, rooms, placing, refused=_refused(share.guests), held=_held(share.sleepers))
    for guest in share.guests:
        if guest.is_waiting:
            reason, message = _why(guest, counts[guest.type], facts)
            yield Waiting(guest=guest, reason=reason, message=message)


@dataclass(frozen=True, slots=True)
class _Facts:
    """What is compared."""

    share: Share
    rooms: Rooms
    placing: Placing
    refused: Mapping[str, list[str]]
    """By type: the guests that the scheduler refuses."""
    held: Mapping[str, set[str]]
    """By node: the types whose sleepers hold room there."""
    known: dict[object, tuple[Reason, str]] = field(default_factory=dict)
    """What was found for one guest and holds for all that are alike, as there may be thousands."""


def _why(guest: Guest, count: Count, facts: _Facts) -> tuple[Reason, str]:
    if guest.uid == facts.placing.served:
        return _why_served(guest)
    if guest.phase is Phase.OPEN:
        return _why_refused(guest)
    if guest.uid in facts.placing.full:
        if guest.type not in facts.known:
            facts.known[guest.type] = _why_full(guest, count, facts.refused.get(guest.type, []))
        return facts.known[guest.type]
    if guest.uid in facts.placing.spots:
        text = "other guests of machine types that share nodes with its own are placed first, one at a time"
        return Reason.IN_LINE, text
    alike = (guest.type, id(guest.requests), guest.barred, guest.tried)
    if alike not in facts.known:
        facts.known[alike] = _why_no_room(guest, facts)
    return facts.known[alike]


def _why_served(guest: Guest) -> tuple[Reason, str]:
    if guest.phase is Phase.OPEN:
        return Reason.SCHEDULING, "its gate is open, and the scheduler looks for a node"
    return Reason.NEXT, "it is the next guest to be placed"


def _why_refused(guest: Guest) -> tuple[Reason, str]:
    tried = f"; nodes with room for it that it was refused on: {_names(guest.tried)}" if guest.tried else ""
    if guest.trying_since is not None:
        return Reason.SCHEDULING, "its gate is open, and the scheduler looks for a node"
    text = f"the scheduler found no node for it for {REFUSED_SECONDS:g} s{tried}: see what the scheduler says of it"
    return Reason.REFUSED, f"{text}. It keeps its machine, and other guests go first"


def _why_full(guest: Guest, count: Count, refused: list[str]) -> tuple[Reason, str]:
    if refused:
        text = f"of {count.maximum} machines of type {guest.type}, guests have all that the scheduler refuses"
        return Reason.REFUSED_FILL, f"{text}: {_names(refused)}"
    return Reason.ALL_USED, f"all {count.maximum} machines of type {guest.type} are taken by guests"


def _why_no_room(guest: Guest, facts: _Facts) -> tuple[Reason, str]:
    there = list(facts.rooms.may_go(guest))
    if not there:
        serving = sum(guest.type in node.types for node in facts.share.nodes)
        return Reason.NO_NODE, f"of {serving} nodes of machine type {guest.type}, none is ready and lets it in"
    others = {name: sorted(facts.held.get(name, set()) - {guest.type}) for name in there}
    if any(others.values()):
        named = [f"{name} ({', '.join(types)})" for name, types in others.items() if types]
        return Reason.HELD_BY_OTHERS, f"no node has room; other machine types hold room on {_names(named)}"
    return Reason.NO_ROOM, f"of {len(there)} nodes of machine type {guest.type}, none has room for {_asked(guest)}"


def _refused(guests: Iterable[Guest]) -> dict[str, list[str]]:
    """Return the names of refused guests by type."""
    found: dict[str, list[str]] = {}
    for guest in guests:
        if guest.phase is Phase.OPEN and guest.is_waiting and guest.trying_since is None:
            found.setdefault(guest.type, []).append(f"{guest.key.namespace}/{guest.key.name}")
    return found


def _held(sleepers: Iterable[Sleeper]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for sleeper in sleepers:
        if sleeper.is_open:
            found.setdefault(sleeper.node, set()).add(sleeper.type)
    return found


def _names(names: Iterable[str]) -> str:
    there = sorted(names)
    more = f" and {len(there) - NAMED_MAX} more" if len(there) > NAMED_MAX else ""
    return ", ".join(there[:NAMED_MAX]) + more


def _asked(guest: Guest) -> str:
    return ", ".join(f"{name}={amount}" for name, amount in sorted(guest.requests.items()))
