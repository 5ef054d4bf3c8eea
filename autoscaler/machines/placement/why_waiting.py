"""Why each guest waits, with the numbers compared. Pure; the words are for events and `explain`.

A message names nothing that changes from moment to moment, or each step would tell every guest in line something new.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from autoscaler.api import keys
from autoscaler.kube import shapes
from autoscaler.machines.model import PODS, Guest, Phase, Reason, Waiting
from autoscaler.machines.placement.counts import Count
from autoscaler.machines.placement.group_state import GroupState
from autoscaler.machines.placement.guests import REFUSED_SECONDS, Placing
from autoscaler.machines.placement.places import Fits
from autoscaler.machines.placement.rooms import Rooms

NAMED_MAX: Final = 5
"""So many names stand in a message."""


def of_group(group: GroupState) -> Iterator[Waiting]:
    """Tell guests that no machine is left for, whatever there is room for."""
    known = {each.name for each in group.types}
    for guest in group.unbound:
        if guest.is_terminating:
            continue
        if group.is_deleted:
            text = (
                f"Machine {group.name} is deleted: the pod waits until there is one of that name, or is deleted itself"
            )
            yield Waiting(guest=guest, reason=Reason.GROUP_DELETED, message=text)
        elif guest.type not in known:
            offered = ", ".join(sorted(known)[:NAMED_MAX]) or "none"
            text = f"machine group {group.name} has no machine type {guest.type}; it has {offered}"
            yield Waiting(guest=guest, reason=Reason.NO_TYPE, message=text)
        elif guest.phase is Phase.HELD:
            text = "it has other scheduling gates, and is looked at once the machine's is the last"
            yield Waiting(guest=guest, reason=Reason.OTHER_GATES, message=text)
    for guest in group.outsiders.values():
        if not guest.is_terminating:
            yield Waiting(guest=guest, reason=Reason.OUTSIDE, message=outside(guest.key.namespace))


def outside(namespace: str) -> str:
    """Say why nobody opens the gate of a pod in a namespace where no machines are given."""
    label = f"{keys.INJECT_RESOURCE}: {keys.INJECT_ENABLED}"
    return f"namespace {namespace} has no label {label}, so nobody opens its gate: set the label, or delete the pod"


def of_share(
    state: GroupState, waiting: Sequence[Guest], counts: Mapping[str, Count], rooms: Rooms, placing: Placing
) -> Iterator[Waiting]:
    """Tell each guest that is looked at what it waits for."""
    facts = _Facts(state, rooms, placing, refused=_refused(waiting))
    for guest in waiting:
        reason, message = _why(guest, counts[guest.type], facts)
        yield Waiting(guest=guest, reason=reason, message=message)


@dataclass(frozen=True, slots=True)
class _Facts:
    """What is compared."""

    state: GroupState
    rooms: Rooms
    placing: Placing
    refused: Mapping[str, list[str]]
    """By type: the guests that the scheduler refuses."""
    full: dict[str, tuple[Reason, str]] = field(default_factory=dict)
    """By type: what was found for one guest and holds for all, as there may be thousands."""


def _why(guest: Guest, count: Count, facts: _Facts) -> tuple[Reason, str]:
    if guest.uid in facts.placing.served:
        return _why_served(guest)
    if guest.phase is Phase.OPEN:
        return _why_refused(guest)
    if guest.uid in facts.placing.full:
        if guest.type not in facts.full:
            facts.full[guest.type] = _why_full(guest, count, facts.refused.get(guest.type, []))
        return facts.full[guest.type]
    if guest.uid in facts.placing.spots:
        text = "other guests of machine types that share nodes with its own are placed first"
        return Reason.IN_LINE, text
    return _why_no_room(guest, facts)


def _why_served(guest: Guest) -> tuple[Reason, str]:
    if guest.phase is Phase.OPEN:
        return Reason.SCHEDULING, "its gate is open, and the scheduler looks for a node"
    return Reason.NEXT, "it is the next guest to be placed"


def _why_refused(guest: Guest) -> tuple[Reason, str]:
    tried = f", although {_names(guest.tried)} had room" if guest.tried else ""
    if guest.trying_since is not None:
        return Reason.SCHEDULING, "its gate is open, and the scheduler looks for a node"
    text = f"the scheduler found no node for it for {REFUSED_SECONDS:g} s{tried}: its condition PodScheduled says why"
    return Reason.REFUSED, f"{text}. It still takes one of its type's machines, and other guests are placed first"


def _why_full(guest: Guest, count: Count, refused: list[str]) -> tuple[Reason, str]:
    text = f"all {count.maximum} machines of type {guest.type} are taken by guests"
    if not count.maximum:
        text = f"there are no machines of type {guest.type}: its `available` is 0"
    elif count.maximum == 1:
        text = f"the only machine of type {guest.type} is taken by a guest"
    if refused:
        return Reason.REFUSED_FILL, f"{text}, also by those that the scheduler finds no node for: {_names(refused)}"
    return Reason.ALL_USED, text


def _why_no_room(guest: Guest, facts: _Facts) -> tuple[Reason, str]:
    fits = facts.rooms.fits(guest)
    if fits.said is None:
        fits.said = _why_taken(guest, fits) if fits.allowed else (Reason.NO_NODE, _why_no_node(guest, facts.state))
    return fits.said


def _why_taken(guest: Guest, fits: Fits) -> tuple[Reason, str]:
    others = {name: sorted(place.held_by - {guest.type}) for name, place in fits.allowed.items()}
    if any(others.values()):
        named = [f"{name} ({', '.join(types)})" for name, types in others.items() if types]
        return Reason.HELD_BY_OTHERS, f"no node has room; other machine types hold room on {_names(named)}"
    there = _nodes(len(fits.allowed))
    return Reason.NO_ROOM, f"of {there} of machine type {guest.type}, none has room for {_asked(guest)}"


def _why_no_node(guest: Guest, state: GroupState) -> str:
    usable = sum(node.is_usable and guest.type in node.types for node in state.nodes.values())
    if usable:
        text = f"of {_nodes(usable)} of machine type {guest.type}, none takes this guest"
        return f"{text}: by its node selector or affinity, or by a taint that it does not tolerate"
    return f"no node of machine type {guest.type} takes guests now: condition NodesReady of its Machine says why"


def _refused(waiting: Iterable[Guest]) -> dict[str, list[str]]:
    """Return the names of refused guests by type."""
    found: dict[str, list[str]] = {}
    for guest in waiting:
        if guest.phase is Phase.OPEN and guest.trying_since is None:
            found.setdefault(guest.type, []).append(f"{guest.key.namespace}/{guest.key.name}")
    return found


def _names(names: Iterable[str]) -> str:
    there = sorted(names)
    more = f" and {len(there) - NAMED_MAX} more" if len(there) > NAMED_MAX else ""
    return ", ".join(there[:NAMED_MAX]) + more


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def _asked(guest: Guest) -> str:
    asked = {name: amount for name, amount in sorted(guest.requests.items()) if name != PODS}
    return ", ".join(f"{shapes.worded(name, amount)} {name}" for name, amount in asked.items()) or "one more pod"
