"""Launches that did not help: an empty, ready node did not take the pod that it was started for. Pure.

What plans do not know then holds for every node, so that no other is started for such pods: not in another group, nor
by the next leader, who finds it in the pool's status. It is forgotten after an hour, with the group's launch template,
when the pods or their volume claims become others, and when a node takes such a pod after all.
"""

import dataclasses
import functools
import hashlib
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from autoscaler import clock
from autoscaler.api.manifests import Manifest
from autoscaler.api.resources.pools import UNHELPFUL_MAX, InstancePool
from autoscaler.api.settings.node_groups import NodeGroupKey
from autoscaler.capacity.model import Reason, Rejection
from autoscaler.capacity.scaleup import learned_allocatable
from autoscaler.capacity.scaleup.missed_placements import MissedPlacement, Taking, Waiting
from autoscaler.capacity.scaleup.storage import needs as storage
from autoscaler.capacity.snapshot import Snapshot, Unhelpful
from autoscaler.cloud import port as cloud

REFUSED_SECONDS: Final = 3600.0
_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")
Known = Mapping[str, Unhelpful]
"""By a hash of what pods ask for."""


def recall(
    known: Known, pools: Iterable[InstancePool], groups: Collection[cloud.NodeGroup], now: float
) -> dict[str, Unhelpful]:
    """Add what pools wrote down, and forget what is over."""
    written = {
        each.shape: Unhelpful(
            pool=pool.metadata.name,
            group=cloud.GroupName(each.node_group),
            template_hash=each.template_hash,
            at=each.at.timestamp(),
        )
        for pool in pools
        for each in pool.status.unhelpful_launches
    }
    together = {**written, **known}
    there = {group.name: learned_allocatable.template_hash(group) for group in groups} if together else {}
    return {
        shape: each
        for shape, each in together.items()
        if 0 <= now - each.at < REFUSED_SECONDS and there.get(each.group) == each.template_hash and each.group in there
    }


def learn(
    known: Known, lessons: Mapping[Waiting, MissedPlacement], taking: Taking, snapshot: Snapshot
) -> dict[str, Unhelpful]:
    """Return what is known after one more plan; of a kind that is taken after all, only that."""
    learned = dict(known)
    groups = {group.key: group for group in snapshot.groups}
    for like, lesson in lessons.items():
        shape = name(snapshot, like)
        if like.shape in taking and shape in learned:
            learned[shape] = dataclasses.replace(learned[shape], is_over=True)
        elif lesson.refused_by is not None and (shape not in learned or learned[shape].is_over):
            group = groups.get(lesson.refused_by)
            if group is not None:
                learned[shape] = Unhelpful(
                    pool=group.key.pool,
                    group=group.name,
                    template_hash=learned_allocatable.template_hash(group),
                    at=float(int(snapshot.now)),
                )
    return learned


def refused(snapshot: Snapshot, like: Waiting) -> dict[NodeGroupKey, Rejection]:
    """Return why no group gets a node for such pods; empty if they may."""
    found = snapshot.unhelpful.get(name(snapshot, like)) if snapshot.unhelpful else None
    if found is None or found.is_over:
        return {}
    why = Rejection(reason=Reason.MISSED, what=found.group)
    return {group.key: why for group in snapshot.groups}


def next_end(known: Known) -> float | None:
    """Return when the next kind of pods may be helped again."""
    return min((each.at + REFUSED_SECONDS for each in known.values() if not each.is_over), default=None)


def written(snapshot: Snapshot, pool: str) -> list[Manifest]:
    """Return what a pool's status should say, the newest if there are too many."""
    own = [(shape, each) for shape, each in snapshot.unhelpful.items() if each.pool == pool and not each.is_over]
    newest = sorted(own, key=lambda pair: (-pair[1].at, pair[0]))[:UNHELPFUL_MAX]
    return [
        {
            "shape": shape,
            "nodeGroup": each.group,
            **({"templateHash": each.template_hash} if each.template_hash else {}),
            "at": clock.to_rfc3339(each.at),
        }
        for shape, each in sorted(newest)
    ]


def name(snapshot: Snapshot, like: Waiting) -> str:
    """Return the name of a kind of pods, as pools write it down."""
    return digest(like, storage.state(snapshot.storage, like.shape, like.namespace))


@functools.lru_cache(maxsize=1024)
def digest(like: Waiting, claims: tuple[object, ...] = ()) -> str:
    """Name a kind of pods, with what their volume claims say, so that every process gives it the same name."""
    said = _ENCODER.encode((like.shape, like.namespace, like.labels, claims))
    return hashlib.sha256(said).hexdigest()[:32]
