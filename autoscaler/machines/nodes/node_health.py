"""Whether a node can take guests, whatever Machines want of it. Pure.

It decides by what the node says of itself alone; it must not look at our own marks, or a node that we closed would
never open again.
"""

from enum import StrEnum

from autoscaler.kube import objects


class Trouble(StrEnum):
    """Why a node takes no guests."""

    MISSING = "it is missing"
    DELETED = "it is being deleted"
    NOT_READY = "it is not Ready"
    CORDONED = "it is cordoned"


def trouble(node: objects.Node | None) -> Trouble | None:
    """Return why a node, None where there is none of that name, takes no guests; None if it can."""
    if node is None:
        return Trouble.MISSING
    if node.meta.deleted_at is not None:
        return Trouble.DELETED
    if not node.ready:
        return Trouble.NOT_READY
    return Trouble.CORDONED if node.unschedulable else None
