"""Which pods get one node to see whether their instance type offers more than was learned of it. Pure.

What was learned from nodes that are gone may have been their fault alone, such as a broken device. A pod that only this
refuses gets one node, one for each kind of nodes, when its time has come; whatever comes of it is learned again.
"""

import dataclasses
from collections.abc import Sequence
from typing import Final

from autoscaler.api.settings.node_groups import NodeGroupKey
from autoscaler.capacity.model import Group, Placement, Policy, Reason, Situation
from autoscaler.capacity.plan import Unserved
from autoscaler.capacity.scaleup import demand, learned_allocatable, supply, templates
from autoscaler.capacity.scaleup.scopes import scope_targets
from autoscaler.capacity.snapshot import NodeKind, Snapshot
from autoscaler.cloud import port as cloud

PODS_MAX: Final = 32
"""So many kinds of pods are looked at in one plan."""


def choose(
    snapshot: Snapshot, situation: Situation, unserved: Sequence[Unserved], policy: Policy
) -> scope_targets.Rationed | None:
    """Place one pod of each kind that was refused, as if due node groups offered all that their type has."""
    due = _due(snapshot)
    groups = {group.key: group for group in (_whole(snapshot, due, each) for each in situation.groups) if group}
    pods = [each.pods[0] for each in unserved if groups and _is_only_learned(each, groups)][:PODS_MAX]
    if not pods:
        return None
    found = demand.alike(pods, demand.labels_read(snapshot.indexed))
    made = {each: tuple(found[like]) for like, each in demand.demands(snapshot, found).items()}
    alone = dataclasses.replace(situation, demands=tuple(made), groups=tuple(groups.values()))
    rationed = scope_targets.place(snapshot, alone, made, policy)
    first = {learned_allocatable.kind_of(due[each.key]): each for each in reversed(rationed.placed.launches)}
    launches = tuple(dataclasses.replace(each, nodes=1) for each in first.values())
    return dataclasses.replace(rationed, placed=Placement(launches=launches)) if launches else None


def _due(snapshot: Snapshot) -> dict[NodeGroupKey, cloud.NodeGroup]:
    """Return the groups of kinds that may be tried, of which nothing is on its way that would tell."""
    kinds = {kind for kind, each in snapshot.learned.items() if each.retry_at and each.retry_at <= snapshot.now}
    groups = [group for group in snapshot.groups if learned_allocatable.kind_of(group) in kinds] if kinds else []
    busy: set[NodeKind] = {learned_allocatable.kind_of(group) for group in groups if supply.on_the_way(snapshot, group)}
    return {group.key: group for group in groups if learned_allocatable.kind_of(group) not in busy}


def _whole(snapshot: Snapshot, due: dict[NodeGroupKey, cloud.NodeGroup], group: Group) -> Group | None:
    """Return a due group with nodes as the type promises them, one more at most."""
    template = templates.of(snapshot, due[group.key], whole=True) if group.key in due else None
    return dataclasses.replace(group, template=template, more=min(1, group.more)) if template is not None else None


def _is_only_learned(each: Unserved, groups: dict[NodeGroupKey, Group]) -> bool:
    """Tell whether a due group refuses pods for something of which its type has enough."""
    return any(
        why.reason is Reason.INSUFFICIENT
        and why.wanted is not None
        and any(key in groups and groups[key].template.allocatable.get(why.what, 0) >= why.wanted for key in why.groups)
        for why in each.rejections
    )
