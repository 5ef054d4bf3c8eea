"""What counts as work on a node and keeps its instance, what ends by itself, and what must not be disrupted. Pure."""

from typing import Final

from autoscaler.api import keys
from autoscaler.kube import objects

FINITE: Final = frozenset({"Job", "WorkerPool"})
"""Owners whose pods end by themselves."""
PRIORITY_CUTOFF: Final = -10
"""Pods of a lower priority take what is left over: no instance is started or kept for them."""
ENDLESS: Final = frozenset({"Deployment", "ReplicaSet", "ReplicationController", "StatefulSet"})
"""Owners whose pods run until somebody deletes them."""


def is_work(pod: objects.Pod) -> bool:
    """Tell whether a pod keeps its node.

    All do but those that ended, hold room, take what is left over, or are run by nodes for themselves.
    """
    return not pod.is_terminal and _counts(pod)


def was_work(pod: objects.Pod) -> bool:
    """Tell whether a pod that ended kept its node while it ran."""
    return pod.is_terminal and _counts(pod)


def ends(pod: objects.Pod) -> bool:
    """Tell whether a pod ends by itself, or would be lost for good if it were evicted."""
    owner = pod.meta.controller
    return owner is None or owner.kind in FINITE


def kept_by(found: objects.Stored) -> str | None:
    """Return the annotation that keeps a node, or a pod where it is; None if there is none."""
    annotations = found.meta.annotations
    return next((key for key in objects.DO_NOT_DISRUPT if annotations.get(key) == "true"), None)


def may_leave(pod: objects.Pod) -> bool:
    """Tell whether a pod that is there may be asked to go elsewhere: also one that is no work."""
    return not pod.is_terminal and pod.meta.deleted_at is None and _is_ordinary(pod)


def is_endless(pod: objects.Pod) -> bool:
    """Tell whether a pod is expected to run until somebody deletes it."""
    owner = pod.meta.controller
    return owner.kind in ENDLESS if owner is not None else pod.restart_policy == "Always"


def is_sleeper(pod: objects.Pod) -> bool:
    """Tell whether a pod holds room for guests of machines: policies let no other pod say so."""
    return pod.meta.labels.get(keys.POD_ROLE) == keys.ROLE_RESERVATION


def _counts(pod: objects.Pod) -> bool:
    return _is_ordinary(pod) and (pod.priority >= PRIORITY_CUTOFF or kept_by(pod) is not None)


def _is_ordinary(pod: objects.Pod) -> bool:
    owner = pod.meta.controller
    is_daemon = owner is not None and owner.kind in {"DaemonSet", "Node"}
    return not is_daemon and not is_sleeper(pod) and objects.MIRROR not in pod.meta.annotations
