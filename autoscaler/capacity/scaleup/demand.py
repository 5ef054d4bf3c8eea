"""Which pods wait for a node, and which pools may serve them. Pure: it counts nothing that a node would not help."""

from collections.abc import Iterable, Mapping
from typing import Final

from autoscaler.api import keys
from autoscaler.api.resources.pools import InstancePoolSpec
from autoscaler.api.resources.scopes import ScopeSpec
from autoscaler.capacity import work
from autoscaler.capacity.indexes.pod_index import IndexedPods
from autoscaler.capacity.model import Demand, Reason, Rejection
from autoscaler.capacity.scaleup import placement, unhelpful
from autoscaler.capacity.scaleup.missed_placements import MissedPlacement, Waiting
from autoscaler.capacity.scaleup.storage import needs as storage
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.kube import objects, shapes

SCHEDULER: Final = "default-scheduler"
_AFTER_QUOTA: Final = frozenset({keys.PLACEMENT_GATE, keys.MACHINE_GATE})
"""Gates that are opened in this order, when no other is left."""


def waiting(pods: IndexedPods) -> dict[Waiting, list[objects.Pod]]:
    """Return the pods that no node has room for, by what they are alike in."""
    return alike([pod for pod in pods.unbound.values() if is_demand(pod)], labels_read(pods))


def labels_read(pods: IndexedPods) -> frozenset[str]:
    """Return the labels that any pod's rule about others looks at."""
    return placement.label_keys({pod.shape for pod in pods.with_rules.values()})


def alike(pods: Iterable[objects.Pod], keys_read: frozenset[str]) -> dict[Waiting, list[objects.Pod]]:
    """Sort pods by what they are alike in, of labels those only that rules read."""
    found: dict[Waiting, list[objects.Pod]] = {}
    for pod in pods:
        labels = tuple(sorted((key, value) for key, value in pod.meta.labels.items() if key in keys_read))
        like = Waiting(pod.shape, pod.meta.key.namespace, labels, work.is_endless(pod))
        found.setdefault(like, []).append(pod)
    return found


def looks_at_others(pods: IndexedPods) -> bool:
    """Tell whether any pod has a rule about others, so that it matters who is where."""
    return any(
        _has_rule(pod.shape)
        for pod in pods.with_rules.values()
        if pod.node_name or pod.unschedulable_since is not None or keys.PLACEMENT_GATE in pod.gates
    )


def _has_rule(shape: shapes.Shape) -> bool:
    affinity = shape.affinity
    about_pods = affinity is not None and (affinity.pod_affinity or affinity.pod_anti_affinity)
    return bool(about_pods or shape.spread or shape.host_ports)


def is_demand(pod: objects.Pod) -> bool:
    """Tell whether an instance should be started for a pod, if nothing else helps."""
    if pod.node_name or pod.gates or pod.priority < work.PRIORITY_CUTOFF or work.is_sleeper(pod):
        return False
    return (pod.unschedulable_since is not None or is_opened(pod)) and is_planned_for(pod)


def waits_for_zone(pod: objects.Pod) -> bool:
    """Tell whether a pod waits for nothing but a zone that takes all of its kind, or for a machine there after that."""
    return keys.PLACEMENT_GATE in pod.gates and _AFTER_QUOTA.issuperset(pod.gates) and is_planned_for(pod)


def is_opened(pod: objects.Pod) -> bool:
    """Tell whether a pod was given its zone: from then on it counts, the scheduler may not have looked at it yet."""
    asks = pod.meta.annotations.get(keys.SAME_ZONE) == "true"
    return asks and keys.PLACEMENT_GATE not in pod.gates and keys.ZONE in pod.shape.node_selector


def is_planned_for(pod: objects.Pod) -> bool:
    """Tell whether a pod that waits is one that nodes may be started for."""
    if pod.node_name or pod.nominated_node or pod.meta.deleted_at is not None or pod.is_terminal:
        return False
    owner = pod.meta.controller
    is_daemon = owner is not None and owner.kind == "DaemonSet"
    return pod.scheduler == SCHEDULER and not is_daemon


def demands(snapshot: Snapshot, found: Mapping[Waiting, list[objects.Pod]]) -> dict[Waiting, Demand]:
    """Say for each kind of waiting pods how many there are and which pools may serve them."""
    tiers: dict[str, tuple[frozenset[str], ...]] = {}
    made = {}
    for like, pods in found.items():
        scope = scope_of(snapshot, like.namespace)
        if scope not in tiers:
            tiers[scope] = pools_of(snapshot.scopes.get(scope), snapshot.pools)
        lessons = snapshot.missed.get(like, MissedPlacement())
        needs = storage.needs(snapshot.storage, like.shape, like.namespace)
        made[like] = Demand(
            shape=like.shape,
            count=len(pods),
            namespace=like.namespace,
            labels=pods[0].meta.labels,
            scope=scope,
            pools=tiers[scope],
            zones=needs.zones,
            hosts=needs.hosts,
            attachments=needs.attachments,
            refused=needs.refused or _lost_node(snapshot, needs.hosts),
            missed=unhelpful.refused(snapshot, like),
            avoid=lessons.avoid,
            is_endless=like.is_endless,
        )
    return made


def _lost_node(snapshot: Snapshot, hosts: frozenset[str] | None) -> Rejection | None:
    """Say that no node is there on which alone pods can use their volumes; None if one is, or any may be."""
    if hosts is None or any(objects.Key("", host) in snapshot.nodes for host in hosts):
        return None
    if any(node.meta.labels.get(keys.HOSTNAME) in hosts for node in snapshot.nodes.values()):
        return None
    return Rejection(reason=Reason.VOLUME_NODE_GONE, what=", ".join(sorted(hosts)))


def scope_of(snapshot: Snapshot, namespace: str) -> str:
    """Return the scope that a namespace is in; empty if it is in none that exists."""
    named = snapshot.namespaces.get(namespace, {}).get(keys.SCOPE, "")
    return named if named in snapshot.scopes else ""


def pools_of(scope: ScopeSpec | None, pools: Mapping[str, InstancePoolSpec]) -> tuple[frozenset[str], ...]:
    """Return the pools that a scope may use, in tiers: those it lists by priority, then all others that are for all."""
    listed = {entry.name: entry.priority for entry in scope.pools} if scope is not None else {}
    tiers = [
        frozenset(name for name, priority in listed.items() if priority == level and name in pools)
        for level in sorted(set(listed.values()), reverse=True)
    ]
    others = frozenset(name for name, spec in pools.items() if spec.instance_wide and name not in listed)
    return tuple(tier for tier in (*tiers, others) if tier)
