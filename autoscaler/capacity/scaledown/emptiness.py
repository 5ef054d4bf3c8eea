"""Which instances go. Pure: idle ones, never below their group's minimum, and never one that waiting pods count on.

An instance is idle while no pod works on it; what runs on every node anyway is no work, and neither is holding room.
One whose node is not finished is on its way, and not idle; if that lasts too long, it goes at once.
Room that a machine group holds on nodes that it pulls (`provision`) keeps them beyond their time, not beyond limits.
Whoever carries this out marks the node, waits, and looks again before anything is ended.
"""

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from autoscaler.capacity import work
from autoscaler.capacity.disruption_taint import Reason
from autoscaler.capacity.indexes import group_nodes, remembered
from autoscaler.capacity.plan import Disruption
from autoscaler.capacity.scaledown import unfinished, unwanted_tags
from autoscaler.capacity.scaleup import machine_demand, supply
from autoscaler.capacity.scaleup.limits import budgets, offers
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.cloud import port as cloud
from autoscaler.kube import objects

AT_ONCE: Final = 10
SETTLE_SECONDS: Final = 5.0
"""Between marking a node and looking whether it is still empty: what was on its way there has arrived by then."""
_ONE_BY_ONE: Final = frozenset({Reason.OUTDATED, Reason.MAINTENANCE})
_REPLACED: Final = frozenset(
    {Reason.NEVER_FINISHED, Reason.OUTDATED, Reason.MAINTENANCE, Reason.INTERRUPTED, Reason.USED}
)
"""Instances that go even where their group is at its minimum: it gets others for them."""

_ENDED_ANYWAY: Final = frozenset({Reason.LEAVING, Reason.INTERRUPTED, Reason.USED, Reason.NEVER_FINISHED})
"""Instances that go even while the provider replaces instances of their group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Instances that should go now, and when the next one might."""

    removals: tuple[Disruption, ...] = ()
    wake_at: float | None = None


def idle_since(snapshot: Snapshot, before: Mapping[str, float]) -> dict[str, float]:
    """Return since when each idle node of a group has been so, given what was known a moment ago."""
    working, written = snapshot.indexed.working, snapshot.records.idle_since
    ready, sharing = _ready(_ready_of(snapshot.groups, snapshot.by_provider)), _sharing(snapshot.nodes)
    starting = unfinished.starting(snapshot)
    found = [name for name in ready if name not in working and name not in starting]  # every node there is: be quick
    idle = {name: ready[name].node.provider_id for name in found}
    return {
        name: written.get(provider_id, before.get(name, snapshot.now))
        for name, provider_id in idle.items()
        if not any(other in working for other in sharing.get(provider_id, ()))
    }


class _Spare(NamedTuple):
    """How many instances a group can do without."""

    beyond: int
    """Those that are more than its maximum, or than anybody asked for: it does not replace them, and need not ask for
    fewer."""
    above: int
    """Those that it asks for above its minimum."""

    @classmethod
    def of(cls, group: cloud.NodeGroup, unasked: int) -> "_Spare":
        beyond = len(group.members) - max(group.maximum, group.desired)
        unasked = min(unasked, len(group.members) - group.desired)
        return cls(max(0, beyond, unasked), max(0, group.desired - group.minimum))


class _Ready(NamedTuple):
    """A ready node of a group."""

    group: cloud.NodeGroup
    instance: cloud.Instance
    node: objects.Node


@group_nodes.ByGroup
def _ready_of(there: group_nodes.GroupNodes) -> dict[str, _Ready]:
    """Return the ready nodes of a group, by name."""
    return {
        node.meta.key.name: _Ready(there.group, one, node)
        for one, node in zip(there.group.instances, there.nodes, strict=True)
        if node is not None and node.ready and one.lifecycle is not cloud.Lifecycle.LEAVING
    }


@remembered.Remembered
def _ready(by_group: Mapping[cloud.GroupName, dict[str, _Ready]]) -> dict[str, _Ready]:
    """Return the ready nodes of all groups, by name."""
    ready: dict[str, _Ready] = {}
    for there in by_group.values():
        ready.update(there)
    return ready


@remembered.Remembered
def _sharing(nodes: Mapping[objects.Key, objects.Node]) -> dict[str, list[str]]:
    """Return the names of nodes that are on one instance with others, by that instance."""
    found = defaultdict[str, list[str]](list)
    for node in nodes.values():
        found[node.provider_id].append(node.meta.key.name)
    return {provider_id: names for provider_id, names in found.items() if len(names) > 1}


def choose(snapshot: Snapshot, idle: Mapping[str, float], needed: frozenset[str]) -> Choice:
    """Choose idle instances, a few at a time.

    First those that may be taken away, then those that can do what nobody asks for, then the longest idle.
    """
    unasked = snapshot.unasked
    spare = {group.name: _Spare.of(group, len(unasked.get(group.name, ()))) for group in snapshot.groups}
    early, kept = _early(snapshot), machine_demand.kept_nodes(snapshot)
    due: list[Disruption] = []
    later: list[float] = []
    for removal, at in _candidates(snapshot, idle):
        if removal.node_name in needed:
            continue
        why = _at_once(snapshot, removal)
        if removal.group in unasked and (why or removal.reason) not in _ENDED_ANYWAY:
            continue  # which of its instances go, and when, is the provider's to say just now
        if why is not None:
            due.append(dataclasses.replace(removal, reason=why))
        elif at <= snapshot.now and removal.node_name not in kept:
            due.append(removal)
        elif removal.pool in early:
            due.append(dataclasses.replace(removal, reason=early[removal.pool]))
        elif removal.node_name not in kept:
            later.append(at)
    unwanted = unwanted_tags.unwanted(snapshot, [each.node for each in due if each.node is not None])
    risky = snapshot.at_risk
    due.sort(key=lambda each: (each.instance not in risky, each.node not in unwanted, each.since, each.node_name))
    surplus = {name: budgets.excess(spec, offers.active(snapshot, name)) for name, spec in snapshot.pools.items()}
    return Choice(removals=_within(due, spare, surplus, _replacing(snapshot)), wake_at=min(later, default=None))


def _at_once(snapshot: Snapshot, removal: Disruption) -> Reason | None:
    """Return why an idle instance goes however long it has been so; None: its time must be over."""
    leaves = removal.key is not None and snapshot.is_leaving(removal.key)
    whys = (
        (leaves, Reason.LEAVING),  # the first question: what leaves is not replaced
        (removal.instance in snapshot.doomed, Reason.INTERRUPTED),
        (removal.instance in snapshot.spent, Reason.USED),
        (removal.instance in snapshot.outdated, Reason.OUTDATED),
        (removal.instance in snapshot.maintained, Reason.MAINTENANCE),
    )
    return next((why for holds, why in whys if holds), None)


def _early(snapshot: Snapshot) -> dict[str, Reason]:
    """Return the pools whose idle instances go before their time, and why."""
    spent = dict.fromkeys(budgets.spent_pools(offers.monthly(snapshot)), Reason.OVER_BUDGET)
    over = {
        name: Reason.OVER_LIMIT
        for name, spec in snapshot.pools.items()
        if budgets.excess(spec, offers.active(snapshot, name))
    }
    return {**over, **spent}


def _candidates(snapshot: Snapshot, idle: Mapping[str, float]) -> Iterable[tuple[Disruption, float]]:
    ready, useless = _ready(_ready_of(snapshot.groups, snapshot.by_provider)), unfinished.useless(snapshot)
    for name, since in idle.items() if snapshot.now >= snapshot.settled_at else ():
        there = ready.get(name)
        pool = snapshot.pools.get(there.group.key.pool) if there is not None else None
        if there is None or pool is None or there.instance.lifecycle is cloud.Lifecycle.ASIDE:
            continue
        if pool.provider_account in snapshot.outages or _is_kept(snapshot, there):
            continue
        removal = Disruption(
            key=there.group.key,
            group=there.group.name,
            instance=there.instance.id,
            node=there.node.meta.key,
            node_uid=there.node.meta.uid,
            reason=Reason.NEVER_FINISHED if name in useless else Reason.IDLE,
            since=since,
            wait_until=snapshot.marked.get(name, float("inf")) + SETTLE_SECONDS,
        )
        yield removal, since if name in useless else since + pool.limits.max_idle_seconds


def _is_kept(snapshot: Snapshot, there: _Ready) -> bool:
    """Tell whether an annotation keeps a node: not from what the provider takes away, or from the end of all pools."""
    return work.kept_by(there.node) is not None and there.instance.id not in snapshot.doomed and not snapshot.dissolving


def _replacing(snapshot: Snapshot) -> set[str]:
    """Return the pools in which a group at its minimum waits for an instance: one that was replaced, as a rule."""
    least = [group for group in snapshot.groups if group.desired <= group.minimum]
    return {group.key.pool for group in least if supply.on_the_way(snapshot, group)}


def _within(
    due: Iterable[Disruption],
    spare: Mapping[cloud.GroupName, _Spare],
    surplus: Mapping[str, int],
    replacing: Iterable[str],
) -> tuple[Disruption, ...]:
    """Keep what no group's minimum forbids, and not more than may go at once; of a surplus, no more than it is.

    Instances that are outdated or due for maintenance, of groups at their minimum, are replaced, one in a pool at a
    time: the next one only once its successor is ready, so that a template whose instances never join costs one
    instance. Spent ones go all at once.
    """
    taken: Counter[cloud.GroupName] = Counter()
    over: Counter[str] = Counter()
    replaced: Counter[str] = Counter(replacing)
    chosen: list[Disruption] = []
    for removal in due:
        if len(chosen) == AT_ONCE:
            break
        is_surplus = removal.reason is Reason.OVER_LIMIT
        if is_surplus and over[removal.pool] >= surplus.get(removal.pool, 0):
            continue
        beyond, above = spare[removal.group]
        if taken[removal.group] < beyond + above:
            taken[removal.group] += 1
            over[removal.pool] += 1
            chosen.append(dataclasses.replace(removal, decrement=taken[removal.group] > beyond))
        elif removal.reason in _REPLACED:
            if removal.reason in _ONE_BY_ONE and replaced[removal.pool]:
                continue
            replaced[removal.pool] += removal.reason in _ONE_BY_ONE
            chosen.append(dataclasses.replace(removal, decrement=False))
    return tuple(chosen)
