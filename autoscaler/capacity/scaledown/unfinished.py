"""Which nodes are not finished yet: on their way, never idle, and of no use if that lasts too long. Pure.

A node is finished once it is ready, offers the devices that its group's template declares, and carries no taint that
keeps pods away until something on it has started. Such taints are listed by its pool or known by name. Of a young node
on which nothing ran yet, more is expected: the GPUs of its instance type, although no tag declares them, and no taint
at all that the template does not have. Once finished, always finished: the Instance object says so, and a device plugin
that restarts changes nothing about it.
"""

import functools
from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple

from autoscaler.api import keys, version
from autoscaler.api.resources.types import Taint
from autoscaler.capacity import disruption_taint
from autoscaler.capacity.indexes import group_nodes
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.cloud import catalogue
from autoscaler.cloud import port as cloud
from autoscaler.kube import objects

TIMEOUT_SECONDS: Final = 900
"""For groups and nodes whose pool is gone."""
_STARTING: Final = frozenset(
    {
        "ebs.csi.aws.com/agent-not-ready",
        "node.cilium.io/agent-not-ready",
        "node.cloudprovider.kubernetes.io/uninitialized",
        "node.kubernetes.io/network-unavailable",
        "node.kubernetes.io/not-ready",
    }
)
"""Taints that a new node loses by itself."""
_STARTUP: Final = "startup-taint.cluster-autoscaler.kubernetes.io/"
_CORDON: Final = "node.kubernetes.io/unschedulable"


class Unfinished(NamedTuple):
    """A node that was never finished."""

    group: cloud.NodeGroup
    instance: cloud.Instance
    node: objects.Node
    lacks: str
    is_late: bool
    """Its pool's registration timeout is over."""
    is_certain: bool
    """What it lacks was declared: it does not only have a taint that nobody knows, or GPUs that nobody asked for."""


Listed = Mapping[str, tuple[Taint, ...]]
"""The start-up taints of pools that have any."""


@functools.lru_cache(maxsize=2)
def listed(snapshot: Snapshot) -> Listed:
    """Return the start-up taints of pools: the very same object until they change."""
    return _same(tuple((name, pool.startup_taints) for name, pool in snapshot.pools.items() if pool.startup_taints))


@functools.lru_cache(maxsize=8)
def _same(taints: tuple[tuple[str, tuple[Taint, ...]], ...]) -> Listed:
    return dict(taints)


def is_listed(taint: objects.NodeTaint | Taint, startup: Collection[Taint]) -> bool:
    """Tell whether a taint is among start-up taints: same key and effect, and value, if they name one."""
    return any(
        (each.key, each.effect) == (taint.key, taint.effect) and each.value in {"", taint.value} for each in startup
    )


def lacks(node: objects.Node, group: cloud.NodeGroup, taints: Listed, *, is_new: bool) -> str | None:
    """Return what a node lacks before it is finished; None: nothing. `is_new`: it is young, and nothing ran there."""
    if not node.ready:
        return "it is not ready"
    for name in (*group.node.resources, *_undeclared(group.key.instance_type, is_new=is_new)):
        if "/" in name and not _offers(node, name):
            return f"it does not offer {name}"
    own, startup = {taint.key for taint in group.node.taints}, taints.get(group.key.pool, ())
    for taint in node.taints:
        if _is_known(taint) or is_listed(taint, startup) or (is_new and _is_foreign(taint, own)):
            return f"it has the taint {taint.key}"
    return None


def is_young(snapshot: Snapshot, group: cloud.NodeGroup, node: objects.Node) -> bool:
    """Tell whether a node may still take its time."""
    pool = snapshot.pools.get(group.key.pool)
    timeout = pool.registration_timeout_seconds if pool is not None else TIMEOUT_SECONDS
    return snapshot.now - node.meta.created_at < timeout


def coming(snapshot: Snapshot, group: cloud.NodeGroup) -> list[objects.Node]:
    """Return a group's nodes that have registered lately and do not take yet what they were started for."""
    taints = listed(snapshot)
    return [
        node
        for one, node in _suspects(snapshot.groups, snapshot.by_provider, taints).get(group.name, ())
        if disruption_taint.of(node) is None
        and is_young(snapshot, group, node)
        and lacks(node, group, taints, is_new=not _is_used(snapshot, one, node)) is not None
    ]


def never_finished(snapshot: Snapshot) -> Iterator[Unfinished]:
    """Yield the ready nodes that nothing works on and that were never finished."""
    taints = listed(snapshot)
    suspects = _suspects(snapshot.groups, snapshot.by_provider, taints)
    for group in snapshot.groups:
        for one, node in suspects[group.name]:
            if node.ready and not _is_used(snapshot, one, node):
                is_late, certainly = not is_young(snapshot, group, node), lacks(node, group, taints, is_new=False)
                why = certainly or lacks(node, group, taints, is_new=True)
                if why is not None:
                    yield Unfinished(group, one, node, why, is_late, certainly is not None)


def starting(snapshot: Snapshot) -> set[str]:
    """Return the names of nodes that must be waited for, but for those that would go anyway."""
    return {
        each.node.meta.key.name
        for each in never_finished(snapshot)
        if not each.is_late and not snapshot.is_leaving(each.group.key) and each.instance.id not in snapshot.doomed
    }


def useless(snapshot: Snapshot) -> set[str]:
    """Return the names of nodes that were waited for long enough."""
    return {each.node.meta.key.name for each in never_finished(snapshot) if each.is_late and each.is_certain}


def _is_used(snapshot: Snapshot, one: cloud.Instance, node: objects.Node) -> bool:
    """Tell whether anything works on a node, or it was finished once. Our own mark for this says that it was not."""
    if disruption_taint.of(node) == disruption_taint.Reason.NEVER_FINISHED:
        return node.meta.key.name in snapshot.indexed.working
    return node.meta.key.name in snapshot.indexed.working or one.provider_id in snapshot.records.were_ready


@group_nodes.ByGroup
def _suspects(there: group_nodes.GroupNodes, taints: Listed) -> list[tuple[cloud.Instance, objects.Node]]:
    """Return the nodes of a group that may not be finished: few, as a rule."""
    return [
        (one, node)
        for one, node in zip(there.group.instances, there.nodes, strict=True)
        if node is not None
        and one.lifecycle is not cloud.Lifecycle.LEAVING
        and lacks(node, there.group, taints, is_new=True) is not None
    ]


def _undeclared(instance_type: str, *, is_new: bool) -> tuple[str, ...]:
    """Return what an instance type has and a new node is expected to offer, whether or not tags say so."""
    kind = catalogue.bundled().get(instance_type) if is_new else None
    return (keys.GPU_RESOURCE,) if kind is not None and kind.gpus else ()


def _offers(node: objects.Node, name: str) -> bool:
    """Tell whether a device is there, be it cut into parts that have another name of the same vendor's."""
    vendor = name.partition("/")[0]
    return any(amount and other.partition("/")[0] == vendor for other, amount in node.allocatable.items())


def _is_known(taint: objects.NodeTaint) -> bool:
    return taint.key in _STARTING or taint.key.startswith(_STARTUP)


def _is_foreign(taint: objects.NodeTaint, own: set[str]) -> bool:
    """Tell whether a taint keeps pods away that neither the template nor we nor who cordons a node puts there."""
    if taint.effect == "PreferNoSchedule" or taint.key == _CORDON or taint.key in own:
        return False
    return not taint.key.partition("/")[0].endswith(version.GROUP)
