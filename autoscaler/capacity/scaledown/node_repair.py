"""Which instances are of no use any more, and must make room for others. Pure.

An instance that does not become a ready node in time, or whose node was lost and stays so, runs no work and never will.
It goes even where its group is at its minimum: then it is replaced instead of removed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from autoscaler.capacity.disruption_taint import Reason
from autoscaler.capacity.indexes import group_nodes
from autoscaler.capacity.plan import Disruption
from autoscaler.capacity.scaledown import unfinished
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.cloud import port as cloud
from autoscaler.kube import objects

LOST_SECONDS: Final = 900.0
"""A node that was ready may be away for so long."""
_Unready = list[tuple[cloud.Instance, objects.Node | None]]
AWAY_MAX: Final = 3
AWAY_PERCENT: Final = 45
"""If more than these are away at once, none of them is replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Instances that must go now, and when the next one might have to."""

    replacements: tuple[Disruption, ...] = ()
    wake_at: float | None = None
    away: int = 0
    """So many nodes are away at once that it is rather the control plane that does not see them: none is replaced."""


def nodeless_since(snapshot: Snapshot, before: Mapping[str, float]) -> dict[str, float]:
    """Return since when instances have been without the node that they had, given what was known a moment ago."""
    unready = _unready(snapshot.groups, snapshot.by_provider)
    lacking = {one.provider_id for there in unready.values() for one, node in there if node is None}
    return {one: before.get(one, snapshot.now) for one in lacking & snapshot.records.were_ready}


def choose(snapshot: Snapshot, nodeless: Mapping[str, float] | None = None) -> Choice:
    """Choose the instances that are of no use, given since when some have lost their node."""
    if snapshot.now < snapshot.settled_at:
        return Choice(wake_at=snapshot.settled_at)
    found, later = [], []
    away = _away(snapshot)
    for group in snapshot.groups:
        spare, beyond = max(0, group.desired - group.minimum), len(group.members) - group.desired
        for instance, node, reason, since, due in _useless(snapshot, group, nodeless or {}):
            if due > snapshot.now:
                later.append(due)
                continue
            if away and reason is Reason.LOST and node is not None:
                continue
            if spare <= 0 and beyond <= 0 and snapshot.is_leaving(group.key):
                continue  # another one would come for it
            found.append(
                Disruption(
                    key=group.key,
                    group=group.name,
                    instance=instance.id,
                    node=node.meta.key if node is not None else None,
                    reason=reason,
                    since=since,
                    decrement=spare > 0 and beyond <= 0,  # one that nobody asks for is not replaced
                )
            )
            spare, beyond = (spare, beyond - 1) if beyond > 0 else (spare - 1, beyond)
    return Choice(replacements=tuple(found), wake_at=min(later, default=None), away=away)


def _away(snapshot: Snapshot) -> int:
    """Count the nodes that were ready and are not; 0 if it is no more than happens.

    Nodes that somebody deleted do not count: nothing runs on them any more, whoever sees them.
    """
    known = snapshot.records.were_ready
    unready = _unready(snapshot.groups, snapshot.by_provider)
    away = sum(node is not None and one.provider_id in known for there in unready.values() for one, node in there)
    if away <= AWAY_MAX:
        return 0
    members = sum(one.provider_id in known for group in snapshot.groups for one in group.members)
    return away if away * 100 > members * AWAY_PERCENT else 0


@group_nodes.ByGroup
def _unready(there: group_nodes.GroupNodes) -> _Unready:
    """Return the members of a group that are no ready nodes, each with the node that it is."""
    return [
        (one, node)
        for one, node in zip(there.group.instances, there.nodes, strict=True)
        if (node is None or not node.ready) and one.lifecycle in cloud.COUNTING
    ]


def _useless(
    snapshot: Snapshot, group: cloud.NodeGroup, nodeless: Mapping[str, float]
) -> Iterator[tuple[cloud.Instance, objects.Node | None, Reason, float, float]]:
    """Yield instances that are no ready nodes, since when, and when that has lasted too long."""
    pool = snapshot.pools.get(group.key.pool)
    if pool is not None and pool.provider_account in snapshot.outages:
        return
    timeout = pool.registration_timeout_seconds if pool is not None else unfinished.TIMEOUT_SECONDS
    for instance, node in _unready(snapshot.groups, snapshot.by_provider)[group.name]:
        launched_at = snapshot.launched_at.get(instance.id)
        if instance.provider_id in snapshot.records.were_ready:
            gone_at = nodeless.get(instance.provider_id, snapshot.now)
            since = gone_at if node is None else node.ready_changed_at or node.meta.created_at
            yield instance, node, Reason.LOST, since, since + LOST_SECONDS
        elif launched_at is not None:
            yield instance, node, Reason.NEVER_JOINED, launched_at, launched_at + timeout
