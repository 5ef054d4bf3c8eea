"""What a node of a group will be, before there is one. Pure.

Labels and taints are those that the group's tags promise, with those that every node has and those that a Machine
which selects it will add; start-up taints of its pool are not among them, for they go. Room is what the instance
type leaves for pods, less what DaemonSets will take of it; where an instance is for one pod alone, it is room for one.
"""

import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import Final

from autoscaler.api import keys
from autoscaler.api.resources.machines import MachineSpec
from autoscaler.api.settings.node_groups import NodeGroupKey
from autoscaler.capacity.indexes import remembered
from autoscaler.capacity.model import PODS, Template
from autoscaler.capacity.scaledown import unfinished
from autoscaler.capacity.scaleup import ephemeral, learned_allocatable, machine_nodes
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.cloud import catalogue
from autoscaler.cloud import port as cloud
from autoscaler.kube import objects, selecting, shapes, wire

_REGION: Final = re.compile(r"[a-z]+(?:-[a-z]+)+-[0-9]+")
"""How the name of a zone begins, local zones' too."""
_OLD_NAMES: Final = {
    keys.OS: keys.OS_BETA,
    keys.ARCHITECTURE: keys.ARCHITECTURE_BETA,
    keys.INSTANCE_TYPE: keys.INSTANCE_TYPE_BETA,
    keys.ZONE: keys.ZONE_BETA,
    keys.REGION: keys.REGION_BETA,
}
DERIVED: Final = frozenset({keys.REGION, *_OLD_NAMES.values()}) - {keys.ZONE_BETA}
"""Labels that follow from others, so that a status need not have them."""


def of(snapshot: Snapshot, group: cloud.NodeGroup, *, whole: bool = False) -> Template | None:
    """Return what the group's next node will be; None if nobody knows its instance type.

    `whole`: as if what was learned from nodes that are gone was not the type's fault.
    """
    kind = snapshot.types.get(group.key.instance_type)
    allocatable = learned_allocatable.offered(snapshot, group, whole=whole)
    if kind is None or allocatable is None:
        return None
    node, startup = group.node, unfinished.listed(snapshot).get(group.key.pool, ())
    if startup:
        staying = tuple(taint for taint in node.taints if not unfinished.is_listed(taint, startup))
        node = dataclasses.replace(node, taints=staying)
    return _of((group.name, whole), group.key, node, kind, allocatable, snapshot.machines, snapshot.daemons)


@remembered.RememberedEqual
def _of(  # all that a template is made from: what is remembered depends on nothing else
    _named: tuple[cloud.GroupName, bool],
    key: NodeGroupKey,
    node: cloud.NodeTemplate,
    kind: catalogue.InstanceType,
    allocatable: Mapping[str, int],
    machines: Mapping[str, MachineSpec],
    daemons: tuple[shapes.Shape, ...],
) -> Template:
    own = _labels(key, node, kind)
    coming = machine_nodes.predicted(machines, own, allocatable)
    labels = {**own, **coming.labels}
    first = (objects.NodeTaint(taint.key, taint.value, taint.effect) for taint in node.taints)
    taints = (*first, *coming.taints)
    carried = [daemon for daemon in daemons if _takes(daemon, labels, taints)]
    left = _without(allocatable, carried)
    return Template(
        labels=labels,
        allocatable={**left, PODS: min(1, left.get(PODS, 0))} if ephemeral.is_for_one(taints) else left,
        taints=ephemeral.planned(taints),
        capacity={**node.resources, **kind.capacity()},
        host_ports=frozenset((protocol, port) for daemon in carried for _, protocol, port in daemon.host_ports),
    )


def completed(labels: Mapping[str, str]) -> Mapping[str, str]:
    """Add the labels that kubelets and the cloud's controller derive from others: the region, and old names."""
    region = _REGION.match(labels.get(keys.ZONE, ""))
    named = {**({keys.REGION: region.group()} if region else {}), **labels}
    return {**{old: named[new] for new, old in _OLD_NAMES.items() if new in named}, **named}


def _labels(key: NodeGroupKey, node: cloud.NodeTemplate, kind: catalogue.InstanceType) -> Mapping[str, str]:
    own = {
        keys.OS: "linux",
        keys.ARCHITECTURE: str(kind.architecture),
        keys.INSTANCE_TYPE: key.instance_type,
        keys.ZONE: key.zone,
    }
    return completed({**own, **node.labels})


def _without(allocatable: Mapping[str, int], daemons: Iterable[shapes.Shape]) -> Mapping[str, int]:
    left = dict(allocatable)
    for daemon in daemons:
        left[PODS] = left.get(PODS, 0) - 1
        for name, amount in daemon.requests.items():
            left[name] = left.get(name, 0) - amount
    return {name: max(0, amount) for name, amount in left.items()}


def _takes(daemon: shapes.Shape, labels: Mapping[str, str], taints: tuple[objects.NodeTaint, ...]) -> bool:
    """Tell whether a DaemonSet would put a pod on such a node."""
    if any(labels.get(key) != value for key, value in daemon.node_selector.items()):
        return False
    if selecting.untolerated(taints, daemon.tolerations) is not None:
        return False
    affinity = daemon.affinity.node_affinity if daemon.affinity else None
    if affinity is None or affinity.required is None:
        return True
    return any(_meets(term, labels) for term in affinity.required.node_selector_terms)


def _meets(term: wire.NodeTerm, labels: Mapping[str, str]) -> bool:
    if term.match_fields or not term.match_expressions:
        return False
    return all(selecting.holds(each, labels.get(each.key)) for each in term.match_expressions)
