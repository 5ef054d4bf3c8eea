"""What counts as work on a node and keeps its instance, and what ends by itself. Pure."""

from typing import Final

from autoscaler.api import keys
from autoscaler.kube import objects

FINITE: Final = frozenset({"Job", "WorkerPool"})
"""Owners whose pods end by themselves."""


def is_work(pod: objects.Pod) -> bool:
    """Tell whether a pod keeps its node: all but what ended, what holds room, and what nodes run for themselves."""
    return not pod.is_terminal and _counts(pod)


def was_work(pod: objects.Pod) -> bool:
    """Tell whether a pod that ended kept its node while it ran."""
    return pod.is_terminal and _counts(pod)


def ends(pod: objects.Pod) -> bool:
    """Tell whether a pod ends by itself, or would be lost for good if it were evicted."""
    owner = pod.meta.controller
    return owner is None or owner.kind in FINITE


def is_sleeper(pod: objects.Pod) -> bool:
    """Tell whether a pod holds room for guests of machines: policies let no other pod say so."""
    return pod.meta.labels.get(keys.POD_ROLE) == keys.ROLE_RESERVATION


def _counts(pod: objects.Pod) -> bool:
    owner = pod.meta.controller
    is_daemon = owner is not None and owner.kind in {"DaemonSet", "Node"}
    return not is_daemon and not is_sleeper(pod) and objects.MIRROR not in pod.meta.annotations
