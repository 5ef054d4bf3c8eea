"""Which nodes take no more pods, and which of their pods should leave. Pure; outdated ones are `drift`'s."""

from collections.abc import Collection, Iterator

from autoscaler.api import keys
from autoscaler.capacity import disruption_taint, work
from autoscaler.capacity.disruption_taint import Reason
from autoscaler.capacity.plan import Disruption
from autoscaler.capacity.records import instance_records
from autoscaler.capacity.scaledown import budget_cordon, pool_teardown
from autoscaler.capacity.scaleup import ephemeral
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.kube import objects


def choose(snapshot: Snapshot) -> tuple[Disruption, ...]:
    """Choose the nodes: those that the provider takes, of pools that leave, of used budgets, and used ones."""
    return (*_interrupted(snapshot), *_emptied(snapshot), *_closed(snapshot), *_used(snapshot))


def spared(snapshot: Snapshot, going: Collection[str]) -> tuple[objects.Node, ...]:
    """Return the nodes whose mark must come off: a pod came, they are needed, or who marked them is gone.

    A node whose instance ends already keeps it, for nothing may go there any more; so does one that the provider takes
    away, until it is known not to have done so, and one that is replaced, while nobody can tell whether it must be.
    """
    ours = (*disruption_taint.marked(snapshot.nodes), *disruption_taint.half_marked(snapshot.nodes))
    marked = [node for node in ours if node.meta.key.name not in going]
    found = [node for node in marked if disruption_taint.of(node) != Reason.INTERRUPTED or _is_left(snapshot, node)]
    if not found:
        return ()
    members = {one.provider_id for group in snapshot.groups for one in group.members}
    kept = [
        node
        for node in found
        if node.provider_id in snapshot.unsure and disruption_taint.of(node) in {Reason.REPLACED, ""}
    ]
    return tuple(node for node in found if node.provider_id in members and node not in kept)


def _is_left(snapshot: Snapshot, node: objects.Node) -> bool:
    """Tell whether the time is over at which the provider was to take an instance away, or restart it."""
    is_dated = not {keys.INTERRUPTED_AT, keys.MAINTENANCE_AT}.isdisjoint(node.meta.annotations)
    return is_dated and instance_records.instance_id(node.provider_id) not in snapshot.doomed


def leavers(snapshot: Snapshot, node: str, only: Collection[str] | None = None) -> tuple[objects.Pod, ...]:
    """Return the pods that are on a node, may leave it and were not asked to yet, of all or of these UIDs."""
    asked = [pod for pod in _there(snapshot, node) if only is None or pod.meta.uid in only]
    return tuple(pod for pod in asked if work.kept_by(pod) is None)


def _there(snapshot: Snapshot, node: str) -> list[objects.Pod]:
    return [pod for pod in snapshot.indexed.by_node.get(node, ()) if pod.node_name == node and work.may_leave(pod)]


def _interrupted(snapshot: Snapshot) -> Iterator[Disruption]:
    for node in snapshot.nodes.values() if snapshot.doomed else ():
        if instance_records.instance_id(node.provider_id) in snapshot.doomed:
            evict = tuple(_there(snapshot, node.meta.key.name))  # no annotation keeps what the provider takes
            yield Disruption(reason=Reason.INTERRUPTED, node=node.meta.key, evict=evict)


def _emptied(snapshot: Snapshot) -> Iterator[Disruption]:
    for each in pool_teardown.emptied(snapshot):
        evict = leavers(snapshot, each.node.name, each.asked)
        yield Disruption(reason=Reason.EMPTIED, node=each.node, evict=evict)


def _closed(snapshot: Snapshot) -> Iterator[Disruption]:
    for node in budget_cordon.closed(snapshot):
        yield Disruption(reason=Reason.CLOSED, node=node)


def _used(snapshot: Snapshot) -> Iterator[Disruption]:
    """Yield the used instances that something keeps which could be anywhere."""
    for node, pods in ephemeral.leftovers(snapshot).items():
        if work.kept_by(snapshot.nodes[node]) is not None:
            continue
        yield Disruption(reason=Reason.USED, node=node, evict=leavers(snapshot, node.name, pods))
