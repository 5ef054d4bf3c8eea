"""Instances that are for one pod each: where each of them stands, and who gets those that are free. Pure.

A taint on the node is the whole record. `none` says that nothing has worked there; a pod's UID says that this pod may,
or did. Kept here: the value goes from one pod back to `none` only where that pod is known never to have been there and
never to come. What nobody can know counts as spent, so that no instance ever serves two.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from autoscaler.api import keys
from autoscaler.capacity import work
from autoscaler.capacity.records import instance_records
from autoscaler.capacity.scaleup import demand
from autoscaler.capacity.scaleup.missed_placements import Landed
from autoscaler.capacity.snapshot import Snapshot, Stand, Standing
from autoscaler.cloud import port as cloud
from autoscaler.kube import objects, selecting, shapes

FREE_TAINT: Final = objects.NodeTaint(keys.RESERVED_FOR, keys.RESERVED_FOR_NONE, "NoSchedule")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """An instance, and the pod that gets it."""

    node: objects.Node
    pod: objects.Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """An instance whose taint is to say something else."""

    node: objects.Node
    kept_for: str
    """A pod's UID, or `none`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be done about instances that are for one pod each, in this order."""

    asked: tuple[objects.Pod, ...] = ()
    """Pods that are gone: whether they ever were on their instance is asked of the API server."""
    corrected: tuple[Correction, ...] = ()
    let_on: tuple[Claim, ...] = ()
    """Pods that have an instance and do not tolerate its taint yet."""
    given: tuple[Claim, ...] = ()
    """Pods that get one."""


NOTHING: Final = Plan()


def holder(node: objects.Node) -> str | None:
    """Return whom an instance is kept for; None if it is not for one pod alone."""
    return next((taint.value for taint in node.taints if taint.key == keys.RESERVED_FOR), None)


def without_unclaimed(landed: Landed, nodes: Mapping[objects.Key, objects.Node]) -> Landed:
    """Return on which nodes there is room for whom, without those that take nobody until we keep them for a pod."""
    rooms = {room for these in landed.values() for room in these}
    there = {room: node for room in rooms if (node := nodes.get(objects.Key("", room))) is not None}
    unclaimed = {room for room, node in there.items() if holder(node) == keys.RESERVED_FOR_NONE}
    return {like: these - unclaimed for like, these in landed.items()} if unclaimed else landed


def freed(node: objects.Node) -> objects.Node:
    """Return a node as it is once it is kept for nobody."""
    taints = (FREE_TAINT if taint.key == keys.RESERVED_FOR else taint for taint in node.taints)
    return msgspec.structs.replace(node, taints=tuple(taints))


def planned(taints: Iterable[objects.NodeTaint]) -> tuple[objects.NodeTaint, ...]:
    """Return the taints that matter to who may come: a free instance is open to all, since it is kept for whom we say.

    One that is kept for somebody is for that pod alone, and stays so when it is spent.
    """
    return tuple(taint for taint in taints if taint[:2] != FREE_TAINT[:2])


def is_for_one(taints: Iterable[objects.NodeTaint]) -> bool:
    """Tell whether such a node takes one pod alone."""
    return any(taint.key == keys.RESERVED_FOR for taint in taints)


def is_request(pod: objects.Pod) -> bool:
    """Tell whether a pod uses an instance up: all work but what goes to every node anyway."""
    return work.is_work(pod) and not _goes_anywhere(pod.shape)


def has_toleration(pod: objects.Pod) -> bool:
    """Tell whether a pod may go to an instance that is kept for it."""
    own = objects.NodeTaint(keys.RESERVED_FOR, pod.meta.uid, "NoSchedule")
    return selecting.untolerated((own,), pod.shape.tolerations) is None


def stands(
    nodes: Iterable[objects.Node], pods: Iterable[objects.Pod], never_bound: frozenset[str] = frozenset()
) -> tuple[Stand, ...]:
    """Say where each instance for one pod stands, given the UIDs of pods that are gone and never had a node."""
    kept = {node.meta.key.name: node for node in nodes if holder(node) is not None}
    if not kept:
        return ()
    holders = {holder(node) for node in kept.values()}
    by_uid: dict[str, objects.Pod] = {}
    there: dict[str, list[objects.Pod]] = {}
    for pod in pods:
        if pod.meta.uid in holders:
            by_uid[pod.meta.uid] = pod
        if pod.node_name in kept and is_request(pod):
            there.setdefault(pod.node_name, []).append(pod)
    return tuple(_stand(node, by_uid, there.get(name, ()), never_bound) for name, node in sorted(kept.items()))


def _stand(
    node: objects.Node, by_uid: Mapping[str, objects.Pod], there: Iterable[objects.Pod], never_bound: frozenset[str]
) -> Stand:
    uid = holder(node) or ""
    pod = by_uid.get(uid)
    standing = _standing(node, uid, pod, never_bound)
    if standing not in {Standing.BUSY, Standing.SPENT}:
        stranger = min(there, key=_age, default=None)
        if stranger is not None:
            return Stand(node=node, holder=uid, standing=Standing.TAKEN, pod=stranger)
    return Stand(node=node, holder=uid, standing=standing, pod=pod)


def _standing(node: objects.Node, uid: str, pod: objects.Pod | None, never_bound: frozenset[str]) -> Standing:
    if uid == keys.RESERVED_FOR_NONE:
        return Standing.FREE
    if pod is None:
        return Standing.VACANT if uid in never_bound else Standing.SPENT
    if pod.node_name == node.meta.key.name:
        return Standing.SPENT if pod.is_terminal else Standing.BUSY
    will_not_come = pod.node_name or pod.meta.deleted_at is not None or pod.is_terminal  # nobody binds such a pod
    return Standing.VACANT if will_not_come else Standing.HELD


def doubted(seen: Iterable[Stand], unbound: Mapping[str, objects.Pod]) -> tuple[Stand, ...]:
    """Return where instances stand, given pods as they were when last seen without a node: those can be asked about."""
    return tuple(
        replace(each, standing=Standing.DOUBTED, pod=unbound[each.holder])
        if each.standing is Standing.SPENT and each.pod is None and each.holder in unbound
        else each
        for each in seen
    )


def spent(seen: Iterable[Stand]) -> frozenset[cloud.InstanceId]:
    """Return the instances that have had their pod, or may have had it; not those that somebody is asked about."""
    used = [each.node for each in seen if each.standing is Standing.SPENT]
    return frozenset(instance_records.instance_id(node.provider_id) for node in used)


def vacated(seen: Iterable[Stand]) -> list[objects.Node]:
    """Return the nodes whose pods will not come, as they are once they are free again."""
    return [freed(each.node) for each in seen if each.standing is Standing.VACANT]


def decide(snapshot: Snapshot, landed: Landed) -> Plan:
    """Plan what is found out, what goes back, who is let onto the instance that is kept for it, and who gets one.

    Launches count on it: what will be free is room, and a pod that has an instance needs no other.
    """
    if not snapshot.stands:
        return NOTHING
    return Plan(
        asked=tuple(each.pod for each in snapshot.stands if each.standing is Standing.DOUBTED and each.pod is not None),
        corrected=tuple(_corrected(snapshot.stands)),
        let_on=tuple(promised(snapshot.stands)),
        given=_given(snapshot, landed),
    )


def _corrected(seen: Iterable[Stand]) -> Iterator[Correction]:
    """Yield how taints follow what became of instances."""
    for each in seen:
        if each.standing is Standing.TAKEN and each.pod is not None:
            yield Correction(node=each.node, kept_for=each.pod.meta.uid)
        elif each.standing is Standing.VACANT:
            yield Correction(node=each.node, kept_for=keys.RESERVED_FOR_NONE)


def _given(snapshot: Snapshot, landed: Landed) -> tuple[Claim, ...]:
    """Give what is free, or will be, to pods that the plan expects there, the oldest first; one instance, one pod."""
    open_to_all = [each.node for each in snapshot.stands if each.standing in {Standing.FREE, Standing.VACANT}]
    free = {node.meta.key.name: freed(node) for node in open_to_all}
    if not free or not landed:
        return ()
    waiting = demand.waiting(snapshot.indexed)
    found = []
    for like, rooms in landed.items():
        if _goes_anywhere(like.shape):
            continue
        pods = sorted(waiting.get(like, ()), key=_age)
        for name, pod in zip(sorted(rooms & free.keys()), pods, strict=False):
            found.append(Claim(node=free.pop(name), pod=pod))
    return tuple(found)


def promised(seen: Iterable[Stand]) -> Iterator[Claim]:
    """Yield the instances that are kept for pods which cannot go there yet, for want of a toleration."""
    for each in seen:
        if each.standing is Standing.HELD and each.pod is not None and not has_toleration(each.pod):
            yield Claim(node=each.node, pod=each.pod)


def leftovers(snapshot: Snapshot) -> dict[objects.Key, frozenset[str]]:
    """Return the spent instances on which something is left that goes to every node, and the UIDs of those pods.

    They must go on elsewhere, or the instance would stay for them. What would not, ends there by itself.
    """
    if not snapshot.spent:
        return {}
    spent = {
        node.meta.key.name: node.meta.key
        for group in snapshot.groups
        for one in group.members
        if one.id in snapshot.spent and (node := snapshot.by_provider.get(one.provider_id)) is not None
    }
    found: dict[objects.Key, set[str]] = {}
    for pod in snapshot.pods.values():
        if pod.node_name in spent and work.is_work(pod) and not is_request(pod) and not work.ends(pod):
            found.setdefault(spent[pod.node_name], set()).add(pod.meta.uid)
    return {key: frozenset(uids) for key, uids in found.items()}


def _goes_anywhere(shape: shapes.Shape) -> bool:
    """Tell whether a pod goes to free instances without our doing: what tolerates everything runs the cluster."""
    return selecting.untolerated((FREE_TAINT,), shape.tolerations) is None


def _age(pod: objects.Pod) -> tuple[float, objects.Key]:
    return pod.meta.created_at, pod.meta.key
