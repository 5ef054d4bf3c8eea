"""Pods that ask for one zone, with everything defaulted."""

from typing import Any

from autoscaler.api import keys
from autoscaler.kube import objects
from tests.autoscaler.capacity import seen

GATE = {"name": keys.PLACEMENT_GATE}
ASKS = {keys.SAME_ZONE: "true"}


def member(
    name: str, owner: str | None = "train", *, metadata: dict[str, Any] | None = None, **more: Any
) -> objects.Pod:
    """A pod of a Job that waits for a zone."""
    owners = [{"kind": "Job", "name": owner, "uid": f"uid-{owner}", "controller": True}] if owner else []
    given = {"annotations": ASKS, "ownerReferences": owners, **(metadata or {})}
    return seen.pod(name, metadata=given, **{"waits": False, "schedulingGates": [GATE], **more})


def opened(name: str, zone: str = "a", owner: str = "train", **more: Any) -> objects.Pod:
    """A pod of a Job that was given its zone."""
    return member(name, owner, schedulingGates=[], nodeSelector={keys.ZONE: zone}, **more)
