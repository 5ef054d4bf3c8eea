"""What a node carries of ours, by what its Machine wants of it and by its health. Pure: one patch, or none.

A node that takes guests has an annotation that names its group, a label for each of its types and one that says that it
is ready, and both taints where its entry asks for them. A node that stops taking guests is closed first, with a taint
of ours; its labels go later, as `node_labels` says, and only then may another group have it. What belongs to others,
labels and taints alike, is never touched.

Every step follows from what is on the node, so a crash between two of them does no harm, and a converged node has no
patch at all.
"""

from dataclasses import dataclass
from enum import StrEnum

from autoscaler.api import keys
from autoscaler.api.manifests import Manifest
from autoscaler.kube import objects, taints
from autoscaler.kube.objects import NodeTaint
from autoscaler.machines.nodes import node_labels
from autoscaler.machines.nodes.claims import GroupType, Labels
from autoscaler.machines.nodes.node_labels import NO_SCHEDULE, SETTLE_SECONDS, Situation, Steps


class Change(StrEnum):
    """What a patch does, for those who are told."""

    OPEN = "open"
    """The node takes guests from now on."""
    CLOSE = "close"
    """It takes no more guests, and some labels stay for now."""
    STRIP = "strip"
    """It takes no guests and loses labels, and still belongs to a group."""
    LEAVE = "leave"
    """It loses the last thing of ours."""
    AMEND = "amend"
    """Something that was changed by others, or in its entry, is put right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """What is to be done about a node's marks, and how it stands."""

    patch: Manifest | None
    """The merge patch, for the very version of the node that was looked at; None: all is as it should be."""
    change: Change | None
    is_ready: bool
    """It should take guests, and nobody's old guests keep it closed."""
    is_marked: bool
    """It carries all labels that it should, and is not closed."""
    is_closed: bool
    """Nothing of any group can be scheduled there: it carries the taint that closes it, or none of our labels. Its
    sleepers may go."""
    is_settled: bool
    """It carries what it should in the end: neither guests nor time change that."""
    kept_for: tuple[GroupType, ...] = ()
    """The types whose guests keep the node closed."""
    wake_at: float | None = None
    """When labels may go that stay for a while after closing; None: time alone changes nothing."""


def decide(situation: Situation, now: float) -> Marks:
    """Return what a node's marks should become in the next step."""
    steps = Steps.of(situation, now)
    patch = _patch(situation, steps, now)
    found, staying, closed_at = steps.found, steps.staying, steps.closed_at
    waits = closed_at is not None and any(not node_labels.is_needed(situation, key, found[key]) for key in staying)
    return Marks(
        patch=patch,
        change=_change(situation, steps) if patch else None,
        is_ready=situation.takes_guests and not staying,
        is_marked=situation.takes_guests and steps.target.items() <= found.items() and closed_at is None,
        is_closed=closed_at is not None or not found,
        is_settled=patch is None and found == steps.target,
        kept_for=tuple(sorted(_kept_for(situation, steps))),
        wake_at=closed_at + SETTLE_SECONDS if waits and closed_at is not None else None,
    )


def _kept_for(situation: Situation, steps: Steps) -> set[GroupType]:
    return {node_labels.type_of(key, steps.found[key]) for key in steps.staying} & situation.needed


def _patch(situation: Situation, steps: Steps, now: float) -> Manifest | None:
    metadata = {
        "labels": _difference(steps.found, steps.wanted),
        "annotations": _difference(_annotation(situation.node), _wanted_annotation(situation, steps)),
    }
    metadata = {part: changes for part, changes in metadata.items() if changes}
    spec = _taint_changes(situation, steps, now)
    return {**({"metadata": metadata} if metadata else {}), **({"spec": spec} if spec else {})} or None


def _difference(found: Labels, wanted: Labels) -> Manifest:
    changed: Manifest = {key: value for key, value in wanted.items() if found.get(key) != value}
    return changed | dict.fromkeys(found.keys() - wanted.keys())


def _annotation(node: objects.Node) -> Labels:
    group = node.meta.annotations.get(keys.MACHINE_GROUP)
    return {} if group is None else {keys.MACHINE_GROUP: group}


def _wanted_annotation(situation: Situation, steps: Steps) -> Labels:
    """Name the group that has the node; one that it leaves until the last label has gone."""
    if _is_held(situation, steps):
        return _annotation(situation.node) or {keys.MACHINE_GROUP: _holder(situation, steps)}
    return {} if situation.claim is None else {keys.MACHINE_GROUP: situation.claim.group}


def _is_held(situation: Situation, steps: Steps) -> bool:
    """Tell whether the node has not yet left a group that it does not belong to any more."""
    own = None if situation.claim is None else situation.claim.group
    groups = {steps.found[key] for key in steps.staying if key != keys.NODE_POOL}
    return bool(groups - {own}) if own is not None else bool(steps.staying)


def _holder(situation: Situation, steps: Steps) -> str:
    """Name the group for whose guests a node is closed."""
    own = "" if situation.claim is None else situation.claim.group
    groups = {steps.found[key] for key in steps.staying if key != keys.NODE_POOL}
    return min(groups - {own}, default=own)


def _taint_changes(situation: Situation, steps: Steps, now: float) -> Manifest:
    node, wanted = situation.node, _wanted_taints(situation, steps)
    if {taint for taint in node.taints if _is_taint(taint)} == set(wanted):
        return {}
    times = dict(node.tainted_at)
    if steps.closed_at is None:
        times[keys.MACHINE_CLOSED, NO_SCHEDULE] = now
    others = [taint for taint in node.taints if not _is_taint(taint)]
    return {"taints": taints.written([*others, *wanted], times)}


def _wanted_taints(situation: Situation, steps: Steps) -> list[NodeTaint]:
    claim, made = situation.claim, []
    if claim is not None and claim.taint and not _is_held(situation, steps):
        made.append(NodeTaint(keys.machine_label(claim.type), claim.group, NO_SCHEDULE))
        made.append(NodeTaint(keys.NODE_POOL, keys.NODE_POOL_READY, NO_SCHEDULE))
    if steps.staying:
        there = (taint for taint in situation.node.taints if taint.key == keys.MACHINE_CLOSED)
        closing = NodeTaint(keys.MACHINE_CLOSED, _holder(situation, steps), NO_SCHEDULE)
        made.append(next((taint for taint in there if taint.effect == NO_SCHEDULE), closing))
    return made


def _is_taint(taint: NodeTaint) -> bool:
    return taint.key == keys.MACHINE_CLOSED or node_labels.is_ours(taint.key)


def _change(situation: Situation, steps: Steps) -> Change:
    is_closed = steps.closed_at is not None
    if steps.staying:
        return Change.STRIP if is_closed else Change.CLOSE
    if situation.takes_guests:
        was_open = steps.found.get(keys.NODE_POOL) == keys.NODE_POOL_READY and not is_closed
        return Change.AMEND if was_open else Change.OPEN
    if situation.claim is None:
        return Change.LEAVE
    return Change.STRIP if steps.found else Change.AMEND
