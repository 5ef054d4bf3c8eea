"""What was learned from plans that did not come true. Pure.

Where a pod should have found room and the scheduler did not put it there, something is true that plans do not know.
That node is then left out for such pods; if it was empty, `unhelpful` has no other started for them. While nodes of a
group do take such pods, the scheduler is only slow: nobody is given up then.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from autoscaler.api.settings.node_groups import NodeGroupKey
from autoscaler.kube import objects, shapes

PATIENCE_SECONDS: Final = 30.0
"""So long may the scheduler take to find room that is there."""


class Waiting(NamedTuple):
    """Pods that differ in nothing that placement looks at."""

    shape: shapes.Shape
    namespace: str
    labels: tuple[tuple[str, str], ...] = ()
    """Those that rules between pods look at, of this pod or of others."""
    is_endless: bool = False
    """They do not end by themselves, which matters to budgets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedPlacement:
    """What was learned about pods that are alike."""

    landed: Mapping[str, float] = field(default_factory=dict)
    """Nodes on which a plan sees room for them, and since when."""
    avoid: frozenset[str] = frozenset()
    """Nodes that did not take them although they should have."""
    refused_by: NodeGroupKey | None = None
    """The group of such a node that was empty; None: there was none in the last plan."""


Landed = Mapping[Waiting, frozenset[str]]
"""On which nodes the present plan sees room for whom."""
Taking = Mapping[shapes.Shape, frozenset[NodeGroupKey]]
"""The groups whose nodes took pods lately, by what these are."""


def taking(pods: Iterable[objects.Pod], groups: Mapping[str, NodeGroupKey], now: float) -> Taking:
    """Return which groups have taken pods within the time that the scheduler may take, given the groups of nodes."""
    found: dict[shapes.Shape, set[NodeGroupKey]] = {}
    for pod in pods:
        if pod.started_at is not None and now - pod.started_at < PATIENCE_SECONDS and pod.node_name in groups:
            found.setdefault(pod.shape, set()).add(groups[pod.node_name])
    return {shape: frozenset(keys) for shape, keys in found.items()}


def learn(  # noqa: PLR0913  # all that a lesson depends on
    before: Mapping[Waiting, MissedPlacement],
    landed: Landed,
    groups: Mapping[str, NodeGroupKey],
    *,
    now: float,
    settled_at: float = 0.0,
    taking: Taking | None = None,
    working: Collection[str] = (),
) -> dict[Waiting, MissedPlacement]:
    """Return what is known after one more plan; pods that wait no more are forgotten.

    Nobody's time begins before `settled_at`; nodes on which something works refuse nobody for good.
    """
    learned = {}
    for like, rooms in landed.items():
        busy, known = (taking or {}).get(like.shape, frozenset()), before.get(like, MissedPlacement())
        since = {room: now if groups.get(room) in busy else known.landed.get(room, now) for room in rooms}
        waited = {room: max(settled_at, at) for room, at in since.items()}
        late = {room for room, at in waited.items() if now - at >= PATIENCE_SECONDS}
        empty = sorted(room for room in late if room in groups and room not in working)
        learned[like] = MissedPlacement(
            landed={room: at for room, at in waited.items() if room not in late},
            avoid=known.avoid | late,
            refused_by=groups[empty[0]] if empty else None,
        )
    return learned


def next_lesson(known: Mapping[Waiting, MissedPlacement], now: float) -> float | None:
    """Return when the next node will have had its time."""
    dues = [since + PATIENCE_SECONDS for each in known.values() for since in each.landed.values()]
    return min((due for due in dues if due > now), default=None)
