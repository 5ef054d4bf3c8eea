"""What nodes of a group really offer, where that is not what their type promises. Pure.

The least of the group's nodes counts, and a device only once it has appeared. It belongs to the launch template: nodes
of another one teach nothing, and a new template is a new beginning. It is kept in the pool's status, so that a group
whose nodes are all gone is not planned from the catalogue again by whoever leads next.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from autoscaler.api.resources.pools import InstancePool
from autoscaler.api.settings.node_groups import NodeGroupKey
from autoscaler.capacity.indexes import group_nodes, remembered
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.cloud import port as cloud
from autoscaler.kube import shapes


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What nodes of one launch template offered at least."""

    template_hash: str | None
    """None where nobody can tell later whether the template is still the same: then it is not kept in status."""
    amounts: Mapping[str, int]


Known = Mapping[NodeGroupKey, Learned]


def template_hash(group: cloud.NodeGroup) -> str | None:
    """Name what a group's next node is made from: a numbered version of its template, which never changes, and tags."""
    if group.template is None or not group.template.version.isdecimal():
        return None
    return _template_hash(group.name, group.key.instance_type, group.template, group.node)


@remembered.RememberedEqual
def _template_hash(
    _name: cloud.GroupName, instance_type: str, template: cloud.TemplateRef, node: cloud.NodeTemplate
) -> str:
    taints = [taint.model_dump(mode="json") for taint in node.taints]
    said = [
        instance_type,
        template.id,
        template.version,
        sorted(node.labels.items()),
        taints,
        sorted(node.resources.items()),
    ]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:32]


def recall(
    known: Known, pools: Iterable[InstancePool], groups: Collection[cloud.NodeGroup]
) -> dict[NodeGroupKey, Learned]:
    """Forget what is of another template, and add what pools wrote down about groups of which nothing is known."""
    hashes = _hashes(groups)
    recalled = {
        group.key: known[group.key]
        for group in groups
        if group.key in known and known[group.key].template_hash == hashes[group.name]
    }
    unknown = {group.name: group for group in groups if group.key not in recalled}
    for pool in pools if unknown else ():
        for written in pool.status.node_groups:
            group = unknown.get(cloud.GroupName(written.name))
            if group is not None and written.learned and written.template_hash == hashes[group.name]:
                amounts = shapes.amounts(written.learned)
                recalled[group.key] = Learned(template_hash=written.template_hash, amounts=amounts)
    return recalled


def learn(known: Known, snapshot: Snapshot) -> dict[NodeGroupKey, Learned]:
    """Return what nodes of each group offer: the least of those that are there, or what others offered before."""
    learned, hashes = {}, _hashes(snapshot.groups)
    offered = _offered(snapshot.groups, snapshot.by_provider, snapshot.outdated)
    for group in snapshot.groups:
        before, least = known.get(group.key), offered[group.name]
        if least is not None:
            learned[group.key] = Learned(template_hash=hashes[group.name], amounts=least)
        elif before is not None and before.template_hash == hashes[group.name]:
            learned[group.key] = before
    return learned


def offered(learned: Mapping[NodeGroupKey, Mapping[str, int]], key: NodeGroupKey) -> Mapping[str, int]:
    """Return what nodes of a group offer, or as long as it had none, those of its type in other zones of its pool."""
    return learned.get(key) or _by_type(learned).get((key.pool, key.instance_type), {})


def amounts(known: Known) -> dict[NodeGroupKey, Mapping[str, int]]:
    """Return the amounts alone."""
    return {key: learned.amounts for key, learned in known.items()}


@remembered.Remembered
def _by_type(learned: Mapping[NodeGroupKey, Mapping[str, int]]) -> dict[tuple[str, str], dict[str, int]]:
    found: dict[tuple[str, str], list[Mapping[str, int]]] = {}
    for key, each in learned.items():
        found.setdefault((key.pool, key.instance_type), []).append(each)
    return {kind: _least(there) for kind, there in found.items()}


@remembered.Remembered
def _hashes(groups: Iterable[cloud.NodeGroup]) -> dict[cloud.GroupName, str | None]:
    return {group.name: template_hash(group) for group in groups}


@group_nodes.ByGroup
def _offered(there: group_nodes.GroupNodes, outdated: Collection[cloud.InstanceId]) -> dict[str, int] | None:
    """Return the least that ready nodes of a group offer, of those that are not outdated; None if there is none."""
    ready = [
        node.allocatable
        for one, node in zip(there.group.instances, there.nodes, strict=True)
        if one.id not in outdated and node is not None and node.ready
    ]
    return _least(ready) if ready else None


def _least(offered: Sequence[Mapping[str, int]]) -> dict[str, int]:
    names = set.intersection(*(set(each) for each in offered))
    least = {name: min(each[name] for each in offered) for name in names}
    return {name: amount for name, amount in least.items() if amount or "/" not in name}
