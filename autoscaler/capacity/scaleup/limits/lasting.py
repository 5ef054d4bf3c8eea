"""What is expected to stay until the month is over: pods that do not end, and what a group's minimum keeps. Pure."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from autoscaler.api import keys
from autoscaler.api.resources.instances import Instance
from autoscaler.capacity import work
from autoscaler.capacity.records import accounting, pool_lives
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.kube import objects


@dataclass(frozen=True, slots=True, kw_only=True)
class Lasting:
    """What stays."""

    pods: frozenset[str]
    """UIDs of pods that do not end by themselves."""
    instances: frozenset[str]
    """Names of the instances that such pods or their group's minimum keep."""
    unrecorded: Counter[accounting.ScopePool]
    """How many of the pods their Instance object does not list yet."""


def lasting(snapshot: Snapshot, pools: Collection[str]) -> Lasting:
    """Find what stays of some pools. Where a pod is counts, not what is written of it: that comes a moment later."""
    lives = pool_lives.lives(snapshot.instances) if snapshot.lives is None else snapshot.lives
    living = [one for pool in sorted(pools) for one in lives.get(pool, pool_lives.NONE).living.values()]
    pods, used, unrecorded = set[str](), set[str](), Counter[accounting.ScopePool]()
    for one in living:
        endless = _endless(snapshot, one)
        if endless:
            used.add(one.metadata.name)
            recorded = {pod.pod_uid for pod in one.status.running}
            pods |= {pod.meta.uid for pod in endless}
            for pod in endless:
                scope = snapshot.namespaces.get(pod.meta.key.namespace, {}).get(keys.SCOPE, "")
                unrecorded[accounting.ScopePool(scope, one.spec.pool)] += pod.meta.uid not in recorded
    kept = _kept(snapshot, living, used)
    return Lasting(pods=frozenset(pods), instances=frozenset(used | kept), unrecorded=unrecorded)


def _endless(snapshot: Snapshot, instance: Instance) -> list[objects.Pod]:
    node = snapshot.by_provider.get(instance.status.provider_id or "")
    there = snapshot.indexed.by_node.get(node.meta.key.name, ()) if node is not None else ()
    return [pod for pod in there if work.is_endless(pod) and work.is_work(pod)]


def _kept(snapshot: Snapshot, living: Collection[Instance], used: Collection[str]) -> set[str]:
    """Return as many instances of each group as its minimum is, those that stay anyway first."""
    groups = [group for group in snapshot.groups if group.minimum]
    by_provider = {one.status.provider_id or "": one for one in living} if groups else {}
    found: set[str] = set()
    for group in groups:
        here = [by_provider[one.provider_id] for one in group.members if one.provider_id in by_provider]
        here.sort(key=lambda one: (one.metadata.name not in used, one.spec.number))
        found |= {one.metadata.name for one in here[: group.minimum]}
    return found
