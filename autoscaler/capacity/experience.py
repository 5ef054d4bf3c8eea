"""What was learned from plans that did not come true. Pure.

Where a pod should have found room and the scheduler did not put it there, something is true that plans do not know.
That node is then left out for such pods, and after two of them in a group the group is too: or one instance after the
other would be started for a pod that none of them takes. While nodes of a group do take such pods, the scheduler is
only slow: nobody is given up then.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from autoscaler.api.node_groups import NodeGroupKey
from autoscaler.capacity.model import Reason, Rejection
from autoscaler.kube import objects, shapes

PATIENCE_SECONDS: Final = 30.0
"""So long may the scheduler take to find room that is there."""
MISSES_MAX: Final = 2


class Waiting(NamedTuple):
    """Pods that differ in nothing that placement looks at."""

    shape: shapes.Shape
    namespace: str
    labels: tuple[tuple[str, str], ...] = ()
    """Those that rules between pods look at, of this pod or of others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experience:
    """What was learned about pods that are alike."""

    landed: Mapping[str, float] = field(default_factory=dict)
    """Nodes on which a plan sees room for them, and since when."""
    avoid: frozenset[str] = frozenset()
    """Nodes that did not take them although they should have."""
    misses: Mapping[NodeGroupKey, int] = field(default_factory=dict)
    """How many such nodes each group had."""

    def missed(self) -> dict[NodeGroupKey, Rejection]:
        """Return the groups that take them no more, and why."""
        return {
            key: Rejection(reason=Reason.MISSED, wanted=count)
            for key, count in self.misses.items()
            if count >= MISSES_MAX
        }


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


def learn(
    before: Mapping[Waiting, Experience],
    landed: Landed,
    groups: Mapping[str, NodeGroupKey],
    *,
    now: float,
    taking: Taking | None = None,
) -> dict[Waiting, Experience]:
    """Return what is known after one more plan; pods that wait no more are forgotten."""
    learned = {}
    for like, rooms in landed.items():
        busy = (taking or {}).get(like.shape, frozenset())
        patient = frozenset(room for room in rooms if groups.get(room) in busy)
        learned[like] = _learn(before.get(like, Experience()), rooms, groups, now=now, patient=patient)
    return learned


def next_lesson(known: Mapping[Waiting, Experience], now: float) -> float | None:
    """Return when the next node will have had its time."""
    dues = [since + PATIENCE_SECONDS for each in known.values() for since in each.landed.values()]
    return min((due for due in dues if due > now), default=None)


def _learn(
    before: Experience,
    rooms: Iterable[str],
    groups: Mapping[str, NodeGroupKey],
    *,
    now: float,
    patient: frozenset[str],
) -> Experience:
    landed = {room: now if room in patient else before.landed.get(room, now) for room in rooms}
    late = {room for room, since in landed.items() if now - since >= PATIENCE_SECONDS}
    misses = dict(before.misses)
    for room in late & groups.keys():
        misses[groups[room]] = misses.get(groups[room], 0) + 1
    kept = {room: since for room, since in landed.items() if room not in late}
    return Experience(landed=kept, avoid=before.avoid | late, misses=misses)
