"""Place pods that go to one zone together, with all others, and say who may go. Pure.

All of a gang goes to one zone, or none of it: `zone_choice` names a zone that takes it, and if other pods leave too
little there, it is left out of this plan as a whole. It may go, with that zone, when there is room for all of it on
nodes that are ready; who comes later joins at once. No gang is ever opened into two zones.
"""

import dataclasses
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from autoscaler import clock
from autoscaler.api import keys
from autoscaler.capacity.model import Demand, Placement, Policy, Situation
from autoscaler.capacity.scaleup.colocation import gangs, zone_choice
from autoscaler.capacity.scaleup.colocation.gangs import Gang
from autoscaler.capacity.scaleup.colocation.zone_choice import Chosen, Pods, Refused
from autoscaler.capacity.scaleup.scopes import scope_targets
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.kube import objects

AGAIN_SECONDS: Final = 5.0
"""When a zone is looked for again for a gang that would have found one if it were alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """A pod that may go now, and to which zone."""

    pod: objects.Pod
    zone: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """Where all pods go, which gangs may be opened, and which go nowhere."""

    rationed: scope_targets.Rationed
    openings: tuple[Opening, ...] = ()
    refused: tuple[Refused, ...] = ()
    wake_at: float | None = None
    """When a gang will be taken as whole or may find more room, or a slot may not be free in time."""


def place(
    snapshot: Snapshot, situation: Situation, pods: Pods, *, policy: Policy, together: Collection[Gang]
) -> Settled:
    """Place all demands and all gangs, each gang in one zone and as a whole, or not at all.

    1. Those whose zone is settled join. 2. Choose a zone for each of the others, once they are whole. 3. Place them
    with all other pods. 4. Open those that have room on nodes that are there.
    """
    joining = [_joining(pod, gang.zone) for gang in together if gang.zone for pod in gang.pods]
    free = [(gang, gangs.due(gang, snapshot.now)) for gang in together if gang.zone is None]
    choice = zone_choice.choose(snapshot, situation, policy, [gang for gang, due in free if due is None])
    rationed, chosen, squeezed = _place(snapshot, situation, pods, policy=policy, chosen=choice.chosen)
    ready = [Opening(pod=pod, zone=one.zone) for one in chosen if _has_landed(one, rationed) for pod in one.gang.pods]
    dues = [due for _, due in free if due is not None] + [snapshot.now + AGAIN_SECONDS] * bool(squeezed)
    return Settled(
        rationed=rationed,
        openings=(*joining, *ready),
        refused=(*choice.refused, *squeezed),
        wake_at=clock.earliest((*dues, rationed.wake_at)),
    )


def _joining(pod: objects.Pod, zone: str) -> Opening:
    """Send a pod to where its gang is; what it selects itself cannot be changed any more."""
    return Opening(pod=pod, zone=pod.shape.node_selector.get(keys.ZONE, zone))


def _place(
    snapshot: Snapshot, situation: Situation, pods: Pods, *, policy: Policy, chosen: Collection[Chosen]
) -> tuple[scope_targets.Rationed, list[Chosen], list[Refused]]:
    """Place gangs with all other pods; those that others leave too little for are left out, the last ones first."""
    left = list(chosen)
    squeezed: list[Refused] = []
    while True:
        asked = {made: found for one in left for made, found in one.pods.items()}
        joint = dataclasses.replace(situation, demands=(*situation.demands, *asked))
        rationed = scope_targets.place(snapshot, joint, {**pods, **asked}, policy)
        short = [one for one in left if _count(one, rationed, _everywhere(rationed.placed)) < len(one.gang.pods)]
        if not short:
            return rationed, left, squeezed
        out = short[len(short) // 2 :]
        squeezed += [_squeezed(one, rationed) for one in out]
        left = [one for one in left if one not in out]


def _everywhere(placed: Placement) -> Iterable[tuple[Demand, int]]:
    yield from _landed(placed)
    for filling in (*placed.expected, *placed.launches):
        yield from ((share.demand, share.count * filling.nodes) for share in filling.shares)


def _landed(placed: Placement) -> Iterable[tuple[Demand, int]]:
    return ((share.demand, share.count) for landing in placed.landings for share in landing.shares)


def _count(one: Chosen, rationed: scope_targets.Rationed, shares: Iterable[tuple[Demand, int]]) -> int:
    """Count the pods of a gang among what was placed."""
    return sum(count for made, count in shares if rationed.origins.get(made, made) in one.pods)


def _has_landed(one: Chosen, rationed: scope_targets.Rationed) -> bool:
    return _count(one, rationed, _landed(rationed.placed)) == len(one.gang.pods)


def _squeezed(one: Chosen, rationed: scope_targets.Rationed) -> Refused:
    """Say why the zone that would take a gang does not, with all others that wait."""
    said = [(each.demand, each.rejections) for each in rationed.placed.unplaced]
    said += [(each.demand, each.rejections) for each in rationed.held]
    own = [why for made, whys in said if rationed.origins.get(made, made) in one.pods for why in whys]
    here = [
        dataclasses.replace(why, groups=tuple(key for key in why.groups if key.zone == one.zone))
        for why in own
        if not why.groups or any(key.zone == one.zone for key in why.groups)
    ]
    most = _count(one, rationed, _everywhere(rationed.placed))
    return Refused(pods=one.gang.pods, rejections=zone_choice.told(one.gang, most, here))
