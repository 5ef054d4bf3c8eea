"""A node's taints as they are written. Pure. A merge patch replaces the whole list, so it must lose nothing of others'.

The time that the node controller writes on its taints decides when pods are evicted: it stays as it was.
"""

from collections.abc import Iterable

from autoscaler import clock
from autoscaler.api.manifests import Manifest
from autoscaler.kube.objects import NodeTaint, TaintTimes


def written(taints: Iterable[NodeTaint], times: TaintTimes) -> list[Manifest] | None:
    """Write a list of taints with the times at which they were put there; None takes an empty list away."""
    return [_written(taint, times.get((taint.key, taint.effect))) for taint in taints] or None


def _written(taint: NodeTaint, added_at: float | None) -> Manifest:
    value = {"value": taint.value} if taint.value else {}
    time = {} if added_at is None else {"timeAdded": clock.to_rfc3339(added_at)}
    return {"key": taint.key, "effect": taint.effect, **value, **time}
