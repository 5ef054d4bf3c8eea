"""What the StatefulSet controller does next for one set: pods to make, delete and label, and the status. Pure.

All pods at once where the set is Parallel; where it is OrderedReady one after another, each only when those before it
run. A change of the template deletes the highest ordinal that is older, and waits until its successor is ready.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import takewhile

from autoscaler.api.manifests import Manifest
from autoscaler.simulation.cluster.kinds import pods, stateful_sets
from autoscaler.simulation.controllers import stateful_pods


class Act(Enum):
    MAKE = "make"
    DELETE = "delete"
    LABEL = "label"
    """Give a pod the labels of its ordinal again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing to do with the pod of an ordinal."""

    act: Act
    ordinal: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Stages in order; a stage is begun when nothing of the one before was refused. None: nothing to do there."""

    stages: tuple[tuple[Step | None, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Revisions:
    """The names of the template that pods had when all were last ready, and of the template now."""

    current: str
    update: str


def plan(body: Manifest, present: Sequence[Manifest], update: str) -> Plan:
    """Say what to do for a set that is not being deleted."""
    known = {stateful_pods.ordinal(pod): pod for pod in present}
    wanted = _ordinals(body)
    surplus = sorted((place for place in known if place not in wanted), reverse=True)
    if body["spec"]["podManagementPolicy"] == stateful_sets.ORDERED:
        settled = tuple(takewhile(lambda place: _is_settled(known.get(place)), wanted))
        labels = tuple(_kept(place, known[place]) for place in settled)
        if len(settled) < len(wanted):
            return Plan(stages=(labels, (_next(wanted[len(settled)], known),)))
        last = _next_surplus(surplus, known) if surplus else _rolled(body, known, update)
        return Plan(stages=(labels, (last,)))
    kept = tuple(_kept(place, known.get(place)) for place in wanted)
    condemned = tuple(_deleted(place, known[place]) for place in surplus)
    return Plan(stages=(kept, condemned, (_rolled(body, known, update),)))


def is_made_from_current(body: Manifest, ordinal: int) -> bool:
    """Tell whether a new pod is still made from the template that pods had before."""
    strategy = body["spec"]["updateStrategy"]
    rolling = strategy.get("rollingUpdate")
    if rolling is not None:
        return bool(ordinal < _start(body) + rolling["partition"])
    if strategy["type"] != stateful_sets.ROLLING:
        return False
    return bool(ordinal < _start(body) + body["status"].get("currentReplicas", 0))


def status(body: Manifest, present: Sequence[Manifest], revisions: Revisions) -> Manifest:
    """Count a set's pods; once all are ready and new, the new template is the current one."""
    staying = [stateful_pods.revision(pod) for pod in present if not stateful_pods.is_terminating(pod)]
    current, updated = staying.count(revisions.current), staying.count(revisions.update)
    ready = sum(pod["status"]["phase"] == "Running" and pods.is_ready(pod) for pod in present)
    is_rolling = body["spec"]["updateStrategy"]["type"] == stateful_sets.ROLLING
    is_done = is_rolling and updated == ready == len(present) == body["spec"]["replicas"]
    counts = {"readyReplicas": ready, "currentReplicas": updated if is_done else current, "updatedReplicas": updated}
    return {
        "observedGeneration": body["metadata"]["generation"],
        "replicas": len(present),
        "availableReplicas": ready,
        **{name: value for name, value in counts.items() if value},
        "currentRevision": revisions.update if is_done else revisions.current,
        "updateRevision": revisions.update,
        "collisionCount": 0,
    }


def _start(body: Manifest) -> int:
    start: int = (body["spec"].get("ordinals") or {}).get("start", 0)
    return start


def _ordinals(body: Manifest) -> range:
    return range(_start(body), _start(body) + body["spec"]["replicas"])


def _kept(ordinal: int, pod: Manifest | None) -> Step | None:
    """Make what is missing, delete what has ended, and give back an ordinal's labels."""
    if pod is None:
        return Step(act=Act.MAKE, ordinal=ordinal)
    if stateful_pods.has_ended(pod):
        return _deleted(ordinal, pod)
    name, labels = pod["metadata"]["name"], pod["metadata"].get("labels") or {}
    return None if labels.get(stateful_pods.POD_NAME) == name else Step(act=Act.LABEL, ordinal=ordinal)


def _deleted(ordinal: int, pod: Manifest) -> Step | None:
    return None if stateful_pods.is_terminating(pod) else Step(act=Act.DELETE, ordinal=ordinal)


def _next(ordinal: int, known: Mapping[int, Manifest]) -> Step | None:
    """Make or replace the first pod that does not run, or wait for it."""
    pod = known.get(ordinal)
    return _kept(ordinal, pod) if pod is None or stateful_pods.has_ended(pod) else None


def _next_surplus(surplus: Sequence[int], known: Mapping[int, Manifest]) -> Step | None:
    """Delete the highest, unless it and one below it do not run: then the controller waits."""
    first, *others = surplus
    if not _is_settled(known[first]) and not all(_is_settled(known[place]) for place in others):
        return None
    return _deleted(first, known[first])


def _is_settled(pod: Manifest | None) -> bool:
    return pod is not None and stateful_pods.is_running(pod)


def _rolled(body: Manifest, known: Mapping[int, Manifest], update: str) -> Step | None:
    """Choose the pod to replace by one of the new template: the highest older one, while all above it are ready."""
    strategy = body["spec"]["updateStrategy"]
    if strategy["type"] != stateful_sets.ROLLING:
        return None
    partition: int = (strategy.get("rollingUpdate") or {}).get("partition", 0)
    for place in reversed(_ordinals(body)[partition:]):
        pod = known.get(place)
        if pod is not None and stateful_pods.revision(pod) != update and not stateful_pods.is_terminating(pod):
            return Step(act=Act.DELETE, ordinal=place)
        if pod is None or not stateful_pods.is_available(pod):
            return None
    return None
