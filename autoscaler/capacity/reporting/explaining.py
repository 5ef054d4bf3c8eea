"""Why a pod waits, and what each node group says to it. Pure.

It reads objects alone, so that anybody who may read them can ask: what pools wrote into their status stands for the
cloud.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from autoscaler import units
from autoscaler.api.resources.accounts import ProviderAccount
from autoscaler.api.resources.pools import InstancePool, NodeGroup, UnhelpfulLaunch
from autoscaler.api.resources.scopes import Scope
from autoscaler.api.settings.node_groups import NodeGroupKey
from autoscaler.capacity import messages, work
from autoscaler.capacity.indexes import pod_index
from autoscaler.capacity.model import Demand, Group, Limit, LimitKind, Reason, Rejection, Room, Situation, Template
from autoscaler.capacity.reporting import pool_status
from autoscaler.capacity.scaleup import demand, ephemeral, missed_placements, placement, supply, templates, unhelpful
from autoscaler.capacity.scaleup.limits import budgets
from autoscaler.capacity.scaleup.storage import attachments
from autoscaler.capacity.scaleup.storage import needs as storage
from autoscaler.capacity.scaleup.storage.needs import Storage
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.cloud import catalogue
from autoscaler.kube import objects, shapes

FITS = "would take it"
_USED_UP = frozenset({budgets.State.COMMITTED, budgets.State.SPENT})
_NAMED_MAX: Final = 3
_ONE_ZONE = "it waits until one zone has room on ready nodes for all pods of its owner that wait with it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known of the cluster."""

    now: float
    pod: objects.Pod
    pods: Mapping[objects.Key, objects.Pod]
    nodes: Mapping[objects.Key, objects.Node]
    namespaces: Mapping[str, Mapping[str, str]]
    pools: tuple[InstancePool, ...]
    scopes: tuple[Scope, ...]
    storage: Storage = field(default_factory=Storage)
    """Where the pod's volume claims are bound, of those that are not everywhere."""
    told: str | None = None
    """What the runtime told the pod last."""
    scheduler_said: str = ""
    """Why the scheduler found no node for it, in its own words."""
    accounts: tuple[ProviderAccount, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What one node group says to the pod."""

    key: NodeGroupKey
    group: str
    says: str
    fits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a pod waits."""

    summary: str
    scope: str = ""
    room: tuple[str, ...] = ()
    """Nodes that are there and would take it."""
    notes: tuple[str, ...] = ()
    """What else holds it back, in a person's words."""
    told: str | None = None
    """What the runtime told it last, which knows what no single pod shows: targets, and what others take."""
    verdicts: tuple[Verdict, ...] = ()


def explain(evidence: Evidence) -> Explanation:
    """Say where a pod stands and what every node group says to it."""
    pod = evidence.pod
    if (settled := _settled(pod, evidence.nodes)) is not None:
        return Explanation(summary=settled)
    snapshot = _snapshot(evidence)
    ((like, pods),) = demand.alike([pod], demand.labels_read(snapshot.indexed)).items()
    launch, groups = _unhelpful(evidence, snapshot, like), _groups(evidence)
    missed = {group.key: Rejection(reason=Reason.MISSED, what=launch.node_group) for group in groups} if launch else {}
    wanted = dataclasses.replace(demand.demands(snapshot, {like: pods})[like], missed=missed)
    situation = Situation(demands=(wanted,), groups=groups, limits=_limits(evidence), namespaces=evidence.namespaces)
    situation = attachments.limited(situation, snapshot, [pod.shape])
    verdicts = _verdicts(evidence, placement.why_not(situation, wanted))
    room, unattached = _room(snapshot, wanted)
    return Explanation(
        summary=_summary(evidence, room, verdicts),
        scope=wanted.scope,
        room=room,
        notes=(*_unhelped(launch, evidence.now), *_unattached(unattached, wanted)),
        told=evidence.told,
        verdicts=verdicts,
    )


def _settled(pod: objects.Pod, nodes: Mapping[objects.Key, objects.Node]) -> str | None:
    """Say what has become of a pod that no instance would help; None if one might."""
    owner = pod.meta.controller
    low = f"its priority {pod.priority} is below {work.PRIORITY_CUTOFF}: no instance is started for it"
    reasons = (
        (pod.meta.deleted_at is not None, "it is being deleted"),
        (pod.is_terminal, f"it has ended: {pod.phase}"),
        (bool(pod.node_name), f"it is on node {pod.node_name}{_kept(pod, nodes)}"),
        (
            bool(pod.gates) and not demand.waits_for_zone(pod),
            f"it waits behind its scheduling gates: {', '.join(pod.gates)}",
        ),
        (pod.scheduler != demand.SCHEDULER, f"it is left to its scheduler {pod.scheduler}"),
        (pod.priority < work.PRIORITY_CUTOFF, low),
        (owner is not None and owner.kind == "DaemonSet", "it belongs to a DaemonSet: it waits for its own node"),
        (bool(pod.nominated_node), f"node {pod.nominated_node} is being cleared for it"),
    )
    return next((text for holds, text in reasons if holds), None)


def _kept(pod: objects.Pod, nodes: Mapping[objects.Key, objects.Node]) -> str:
    """Say what keeps a pod, or its node, from being disrupted."""
    node = nodes.get(objects.Key("", pod.node_name))
    own, of_node = work.kept_by(pod), work.kept_by(node) if node is not None else None
    said = f"; annotation {own} keeps it there" if own else ""
    return said + (f"; annotation {of_node} keeps the node" if of_node else "")


def _summary(evidence: Evidence, room: tuple[str, ...], verdicts: tuple[Verdict, ...]) -> str:
    pod, said = evidence.pod, evidence.scheduler_said
    if demand.waits_for_zone(pod):
        return f"{_ONE_ZONE}; alone it would {_alone(room, verdicts)}"
    if pod.unschedulable_since is None:
        return "the scheduler has not looked at it yet"
    fitting = sum(verdict.fits for verdict in verdicts)
    if room and said:
        there = "1 node has" if len(room) == 1 else f"{len(room)} nodes have"
        return f"{there} room for its requests, so no instance would help; the scheduler says: {said}"
    if room:
        return f"{len(room)} nodes seem to have room for it: the scheduler should find one"
    if fitting:
        return f"no node has room for it; {fitting} of {len(verdicts)} node groups would take it"
    return f"no node has room for it, and none of {len(verdicts)} node groups takes it"


def _alone(room: tuple[str, ...], verdicts: tuple[Verdict, ...]) -> str:
    if room:
        return f"find room on {len(room)} nodes"
    return f"be taken by {sum(verdict.fits for verdict in verdicts)} of {len(verdicts)} node groups"


def _snapshot(evidence: Evidence) -> Snapshot:
    return Snapshot(
        now=evidence.now,
        pods=evidence.pods,
        indexed=pod_index.indexed(evidence.pods.values()),
        nodes=evidence.nodes,
        namespaces=evidence.namespaces,
        pools={pool.metadata.name: pool.spec for pool in evidence.pools},
        scopes={scope.metadata.name: scope.spec for scope in evidence.scopes},
        storage=evidence.storage,
        types=catalogue.bundled(),
    )


def _unhelpful(evidence: Evidence, snapshot: Snapshot, like: missed_placements.Waiting) -> UnhelpfulLaunch | None:
    """Return the launch that did not help such a pod, and is not forgotten; None if there is none."""
    launches = [each for pool in evidence.pools for each in pool.status.unhelpful_launches]
    name = unhelpful.name(snapshot, like) if launches else ""
    recent = [each for each in launches if 0 <= evidence.now - each.at.timestamp() < unhelpful.REFUSED_SECONDS]
    return max((each for each in recent if each.shape == name), key=lambda each: each.at, default=None)


def _unhelped(launch: UnhelpfulLaunch | None, now: float) -> Iterator[str]:
    if launch is not None:
        ago = now - launch.at.timestamp()
        left = unhelpful.REFUSED_SECONDS - ago
        yield (
            f"an instance of {launch.node_group} was started for such a pod, and its empty node had room and did not"
            f" take it {units.duration(int(ago))} ago, so that none is started for {units.duration(int(left))} more:"
            " see what the scheduler says of the pod, and which controller of the node keeps pods off"
        )


def _unattached(nodes: tuple[str, ...], wanted: Demand) -> Iterator[str]:
    if nodes:
        has = "1 node has" if len(nodes) == 1 else f"{len(nodes)} nodes have"
        attaches = "attaches" if len(nodes) == 1 else "attach"
        wants = ", ".join(f"{count} of {storage.driver(name)}" for name, count in sorted(wanted.attachments.items()))
        named = ", ".join(nodes[:_NAMED_MAX]) + (", …" if len(nodes) > _NAMED_MAX else "")
        yield f"{has} room for its requests and {attaches} too few volumes more for it: {named} (wants {wants})"


def _room(snapshot: Snapshot, wanted: Demand) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the nodes that would take one such pod, each looked at on its own, and those that lack volumes alone."""
    rooms = tuple(room for room in supply.rooms(snapshot) if room.free)
    here = Situation(demands=(wanted,), rooms=rooms)
    taking = {
        room.name for room in attachments.limited(here, snapshot, [wanted.shape]).rooms if _fits(room, wanted, snapshot)
    }
    bare = dataclasses.replace(wanted, attachments={})
    others = {room.name for room in rooms if wanted.attachments and _fits(room, bare, snapshot)} - taking
    return tuple(sorted(taking)), tuple(sorted(others))


def _fits(room: Room, wanted: Demand, snapshot: Snapshot) -> bool:
    alone = Situation(demands=(wanted,), rooms=(room,), namespaces=snapshot.namespaces)
    return bool(placement.place(alone).landings)


def _groups(evidence: Evidence) -> tuple[Group, ...]:
    silent = {account.metadata.name: said for account in evidence.accounts if (said := _silence(account)) is not None}
    return tuple(
        _group(pool, group, silent.get(pool.spec.provider_account))
        for pool in evidence.pools
        for group in pool.status.node_groups
        if _key(pool, group)
    )


def _silence(account: ProviderAccount) -> str | None:
    """Say since when an account has not answered; None if it does."""
    said = next((each for each in account.status.conditions if each.type == pool_status.READY), None)
    if said is None or said.status == "True":
        return None
    return f"account {account.metadata.name} has not answered since {said.last_transition_time}: {said.message}"


def _group(pool: InstancePool, group: NodeGroup, silence: str | None) -> Group:
    refused = group.reason or silence
    taints = tuple(objects.NodeTaint(taint.key, taint.value, taint.effect) for taint in group.taints)
    return Group(
        key=_required_key(pool, group),
        template=Template(
            labels=templates.completed(group.labels),
            allocatable=shapes.amounts(group.allocatable),
            taints=ephemeral.planned(taints),
        ),
        more=group.maximum - max(group.desired, group.instances),
        nodes=max(group.desired, group.instances),
        refused=Rejection(reason=Reason.STATED, message=refused) if refused else None,
    )


def _limits(evidence: Evidence) -> tuple[Limit, ...]:
    found = []
    for pool in evidence.pools:
        most = pool.spec.limits.max_active_instances
        if most is not None:
            used = pool.status.active_instances or 0
            found.append(Limit(kind=LimitKind.POOL_INSTANCES, pool=pool.metadata.name, most=most, used=used))
        found += [
            Limit(kind=LimitKind.STATED, pool=pool.metadata.name, most=0, used=0, message=each.message)
            for each in pool.status.conditions
            if each.type == pool_status.WITHIN_BUDGET and each.reason in _USED_UP
        ]
    return tuple(found)


def _verdicts(evidence: Evidence, rejections: Iterable[Rejection]) -> tuple[Verdict, ...]:
    given = list(rejections)
    everywhere = [each for each in given if not each.groups]
    by_key: dict[NodeGroupKey, list[Rejection]] = {}
    for each in given:
        for key in each.groups:
            by_key.setdefault(key, []).append(each)
    found = []
    for pool in evidence.pools:
        for group in pool.status.node_groups:
            named = _key(pool, group)
            if named is not None:
                against = by_key.get(named, []) + everywhere
                says = "; ".join(messages.rejection(each) for each in against) or FITS
                found.append(Verdict(key=named, group=group.name, says=says, fits=not against))
    return tuple(sorted(found, key=lambda verdict: (verdict.key, verdict.group)))


def _key(pool: InstancePool, group: NodeGroup) -> NodeGroupKey | None:
    return _required_key(pool, group) if group.zone and group.instance_type else None


def _required_key(pool: InstancePool, group: NodeGroup) -> NodeGroupKey:
    return NodeGroupKey.model_validate(
        {"pool": pool.metadata.name, "zone": group.zone, "instanceType": group.instance_type}
    )
