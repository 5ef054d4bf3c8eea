"""Which of our labels a node has, should have, and must keep for now. Pure.

A kubelet that restarts checks required node affinity again, and rejects running pods whose node lost a label that they
name. So a label stays until no guest is left that names it, and a node whose labels stay longer than they should is
closed with a taint of ours meanwhile: nothing new comes there.
"""

from collections.abc import Container
from dataclasses import dataclass
from typing import Final

from autoscaler.api import keys
from autoscaler.api.resources.machines import NodeMode
from autoscaler.kube import objects
from autoscaler.machines.nodes.claims import Claim, GroupType, Labels

SETTLE_SECONDS: Final = 5.0
"""Labels stay this long after a node was closed: the scheduler may just be binding a guest that it had refused before,
and did not see the taint yet."""
NO_SCHEDULE: Final = "NoSchedule"
_TYPE_PREFIX: Final = keys.machine_label("")


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A node, and what is known about it."""

    node: objects.Node
    claim: Claim | None = None
    """What the Machine wants that has the node; None: it is nobody's."""
    types: tuple[str, ...] = ()
    """The types of the claim that may live there, by their hostLimit."""
    is_healthy: bool = True
    needed: frozenset[GroupType] = frozenset()
    """The types of guests that are bound there and have not ended, and of open guests that may be about to be bound."""
    offered: Container[GroupType] = frozenset()
    """All types of all Machines that are not being deleted: guests of these may still be opened."""

    @property
    def takes_guests(self) -> bool:
        """Tell whether the node should take guests."""
        is_wanted = self.claim is not None and self.claim.mode is NodeMode.READY
        return is_wanted and self.is_healthy and bool(self.types)


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Labels of ours: what is there, what should be, and what must wait."""

    found: Labels
    target: Labels
    """What the node should have in the end."""
    staying: frozenset[str]
    """Those that must go and cannot yet; while there are any, the node is closed and gets no new ones."""
    wanted: Labels
    """What it should have after the next step."""
    closed_at: float | None
    """Since when it is closed; None: it is not."""

    @classmethod
    def of(cls, situation: Situation, now: float) -> "Steps":
        found, target, closed_at = _found(situation.node), _target(situation), _closed_at(situation.node)
        is_settled = closed_at is not None and not 0 <= now - closed_at < SETTLE_SECONDS
        stale = {key for key, value in found.items() if target.get(key) != value}
        closing = {key for key in stale if _must_close(situation, key, found[key], is_wanted=key in target)}
        unneeded = {key for key in stale if not is_needed(situation, key, found[key])}
        going = unneeded if is_settled else unneeded - closing
        staying = frozenset(closing - going)
        kept = {key: value for key, value in found.items() if key not in going}
        wanted = kept if staying else {**kept, **target}
        return cls(found=found, target=target, staying=staying, wanted=wanted, closed_at=closed_at)


def is_ours(key: str) -> bool:
    """Tell whether a label or taint of this key is ours."""
    return key == keys.NODE_POOL or key.startswith(_TYPE_PREFIX)


def is_needed(situation: Situation, key: str, value: str) -> bool:
    """Tell whether guests name a label that are there, or may be in a moment."""
    if key == keys.NODE_POOL:
        return value == keys.NODE_POOL_READY and bool(situation.needed)
    return type_of(key, value) in situation.needed


def type_of(key: str, value: str) -> GroupType:
    """Read a label that offers a type."""
    return GroupType(value, key.removeprefix(_TYPE_PREFIX))


def _found(node: objects.Node) -> Labels:
    return {key: value for key, value in node.meta.labels.items() if is_ours(key)}


def _target(situation: Situation) -> Labels:
    claim = situation.claim
    if claim is None or not situation.takes_guests:
        return {}
    return {**{keys.machine_label(each): claim.group for each in situation.types}, keys.NODE_POOL: keys.NODE_POOL_READY}


def _closed_at(node: objects.Node) -> float | None:
    is_closed = any(taint.key == keys.MACHINE_CLOSED and taint.effect == NO_SCHEDULE for taint in node.taints)
    return node.tainted_at.get((keys.MACHINE_CLOSED, NO_SCHEDULE), 0.0) if is_closed else None


def _must_close(situation: Situation, key: str, value: str, *, is_wanted: bool) -> bool:
    """Tell whether the node must be closed before a label goes.

    A node that goes on taking guests is closed only for labels by which guests may still come, or in whose place it
    gets another value. The label of a type that nobody offers any more stays beside the others.
    """
    if not situation.takes_guests:
        return True
    return key != keys.NODE_POOL and (
        type_of(key, value) in situation.offered or (is_wanted and is_needed(situation, key, value))
    )
