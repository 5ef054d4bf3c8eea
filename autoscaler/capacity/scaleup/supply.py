"""What is there already, and what is on its way. Pure: only what does not fit here is new demand.

An instance is on its way from the moment it was asked for until its node is ready and offers all that its template
promised, but not for ever: after its pool's registration timeout it counts no more. One that is for one pod alone is
room for one, and where it is kept for somebody, for that pod only.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

from autoscaler.api import keys
from autoscaler.api.resources.machines import MachineSpec
from autoscaler.capacity import disruption_taint, work
from autoscaler.capacity.indexes import group_nodes, remembered
from autoscaler.capacity.model import PODS, Asked, Resident, Room
from autoscaler.capacity.scaledown import unfinished
from autoscaler.capacity.scaleup import ephemeral, learned_allocatable, machine_nodes, templates
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.cloud import port as cloud
from autoscaler.kube import objects


def rooms(snapshot: Snapshot, *, with_residents: bool = True) -> tuple[Room, ...]:
    """Return all nodes with what is free on them; nothing is free on one that takes no pods now.

    Who is there matters only where rules between pods do, and takes a while to tell.
    """
    useless = {node.meta.key for group in snapshot.groups for node in unfinished.coming(snapshot, group)}
    useless |= {node.meta.key for node in _ending(snapshot.groups, snapshot.nodes)}
    there, nobody = snapshot.indexed.by_node, ()
    return _rooms(
        (
            node.meta.key.name,
            node,
            there.get(node.meta.key.name, nobody),
            snapshot.machines or None,
            node.meta.key not in useless,
            with_residents,
        )
        for node in snapshot.nodes.values()
    )


@remembered.RememberedEach
def _rooms(
    name: str,
    node: objects.Node,
    there: Iterable[objects.Pod],
    machines: Mapping[str, MachineSpec] | None,
    is_useful: bool,  # noqa: FBT001  # this and the next are compared as things are
    with_residents: bool,  # noqa: FBT001
) -> Room:
    pods = [pod for pod in there if not pod.is_terminal]
    labels = node.meta.labels
    coming = machine_nodes.predicted(machines or {}, labels, node.allocatable, name=name)
    staying = (taint for taint in node.taints if taint.key != keys.REMOVING)
    return Room(
        name=name,
        labels={**labels, **coming.labels} if coming.labels else labels,
        free=_free(node, pods) if is_useful and is_usable(node) else {},
        taints=ephemeral.planned((*staying, *coming.taints)),
        residents=_residents(pods) if with_residents else (),
        is_idle=not any(map(work.is_work, pods)),
    )


def asked(snapshot: Snapshot) -> tuple[Asked, ...]:
    """Return the nodes that were asked for and are not there yet, by group."""
    found = []
    for group in snapshot.groups:
        nodes = on_the_way(snapshot, group)
        learned = snapshot.learned.get(learned_allocatable.kind_of(group))
        template = templates.of(snapshot, group, whole=learned is not None and learned.is_tried)
        if nodes and template is not None:
            found.append(Asked(key=group.key, template=template, nodes=nodes))
    return tuple(found)


def on_the_way(snapshot: Snapshot, group: cloud.NodeGroup) -> int:
    """Count a group's instances that are asked for, start, or have registered and are not ready yet."""
    return len(launch_times(snapshot, group))


def launch_times(snapshot: Snapshot, group: cloud.NodeGroup) -> list[float]:
    """Return when the instances were launched that are on the way, the first one first; now if nobody knows."""
    nodeless, strangers = _nodeless(snapshot.groups, snapshot.by_provider)[group.name]
    were_ready = snapshot.records.were_ready  # one that was a node and is none any more does not come again
    starting = [one for provider_id, one in nodeless.items() if provider_id not in were_ready]
    lacking = max(0, group.desired - len(group.members) - strangers)
    unlaunched = 0 if group.name in snapshot.overdue else lacking
    registered = {node.provider_id for node in unfinished.coming(snapshot, group)}
    unready = [one.id for one in group.instances if one.provider_id in registered] if registered else []
    times = sorted(snapshot.launched_at.get(one, snapshot.now) for one in (*starting, *unready))
    return [*times, *[snapshot.now] * unlaunched]


@group_nodes.ByGroup
def _nodeless(there: group_nodes.GroupNodes) -> tuple[Mapping[str, cloud.InstanceId], int]:
    """Return the members of a group that have no node, and how many instances with nodes are no members."""
    members = {one.provider_id: one.id for one in there.group.members}
    nodes = {one.provider_id for one, _ in _staying(there)}
    return {key: one for key, one in members.items() if key not in nodes}, len(nodes - members.keys())


def nodes_of(snapshot: Snapshot, group: cloud.NodeGroup) -> dict[str, objects.Node]:
    """Return the nodes of a group's instances, by provider id; those that are about to be gone are not among them."""
    return _nodes_of(snapshot.groups, snapshot.by_provider)[group.name]


@group_nodes.ByGroup
def _nodes_of(there: group_nodes.GroupNodes) -> dict[str, objects.Node]:
    return {one.provider_id: node for one, node in _staying(there)}


def _staying(there: group_nodes.GroupNodes) -> Iterator[tuple[cloud.Instance, objects.Node]]:
    for one, node in zip(there.group.instances, there.nodes, strict=True):
        if one.lifecycle is not cloud.Lifecycle.LEAVING and node is not None:
            yield one, node


def is_usable(node: objects.Node) -> bool:
    """Tell whether the scheduler would use a node. One that we marked as idle would be spared if it were needed."""
    return node.ready and not node.unschedulable and not disruption_taint.is_drained(node)


@remembered.Remembered
def _ending(groups: Iterable[cloud.NodeGroup], nodes: Mapping[objects.Key, objects.Node]) -> list[objects.Node]:
    """Return nodes whose instances are about to be gone, or that we marked and that are nobody's any more."""
    staying = {one.provider_id for group in groups for one in group.members}
    leaving = {one.provider_id for group in groups for one in group.instances} - staying
    return [
        node
        for node in nodes.values()
        if node.provider_id in leaving or (disruption_taint.of(node) is not None and node.provider_id not in staying)
    ]


def pods_on(snapshot: Snapshot, node: str) -> list[objects.Pod]:
    """Return the pods that hold room on a node: those that are bound or nominated to it."""
    return [pod for pod in snapshot.indexed.by_node.get(node, ()) if not pod.is_terminal]


def _free(node: objects.Node, pods: Collection[objects.Pod]) -> Mapping[str, int]:
    free = dict(node.allocatable)
    for pod in pods:
        free[PODS] = free.get(PODS, 0) - 1
        for name, amount in pod.shape.requests.items():
            if name in free:
                free[name] -= amount
    if ephemeral.is_for_one(node.taints):
        free[PODS] = min(free.get(PODS, 0), 1 - sum(map(ephemeral.is_request, pods)))
    return free


def _residents(pods: Iterable[objects.Pod]) -> tuple[Resident, ...]:
    return tuple(
        Resident(namespace=pod.meta.key.namespace, labels=pod.meta.labels, shape=pod.shape)
        for pod in pods
        if pod.meta.deleted_at is None
    )
