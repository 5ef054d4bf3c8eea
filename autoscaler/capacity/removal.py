"""Which instances go. Pure: idle ones, never below their group's minimum, and never one that waiting pods count on.

An instance is idle while no pod works on it; what runs on every node anyway is no work, and neither is holding room.
Room that a machine group holds on nodes that it pulls (`provision`) keeps them beyond their time, not beyond limits.
Whoever carries this out marks the node, waits, and looks again before anything is ended.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from autoscaler.capacity import accounting, budgets, machine_demand, offers, supply, wishes
from autoscaler.capacity.marks import Idle
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.cloud import port as cloud
from autoscaler.kube import objects

AT_ONCE: Final = 10
_REPLACED: Final = frozenset({Idle.OUTDATED, Idle.SPENT})
"""Instances that go even where their group is at its minimum: it gets others for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """An instance that should go."""

    pool: str
    group: cloud.GroupName
    instance: cloud.InstanceId
    node: objects.Key
    node_uid: str
    reason: Idle
    idle_since: float
    decrement: bool = True
    """False: its group is at its minimum, and gets another one for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Instances that should go now, and when the next one might."""

    removals: tuple[Removal, ...] = ()
    wake_at: float | None = None


def idle_since(snapshot: Snapshot, before: Mapping[str, float]) -> dict[str, float]:
    """Return since when each idle node of a group has been so, given what was known a moment ago."""
    busy = {
        node.provider_id
        for name in snapshot.indexed.working
        if (node := snapshot.nodes.get(objects.Key("", name))) is not None
    }
    written = {
        each.status.provider_id: each.status.idle_since.timestamp()
        for each in snapshot.instances
        if each.status.idle_since is not None and each.status.phase in accounting.LIVING
    }
    found = {}
    for group in snapshot.groups:
        for provider_id, node in supply.nodes_of(snapshot, group).items():
            name = node.meta.key.name
            if node.ready and provider_id not in busy:  # several nodes may name one instance
                found[name] = written.get(provider_id, before.get(name, snapshot.now))
    return found


def choose(snapshot: Snapshot, idle: Mapping[str, float], needed: frozenset[str]) -> Choice:
    """Choose idle instances, a few at a time: those that can do what nobody asks for, then the longest idle."""
    spare = {group.name: max(0, group.desired - group.minimum) for group in snapshot.groups}
    early, kept = _early(snapshot), machine_demand.kept_nodes(snapshot)
    due: list[Removal] = []
    later: list[float] = []
    for removal, at in _candidates(snapshot, idle):
        if removal.node.name in needed:
            continue
        if removal.pool in snapshot.leaving:  # the first question: what leaves is not replaced
            due.append(dataclasses.replace(removal, reason=Idle.LEAVING))
        elif removal.instance in snapshot.doomed:
            due.append(dataclasses.replace(removal, reason=Idle.DOOMED))
        elif removal.instance in snapshot.spent:
            due.append(dataclasses.replace(removal, reason=Idle.SPENT))
        elif removal.instance in snapshot.outdated:
            due.append(dataclasses.replace(removal, reason=Idle.OUTDATED))
        elif at <= snapshot.now and removal.node.name not in kept:
            due.append(removal)
        elif removal.pool in early:
            due.append(dataclasses.replace(removal, reason=early[removal.pool]))
        elif removal.node.name not in kept:
            later.append(at)
    unwanted = wishes.unwanted(snapshot, [each.node for each in due])
    due.sort(key=lambda each: (each.node not in unwanted, each.idle_since, each.node))
    surplus = {name: budgets.excess(spec, offers.active(snapshot, name)) for name, spec in snapshot.pools.items()}
    return Choice(removals=_within(due, spare, surplus, _replacing(snapshot)), wake_at=min(later, default=None))


def _early(snapshot: Snapshot) -> dict[str, Idle]:
    """Return the pools whose idle instances go before their time, and why."""
    spent = dict.fromkeys(budgets.spent_pools(offers.monthly(snapshot)), Idle.BUDGET_SPENT)
    over = {
        name: Idle.OVER_LIMIT
        for name, spec in snapshot.pools.items()
        if budgets.excess(spec, offers.active(snapshot, name))
    }
    return {**over, **spent}


def _candidates(snapshot: Snapshot, idle: Mapping[str, float]) -> Iterable[tuple[Removal, float]]:
    for group in snapshot.groups:
        pool = snapshot.pools.get(group.key.pool)
        nodes = supply.nodes_of(snapshot, group)
        for instance in group.members if pool is not None else ():
            node = nodes.get(instance.provider_id)
            if pool is None or node is None or node.meta.key.name not in idle:
                continue
            since = idle[node.meta.key.name]
            removal = Removal(
                pool=group.key.pool,
                group=group.name,
                instance=instance.id,
                node=node.meta.key,
                node_uid=node.meta.uid,
                reason=Idle.IDLE,
                idle_since=since,
            )
            yield removal, since + pool.limits.max_idle_seconds


def _replacing(snapshot: Snapshot) -> set[str]:
    """Return the pools in which a group at its minimum waits for an instance: one that was replaced, as a rule."""
    least = [group for group in snapshot.groups if group.desired <= group.minimum]
    return {group.key.pool for group in least if supply.on_the_way(snapshot, group)}


def _within(
    due: Iterable[Removal],
    spare: Mapping[cloud.GroupName, int],
    surplus: Mapping[str, int],
    replacing: Iterable[str],
) -> tuple[Removal, ...]:
    """Keep what no group's minimum forbids, and not more than may go at once; of a surplus, no more than it is.

    Outdated instances of groups at their minimum are replaced, one in a pool at a time: the next one only once its
    successor is ready, so that a template whose instances never join costs one instance. Spent ones go all at once.
    """
    taken: Counter[cloud.GroupName] = Counter()
    over: Counter[str] = Counter()
    replaced: Counter[str] = Counter(replacing)
    chosen: list[Removal] = []
    for removal in due:
        is_surplus = removal.reason is Idle.OVER_LIMIT
        if is_surplus and over[removal.pool] >= surplus.get(removal.pool, 0):
            continue
        if len(chosen) < AT_ONCE and taken[removal.group] < spare[removal.group]:
            taken[removal.group] += 1
            over[removal.pool] += 1
            chosen.append(removal)
        elif removal.reason in _REPLACED and len(chosen) < AT_ONCE:
            if removal.reason is Idle.OUTDATED and replaced[removal.pool]:
                continue
            replaced[removal.pool] += removal.reason is Idle.OUTDATED
            chosen.append(dataclasses.replace(removal, decrement=False))
    return tuple(chosen)
