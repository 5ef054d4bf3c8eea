"""Guests and sleepers, read from pods. Pure.

A guest is a pod that the injection policy made one: it says so in labels, in a namespace where machines are given. What
we wrote on a pod is protected from others, so a pod that carries it is a guest wherever it is. A sleeper is a pod of
one of our StatefulSets in the runtime's namespace. Pods that have ended are neither.
"""

import weakref
from collections.abc import Mapping
from typing import Final

from autoscaler.api import keys
from autoscaler.kube import kinds, objects, shapes
from autoscaler.machines.model import PODS, Amounts, Guest, Phase, Sleeper

_ERROR: Final = "Error"
_STAMPS: Final = (keys.MACHINE_TRYING_SINCE, keys.MACHINE_PROMISED, keys.MACHINE_TRIED)
_REQUESTS: weakref.WeakKeyDictionary[shapes.Shape, Amounts] = weakref.WeakKeyDictionary()


def group_of(pod: objects.Pod) -> str | None:
    """Return the group of a guest or sleeper; None: it says none, or has ended."""
    labels = pod.meta.labels
    if pod.is_terminal or keys.MACHINE_TYPE not in labels:
        return None
    return labels.get(keys.MACHINE_GROUP)


def is_sleeper(pod: objects.Pod, namespace: str) -> bool:
    """Tell whether a pod is a sleeper, given the runtime's namespace."""
    owner = pod.meta.controller
    is_ours = owner is not None and owner.kind == kinds.STATEFUL_SETS.kind and pod.meta.key.namespace == namespace
    return is_ours and pod.meta.labels.get(keys.POD_ROLE) == keys.ROLE_RESERVATION


def is_guest(pod: objects.Pod) -> bool:
    """Tell whether a pod says that it is a guest; only in namespaces where machines are given is that so."""
    return pod.meta.labels.get(keys.POD_ROLE) == keys.ROLE_GUEST


def is_stamped(pod: objects.Pod) -> bool:
    """Tell whether we wrote on a pod."""
    return any(stamp in pod.meta.annotations for stamp in _STAMPS)


def requests_of(shape: shapes.Shape) -> Amounts:
    """Return what a pod requests, itself as one pod among it; the same object for pods of one shape."""
    known = _REQUESTS.get(shape)
    if known is None:
        known = _REQUESTS[shape] = {**shape.requests, PODS: 1}
    return known


def guest(pod: objects.Pod) -> Guest:
    """Read a guest."""
    meta = pod.meta
    said = meta.annotations
    return Guest(
        key=meta.key,
        uid=meta.uid,
        version=meta.resource_version,
        type=meta.labels[keys.MACHINE_TYPE],
        created_at=meta.created_at,
        phase=_phase(pod),
        requests=requests_of(pod.shape),
        node=pod.node_name,
        is_terminating=meta.deleted_at is not None,
        is_failing=_ERROR in pod.waiting_reasons,
        is_independent=_is_independent(pod.shape),
        promised=said.get(keys.MACHINE_PROMISED) or None,
        tried=frozenset(filter(None, said.get(keys.MACHINE_TRIED, "").split(","))),
        trying_since=_seconds(said),
        unschedulable_since=pod.unschedulable_since,
    )


def sleeper(pod: objects.Pod) -> Sleeper:
    """Read a sleeper."""
    meta = pod.meta
    ordinal = meta.key.name.rpartition("-")[2]
    return Sleeper(
        key=meta.key,
        uid=meta.uid,
        version=meta.resource_version,
        type=meta.labels[keys.MACHINE_TYPE],
        ordinal=int(ordinal) if ordinal.isdigit() else 0,
        phase=_phase(pod),
        requests=requests_of(pod.shape),
        node=pod.node_name or meta.annotations.get(keys.MACHINE_PINNED, ""),
        is_terminating=meta.deleted_at is not None,
    )


def _is_independent(shape: shapes.Shape) -> bool:
    affinity = shape.affinity
    is_relative = affinity is not None and (affinity.pod_affinity or affinity.pod_anti_affinity)
    return not (is_relative or shape.spread or shape.claims or shape.host_ports or shape.resource_claims)


def _phase(pod: objects.Pod) -> Phase:
    if pod.node_name:
        return Phase.BOUND
    if keys.MACHINE_GATE not in pod.gates:
        return Phase.OPEN
    return Phase.GATED if len(pod.gates) == 1 else Phase.HELD


def _seconds(said: Mapping[str, str]) -> float | None:
    try:
        return float(said[keys.MACHINE_TRYING_SINCE])
    except (KeyError, ValueError):
        return None
