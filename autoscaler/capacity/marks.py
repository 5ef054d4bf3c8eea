"""What our mark on a node says: why its instance goes. Pure.

A node that is only idle goes on counting as room: it is spared if it is needed. One that is drained does not.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from autoscaler.api import keys
from autoscaler.capacity import remembered
from autoscaler.kube import objects


class Idle(StrEnum):
    """Why an instance without work goes."""

    IDLE = "Idle"
    """No work for longer than its pool allows."""
    OVER_LIMIT = "OverLimit"
    """Its pool has more than it may have."""
    BUDGET_SPENT = "BudgetSpent"
    """Its pool has used up what it may use this month."""
    OUTDATED = "Outdated"
    """It was made from another launch template than its group has now."""
    SPENT = "Spent"
    """It has run the one pod that it was for."""
    DOOMED = "WorkLeft"
    """The provider takes it away, and its work has left: gone before that, its group does not replace it."""
    LEAVING = "PoolLeaving"
    """Its pool is being removed."""


class Draining(StrEnum):
    """Why an instance goes that may still have work."""

    INTERRUPTED = "Interrupted"
    """The provider takes it away."""
    REPLACED = "Replaced"
    """It was made from another launch template than its group has now, and another one stands in for it."""
    CLOSED = "BudgetUsed"
    """Its pool has used up what it may use this month: what runs goes on, and nothing follows it."""
    EMPTIED = "Emptied"
    """Its pool is being removed."""
    USED = "Used"
    """It has run the one pod that it was for, and what goes to every node is still there."""


DRAINED: Final = frozenset(map(str, Draining))


def of(node: objects.Node) -> str | None:
    """Return what our mark on a node says; None if there is none."""
    return next((taint.value for taint in node.taints if taint.key == keys.REMOVING), None)


@remembered.Remembered
def marked(nodes: Mapping[objects.Key, objects.Node]) -> tuple[objects.Node, ...]:
    """Return the nodes that carry our mark."""
    return tuple(node for node in nodes.values() if of(node) is not None)


def is_drained(node: objects.Node) -> bool:
    """Tell whether a node's work is to leave, so that it is no room for other."""
    return of(node) in DRAINED
