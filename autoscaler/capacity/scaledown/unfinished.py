"""Which nodes are not finished yet: on their way, never idle, and of no use if that lasts too long. Pure.

A node is finished once it is ready, offers the devices that its group's template declares, and carries no taint that
keeps pods away until something on it has started. Such taints are known by name; on a young node on which nothing ran
yet, every taint that the template does not have is taken for one. Once finished, always finished: the Instance object
says so, and a device plugin that restarts changes nothing about it.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from autoscaler.api import version
from autoscaler.capacity import disruption_taint
from autoscaler.capacity.indexes import group_nodes
from autoscaler.capacity.snapshot import Snapshot
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


def lacks(node: objects.Node, template: cloud.NodeTemplate, *, is_new: bool) -> str | None:
    """Return what a node lacks before it is finished; None: nothing. `is_new`: it is young, and nothing ran there."""
    if not node.ready:
        return "it is not ready"
    for name in template.resources:
        if "/" in name and not _offers(node, name):
            return f"it does not offer {name}"
    own = {taint.key for taint in template.taints}
    starting = (each.key for each in node.taints if _is_known(each) or (is_new and _is_foreign(each, own)))
    return next((f"it has the taint {key}" for key in starting), None)


def is_young(snapshot: Snapshot, group: cloud.NodeGroup, node: objects.Node) -> bool:
    """Tell whether a node may still take its time."""
    pool = snapshot.pools.get(group.key.pool)
    timeout = pool.registration_timeout_seconds if pool is not None else TIMEOUT_SECONDS
    return snapshot.now - node.meta.created_at < timeout


def coming(snapshot: Snapshot, group: cloud.NodeGroup) -> list[objects.Node]:
    """Return a group's nodes that have registered lately and do not take yet what they were started for."""
    return [
        node
        for one, node in _suspects(snapshot.groups, snapshot.by_provider).get(group.name, ())
        if disruption_taint.of(node) is None
        and is_young(snapshot, group, node)
        and lacks(node, group.node, is_new=not _is_used(snapshot, one, node)) is not None
    ]


def never_finished(snapshot: Snapshot) -> Iterator[Unfinished]:
    """Yield the ready nodes that nothing works on and that were never finished."""
    suspects = _suspects(snapshot.groups, snapshot.by_provider)
    for group in snapshot.groups:
        for one, node in suspects[group.name]:
            if node.ready and not _is_used(snapshot, one, node):
                is_late = not is_young(snapshot, group, node)
                why = lacks(node, group.node, is_new=True)
                if why is not None:
                    yield Unfinished(group, one, node, why, is_late)


def is_certain(each: Unfinished) -> bool:
    """Tell whether a late node is of no use, and does not only have a taint that nobody knows."""
    return each.is_late and lacks(each.node, each.group.node, is_new=False) is not None


def starting(snapshot: Snapshot) -> set[str]:
    """Return the names of nodes that must be waited for, but for those that would go anyway."""
    return {
        each.node.meta.key.name
        for each in never_finished(snapshot)
        if not each.is_late and each.group.key.pool not in snapshot.leaving and each.instance.id not in snapshot.doomed
    }


def useless(snapshot: Snapshot) -> set[str]:
    """Return the names of nodes that were waited for long enough."""
    return {each.node.meta.key.name for each in never_finished(snapshot) if is_certain(each)}


def _is_used(snapshot: Snapshot, one: cloud.Instance, node: objects.Node) -> bool:
    """Tell whether anything works on a node, or it was finished once. Our own mark for this says that it was not."""
    if disruption_taint.of(node) == disruption_taint.Reason.NEVER_FINISHED:
        return node.meta.key.name in snapshot.indexed.working
    return node.meta.key.name in snapshot.indexed.working or one.provider_id in snapshot.records.were_ready


@group_nodes.ByGroup
def _suspects(there: group_nodes.GroupNodes) -> list[tuple[cloud.Instance, objects.Node]]:
    """Return the nodes of a group that may not be finished: few, as a rule."""
    template = there.group.node
    return [
        (one, node)
        for one, node in zip(there.group.instances, there.nodes, strict=True)
        if node is not None
        and one.lifecycle is not cloud.Lifecycle.LEAVING
        and lacks(node, template, is_new=True) is not None
    ]


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
