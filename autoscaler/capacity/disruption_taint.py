"""What our mark on a node says: why its instance goes. Pure.

A node that is only idle goes on counting as room: it is spared if it is needed. One that is drained does not.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from autoscaler.api import keys
from autoscaler.capacity.indexes import remembered
from autoscaler.kube import objects


class Reason(StrEnum):
    """Why a node takes no more pods, or its instance goes."""

    IDLE = "Idle"
    """No work for longer than its pool allows."""
    OVER_LIMIT = "OverLimit"
    """It is idle, and its pool has more than it may have."""
    OVER_BUDGET = "IdleOverBudget"
    """It is idle, and its pool has used up what it may use this month."""
    OUTDATED = "Outdated"
    """It is idle, and was made from another launch template than its group has now."""
    MAINTENANCE = "Maintenance"
    """It is idle, and the provider has announced to stop, restart or retire it."""
    NEVER_FINISHED = "NeverFinished"
    """Its pool's registration timeout is over, and it still lacks a device or has the taint of a node that starts."""
    LEAVING = "PoolLeaving"
    """It is idle, and its pool or its group is being removed."""
    INTERRUPTED = "Interrupted"
    """The provider takes it away."""
    REPLACED = "Replaced"
    """It is outdated or due for maintenance, and another one stands in for it."""
    CLOSED = "BudgetUsed"
    """Its pool has used up what it may use this month: what runs goes on, and nothing follows it."""
    EMPTIED = "Emptied"
    """Its pool or its group is being removed: what lives for ever is asked to leave."""
    USED = "EphemeralUsed"
    """It has run the one pod that it was for."""
    NEVER_JOINED = "NeverJoined"
    """It is not a ready node although its pool's registration timeout is over."""
    LOST = "NodeLost"
    """Its node was ready once, and has not been for long, or was taken away."""


DRAINED: Final = frozenset({Reason.INTERRUPTED, Reason.REPLACED, Reason.CLOSED, Reason.EMPTIED, Reason.USED})
"""Marks of nodes whose work is to leave, or has left for good."""


def of(node: objects.Node) -> str | None:
    """Return what our mark on a node says; None if there is none."""
    return next((taint.value for taint in node.taints if taint.key == keys.REMOVING), None)


def must_mark(node: objects.Node, reason: str) -> bool:
    """Tell whether a node must be marked. One that was only idle may be drained now; never the other way round."""
    mark = of(node)
    return mark is None or (reason in DRAINED and bool(mark) and mark not in DRAINED)


@remembered.Remembered
def marked(nodes: Mapping[objects.Key, objects.Node]) -> tuple[objects.Node, ...]:
    """Return the nodes that carry our mark."""
    return tuple(node for node in nodes.values() if of(node) is not None)


@remembered.Remembered
def half_marked(nodes: Mapping[objects.Key, objects.Node]) -> tuple[objects.Node, ...]:
    """Return the nodes that we keep load balancers off, and from which somebody else took our mark."""
    label = keys.EXCLUDED_FROM_LOAD_BALANCERS
    excluded = (node for node in nodes.values() if node.meta.labels.get(label) == keys.EXCLUDED_BY_US)
    return tuple(node for node in excluded if of(node) is None)


def is_drained(node: objects.Node) -> bool:
    """Tell whether a node's work is to leave, so that it is no room for other."""
    return of(node) in DRAINED
