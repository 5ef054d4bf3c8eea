"""How working instances are replaced that are outdated or due for maintenance.

Pure: it ends nothing, it says what should be drained. Idle ones go by `emptiness`. Where one works, its group gets one
instance more; once that is ready, one old node is drained, and goes when it is empty. In a pool this happens in one
group at a time, in a group with one node at a time.

All of it is read from what is there, so that whoever begins anew goes on where it was left: a node with our mark is
being drained; a new instance on its way, or ready and without work, is the one more. Only then is another one asked
for, so a group never gets more than one. What is remembered besides, for how long pods did not leave, may be forgotten.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from autoscaler.capacity import disruption_taint, messages, work
from autoscaler.capacity.model import Reason, Rejection
from autoscaler.capacity.plan import NOTHING, Disruption, Launch, Memory, Plan
from autoscaler.capacity.scaledown import drain_plan
from autoscaler.capacity.scaleup import supply, templates
from autoscaler.capacity.scaleup.limits import budgets, offers
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.cloud import port as cloud
from autoscaler.kube import objects

PATIENCE_SECONDS: Final = 900.0
"""So long may pods that are asked to leave a node stay, before it is another one's turn."""
ENDING_SECONDS: Final = 6 * 3600.0
"""The same for pods that end by themselves, and are not asked."""
REST_SECONDS: Final = 3600.0
"""So long is a node left alone that did not become empty."""
_OURS: Final = frozenset({*disruption_taint.Reason} - disruption_taint.DRAINED | {disruption_taint.Reason.REPLACED})
"""Marks that do not keep a node from being drained here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What brings the pools nearer to their launch templates."""

    surges: tuple[Launch, ...] = ()
    drains: tuple[Disruption, ...] = ()
    spares: frozenset[str] = frozenset()
    """Nodes without work that wait for what leaves others: nobody may remove them."""
    waits: Mapping[str, str] = field(default_factory=dict)
    """By pool: why it does not go on."""
    memory: Memory = NOTHING
    wake_at: float | None = None


def choose(snapshot: Snapshot, plan: Plan, memory: Memory) -> Choice:
    """Choose the next step of every pool."""
    if not (snapshot.outdated or snapshot.maintained) or snapshot.other_autoscaler is not None:
        return Choice()
    sight = _Sight(snapshot, plan, memory)
    steps = {name: _step(sight, name) for name in sorted(snapshot.pools)}
    drained = [step.drain for step in steps.values() if step.drain is not None]
    begun = {name: memory.begun.get(name, snapshot.now) for name in drained}
    postponed = {name: until for name, until in sight.postponed.items() if until > snapshot.now}
    ends = [at + sight.patience(name) for name, at in begun.items()] + list(postponed.values())
    return Choice(
        surges=tuple(step.surge for step in steps.values() if step.surge is not None),
        drains=tuple(_drain(snapshot, name) for name in drained),
        spares=frozenset(step.spare for step in steps.values() if step.spare is not None),
        waits={name: step.why for name, step in steps.items() if step.why is not None},
        memory=Memory(begun=begun, postponed=postponed),
        wake_at=min((at for at in ends if at > snapshot.now), default=None),
    )


def _drain(snapshot: Snapshot, node: str) -> Disruption:
    """Ask all pods to leave but those that end by themselves."""
    evict = tuple(pod for pod in drain_plan.leavers(snapshot, node) if not work.ends(pod))
    return Disruption(reason=disruption_taint.Reason.REPLACED, node=objects.Key("", node), evict=evict)


def outdated_of(snapshot: Snapshot, pool: str) -> int:
    """Count a pool's instances that were made from another launch template than their group has now."""
    if not snapshot.outdated:
        return 0
    return sum(
        one.id in snapshot.outdated for group in snapshot.groups if group.key.pool == pool for one in group.members
    )


def kept(snapshot: Snapshot, groups: Iterable[cloud.NodeGroup]) -> list[str]:
    """Return the outdated nodes of groups that an annotation keeps."""
    old = [one.provider_id for group in groups for one in group.members if one.id in snapshot.outdated]
    nodes = [snapshot.by_provider[provider_id] for provider_id in old if provider_id in snapshot.by_provider]
    return sorted(node.meta.key.name for node in nodes if work.kept_by(node) is not None)


def held(snapshot: Snapshot, group: cloud.NodeGroup) -> Rejection | None:
    """Return why a group cannot have one instance more just now, nor do with one less; None: it can."""
    refused = offers.refusal(snapshot, group, templates.of(snapshot, group))
    spent = [limit for limit in budgets.limits(offers.monthly(snapshot)) if limit.pool == group.key.pool]
    shared = () if _is_full(snapshot, group) else [each for each in offers.limits(snapshot) if not each.pool]
    binding = (limit for limit in (*spent, *shared) if not limit.more(_cpu_millis(snapshot, group)))
    return refused or next((Rejection(reason=Reason.LIMIT, numbers=limit) for limit in binding), None)


# The steps of a pool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    drain: str | None = None
    surge: Launch | None = None
    spare: str | None = None
    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Renewal:
    """A group with old nodes that work."""

    group: cloud.NodeGroup
    old: tuple[str, ...]
    """Their names, in the order in which they go."""
    is_draining: bool
    """The first of them carries our mark."""
    spare: str | None
    """A new node that is ready, has no work and is not about to get any."""
    fresh: str | None
    """The same, or one that will be."""
    is_coming: bool
    """An instance is on its way, waiting pods are about to take one that has come, or an old one without work goes."""


class _Sight:
    """What is looked up again and again."""

    def __init__(self, snapshot: Snapshot, plan: Plan, memory: Memory) -> None:
        self.snapshot, self.plan = snapshot, plan
        self.old = snapshot.outdated | snapshot.maintained
        by_node = snapshot.indexed.by_node
        self.pods = {name: list(filter(work.is_work, by_node[name])) for name in snapshot.indexed.working}
        self.usable = {room.name for room in supply.rooms(snapshot, with_residents=False) if room.free}
        late = [name for name, at in memory.begun.items() if at + self.patience(name) <= snapshot.now]
        tired = {name: snapshot.now + REST_SECONDS for name in late if name in self.pods}
        self.postponed = {**memory.postponed, **tired}

    def patience(self, node: str) -> float:
        """Return how long a node may take to become empty."""
        return PATIENCE_SECONDS if any(map(_must_leave, self.pods.get(node, ()))) else ENDING_SECONDS

    def may_need_room(self, node: str) -> bool:
        """Tell whether pods leave or have just left a node; those that end by themselves need no other place."""
        pods = self.pods.get(node, ())
        return not pods or any(map(_must_leave, pods))

    def is_resting(self, node: str) -> bool:
        return self.postponed.get(node, 0.0) > self.snapshot.now


def _step(sight: _Sight, pool: str) -> _Step:
    spec = sight.snapshot.pools[pool]
    if spec.ephemeral or pool in sight.snapshot.leaving:
        return _Step()  # their instances go soon anyway
    staying = [group for group in sight.snapshot.groups if group.key not in sight.snapshot.leaving_groups]
    own = [group for group in staying if group.key.pool == pool]
    renewals = sorted(
        (each for each in (_renewal(sight, group) for group in own) if each.old),
        key=lambda each: (not each.is_draining, each.spare is None and not each.is_coming, each.group.name),
    )
    if not renewals:
        return _Step()
    first = renewals[0]
    if first.is_draining:
        return _Step(drain=first.old[0], spare=first.spare if sight.may_need_room(first.old[0]) else None)
    if first.spare is not None:
        return _Step(drain=first.old[0], spare=first.spare)
    if first.is_coming:
        return _Step(spare=first.fresh, why=f"an instance of {first.group.name} is on its way")
    return _begin(sight, renewals)


def _begin(sight: _Sight, renewals: Iterable[_Renewal]) -> _Step:
    """Give the first group that may have it one instance more; one that is full must do with one less for a while."""
    if sight.plan.launches:
        return _Step(why="waiting pods come first")
    whys = []
    for each in renewals:
        why = held(sight.snapshot, each.group)
        if each.group.name in sight.snapshot.unasked:
            whys.append(f"the provider itself replaces instances of {each.group.name}")
        elif why is not None:
            whys.append(messages.lasting(why))
        elif _is_full(sight.snapshot, each.group):
            return _Step(drain=each.old[0])
        else:
            return _Step(surge=_one_more(each.group))
    return _Step(why=whys[0])


def _renewal(sight: _Sight, group: cloud.NodeGroup) -> _Renewal:
    snapshot = sight.snapshot
    nodes = supply.nodes_of(snapshot, group)
    there = [(one.id in sight.old, nodes[one.provider_id]) for one in group.members if one.provider_id in nodes]
    old = [node for is_old, node in there if is_old and _is_next(sight, node)]
    old.sort(key=lambda node: _order(sight, node))
    new = [node.meta.key.name for is_old, node in there if not is_old and node.meta.key.name not in sight.pods]
    idle = [node for is_old, node in there if is_old and node.ready and node.meta.key.name not in sight.pods]
    going = [node for node in idle if work.kept_by(node) is None]
    spares = sorted(name for name in new if name in sight.usable)
    free = [name for name in spares if name not in sight.plan.needed]
    return _Renewal(
        group=group,
        old=tuple(node.meta.key.name for node in old),
        is_draining=bool(old) and disruption_taint.of(old[0]) == disruption_taint.Reason.REPLACED,
        spare=next(iter(free), None),
        fresh=next(iter(free or spares or sorted(new)), None),
        is_coming=supply.on_the_way(snapshot, group) > 0 or len(spares) > len(free) or bool(going),
    )


def _is_next(sight: _Sight, node: objects.Node) -> bool:
    """Tell whether an old node should be drained: it works, or was drained already and only waits for its end."""
    name, mark = node.meta.key.name, disruption_taint.of(node)
    if not node.ready or sight.is_resting(name) or work.kept_by(node) is not None:
        return False
    return mark == disruption_taint.Reason.REPLACED or (name in sight.pods and (mark is None or mark in _OURS))


def _order(sight: _Sight, node: objects.Node) -> tuple[bool, bool, int, str]:
    """Go on with what has begun; then nodes that can become empty, those with the least work first."""
    pods = sight.pods.get(node.meta.key.name, ())
    bound = any(map(_stays, filter(_must_leave, pods)))
    return disruption_taint.of(node) != disruption_taint.Reason.REPLACED, bound, len(pods), node.meta.key.name


def _stays(pod: objects.Pod) -> bool:
    return pod.meta.annotations.get(objects.SAFE_TO_EVICT) == "false" or work.kept_by(pod) is not None


def _must_leave(pod: objects.Pod) -> bool:
    return work.is_work(pod) and not work.ends(pod)


# One instance more


def _one_more(group: cloud.NodeGroup) -> Launch:
    size = offers.size(group)
    return Launch(key=group.key, group=group.name, before=size, after=size + 1, maximum=group.maximum)


def _is_full(snapshot: Snapshot, group: cloud.NodeGroup) -> bool:
    """Tell whether a group, or its pool, has as many instances as it may."""
    most = snapshot.pools[group.key.pool].limits.max_active_instances
    return offers.size(group) >= group.maximum or (most is not None and offers.active(snapshot, group.key.pool) >= most)


def _cpu_millis(snapshot: Snapshot, group: cloud.NodeGroup) -> int:
    return snapshot.types[group.key.instance_type].vcpus * 1000
