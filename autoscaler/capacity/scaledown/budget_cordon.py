"""Nodes that take no more work, because their pool has used up what it may use this month. Pure.

Work that runs goes on, and nothing follows it: or a pool that many pods wait for would never come to an end, since each
pod that ends makes room for the next. As many nodes as a group must have at least stay open: their instances are paid
for either way.
"""

from autoscaler.capacity import disruption_taint, work
from autoscaler.capacity.scaleup import supply
from autoscaler.capacity.scaleup.limits import budgets, offers
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.cloud import port as cloud
from autoscaler.kube import objects


def closed(snapshot: Snapshot) -> tuple[objects.Key, ...]:
    """Return the nodes with work that take no more of it; idle ones are removed anyway."""
    spent = budgets.spent_pools(offers.monthly(snapshot))
    groups = [group for group in snapshot.groups if group.key.pool in spent]
    if not groups:
        return ()
    return tuple(node for group in groups for node in _of_group(snapshot, group) if _is_busy(snapshot, node))


def _is_busy(snapshot: Snapshot, node: objects.Key) -> bool:
    """Tell whether a pod works on a node; one that is only nominated to it does not yet."""
    return any(pod.node_name and work.is_work(pod) for pod in snapshot.indexed.by_node.get(node.name, ()))


def _of_group(snapshot: Snapshot, group: cloud.NodeGroup) -> list[objects.Key]:
    """Return what a group has beyond its minimum, those that are marked already first."""
    nodes = sorted(
        supply.nodes_of(snapshot, group).values(), key=lambda node: (disruption_taint.of(node) is None, node.meta.key)
    )
    return [node.meta.key for node in nodes[: max(0, group.desired - group.minimum)]]
