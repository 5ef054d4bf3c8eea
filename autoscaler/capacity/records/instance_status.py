"""What the status of one Instance object should be: how its life begins, goes on and ends. Pure.

One status in, one status out, to be written as a whole or not at all. That is what keeps the books right: a pod that
ended leaves `running` in the same write that adds its time, and a life that ended becomes Terminated in the same write
that adds the life's. Whoever dies in between finds the entry still open, and whoever repeats finds nothing to add.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from autoscaler.api.resources.base import Condition, ConditionStatus
from autoscaler.api.resources.instances import InstanceStatus, Phase, RunningPod
from autoscaler.capacity import disruption_taint, work
from autoscaler.capacity.records import accounting
from autoscaler.kube import objects

ENDED: Final = "Ended"
"""The condition that tells when and how it is known that the last life ended."""
RUNNING_MAX: Final = 1024


class EndReason(StrEnum):
    """By what the end of a life is known; the first that tells."""

    STATE_TRANSITION = "StateTransition"
    """The provider told the time."""
    SCALING_ACTIVITY = "ScalingActivity"
    """The node group told when it ended the instance."""
    LAST_SEEN = "LastSeen"
    """Nobody remembers: it was seen until then."""
    DUPLICATE = "Duplicate"
    """Another object has the same instance; this one counted nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """When a life ended, and how that is known."""

    at: float
    reason: EndReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """What is seen of one instance now."""

    provider_id: str
    is_leaving: bool = False
    node: objects.Node | None = None
    is_finished: bool = True
    """False: its node still lacks something that it was to have, or that it was to lose."""
    pods: tuple[objects.Pod, ...] = ()
    """All on its node, also those that ended."""
    scopes: Mapping[str, str] = field(default_factory=dict)
    """The scope of each namespace that is in one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """When this is, and what may have happened unseen."""

    now: float
    unwatched_since: float | None = None
    """Since when nobody watched the cluster until just now. None: somebody did all along.

    A pod that is gone without a trace is charged until then, for nobody knows whether it went on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """How long a pod took."""

    scope: str
    seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A status, and the pods whose time it adds."""

    status: InstanceStatus
    samples: tuple[Sample, ...] = ()


def begin(before: InstanceStatus, *, registered_at: float, created_at: float, of: InstanceStatus) -> InstanceStatus:
    """Begin a new life under a name: what past lives used stays, and nothing else does but the name's first day."""
    return of.model_copy(
        update={
            "phase": Phase.LAUNCHING,
            "instance_created_at": moment(math.ceil(created_at)),
            "registered_at": before.registered_at or moment(registered_at),
            "months": before.months,
            "remainders": before.remainders,
        }
    )


def go_on(before: InstanceStatus, body: Body, at: Moment) -> Outcome:
    """Bring a life up to date: close pods that ended, open those that began, and say since when it has had no work."""
    alive = {pod.meta.uid for pod in body.pods if not pod.is_terminal}
    closed = _closings(before, body, at, alive)
    ledger = _closed(before, closed).kept(at.now)
    phase = _phase(before, body)
    status = before.model_copy(
        update={
            "phase": phase,
            "node_name": body.node.meta.key.name if body.node is not None else before.node_name,
            "running": _running(before, body, alive),
            "idle_since": _idle_since(before, body, at, closed) if phase is not Phase.LAUNCHING else None,
            **_sums(ledger),
        }
    )
    return Outcome(status=status, samples=_samples(closed, body, at))


def end(before: InstanceStatus, body: Body, at: Moment, *, end: End, hourly_micros: int | None) -> Outcome:
    """End a life: all pods are closed, none later than the life, and the name is free."""
    created = before.instance_created_at.timestamp() if before.instance_created_at else end.at
    ended = max(created, end.at)
    alive = {pod.meta.uid for pod in body.pods if not pod.is_terminal}
    closed = [(pod, min(pod_end, ended)) for pod, pod_end in _closings(before, body, at, alive)]
    closed += [(pod, ended) for pod in _running(before, body, alive)]
    ledger = _closed(before, closed).with_life(created, ended, hourly_micros=hourly_micros).kept(at.now)
    status = _terminated(before, created, End(at=ended, reason=end.reason))
    return Outcome(status=status.model_copy(update=_sums(ledger)), samples=_samples(closed, body, at))


def void(before: InstanceStatus, at: Moment) -> InstanceStatus:
    """End a life that another object has too: it counts nothing."""
    created = before.instance_created_at.timestamp() if before.instance_created_at else at.now
    ended = _terminated(before, created, End(at=max(created, at.now), reason=EndReason.DUPLICATE))
    return ended.model_copy(update={"provider_id": None})


def ended_at(status: InstanceStatus) -> float | None:
    """Return when the last life ended; None if it is not over, or was none."""
    ended = next((each for each in status.conditions if each.type == ENDED), None)
    return ended.last_transition_time.timestamp() if ended is not None else None


def length_seconds(status: InstanceStatus) -> int | None:
    """Return how long the last life took; None if it is not over, or was none."""
    ended = next((each for each in status.conditions if each.type == ENDED), None)
    if status.instance_created_at is None or ended is None or ended.reason == EndReason.DUPLICATE:
        return None
    return int((ended.last_transition_time - status.instance_created_at).total_seconds())


def moment(at: float) -> datetime:
    """Return a time as objects keep it: UTC, whole seconds."""
    return datetime.fromtimestamp(math.floor(at), UTC)


# Pods that end and begin


_Closing = tuple[RunningPod, float]


def _closings(before: InstanceStatus, body: Body, at: Moment, alive: set[str]) -> list[_Closing]:
    """Return the recorded pods that run no more, and when each ended."""
    seen = {pod.meta.uid: pod for pod in body.pods}
    gone_at = at.now if at.unwatched_since is None else min(at.now, at.unwatched_since)
    found = []
    for pod in before.running:
        if pod.pod_uid not in alive:
            there = seen.get(pod.pod_uid)
            told = there.finished_at if there is not None else None
            found.append((pod, max(pod.started_at.timestamp(), gone_at if told is None else told)))
    return found


def _closed(before: InstanceStatus, closed: Iterable[_Closing]) -> accounting.Ledger:
    """Add the time of pods, always in the same order: what is left of a second goes to the next of the scope."""
    ledger = accounting.Ledger.of(before)
    for pod, ended in sorted(closed, key=lambda each: (each[0].started_at, each[0].pod_uid)):
        ledger = ledger.with_work(pod, ended)
    return ledger


def _running(before: InstanceStatus, body: Body, alive: set[str]) -> tuple[RunningPod, ...]:
    kept = [pod for pod in before.running if pod.pod_uid in alive]
    known = {pod.pod_uid for pod in before.running}
    node = body.node
    opened = [
        _opened(before, body, pod, node)
        for pod in body.pods
        if node is not None and pod.meta.uid not in known and pod.started_at is not None and work.is_work(pod)
    ]
    room = max(0, RUNNING_MAX - len(kept))
    return tuple(sorted((*kept, *opened[:room]), key=lambda pod: (pod.started_at, pod.pod_uid)))


def _opened(before: InstanceStatus, body: Body, pod: objects.Pod, node: objects.Node) -> RunningPod:
    """Record a pod with the share it holds now; it cannot have begun before the instance did."""
    started = moment(math.ceil(pod.started_at or 0.0))
    return RunningPod(
        pod_uid=pod.meta.uid,
        scope=body.scopes.get(pod.meta.key.namespace),
        started_at=max(started, before.instance_created_at or started),
        share_millionths=accounting.share_millionths(pod.shape.requests, node.allocatable),
    )


def _samples(closed: Iterable[_Closing], body: Body, at: Moment) -> tuple[Sample, ...]:
    """Return how long pods took, of those of which it is known."""
    told = {pod.meta.uid for pod in body.pods if pod.finished_at is not None}
    return tuple(
        Sample(scope=pod.scope, seconds=int(ended - pod.started_at.timestamp()))
        for pod, ended in closed
        if pod.scope is not None and (at.unwatched_since is None or pod.pod_uid in told)
    )


# The rest of the status


def _phase(before: InstanceStatus, body: Body) -> Phase:
    node = body.node
    if body.is_leaving or (node is not None and disruption_taint.of(node) is not None):
        return Phase.DRAINING
    if before.phase is not Phase.LAUNCHING or (node is not None and node.ready and body.is_finished):
        return Phase.READY
    return Phase.LAUNCHING


def _idle_since(before: InstanceStatus, body: Body, at: Moment, closed: Iterable[_Closing]) -> datetime | None:
    """Return the later of the last end of work and the first time the node was finished; None while there is work."""
    if body.node is None and before.node_name is None:
        return None
    if any(work.is_work(pod) for pod in body.pods):
        return None
    ends = [ended for _, ended in closed]
    ends += [pod.finished_at for pod in body.pods if pod.finished_at is not None and work.was_work(pod)]
    if before.idle_since is not None:
        ends.append(before.idle_since.timestamp())
    elif before.phase is Phase.LAUNCHING and before.node_name is None and body.node is not None:
        ends.append(body.node.ready_changed_at or at.now)  # nobody saw it before it was finished
    return moment(max(ends, default=at.now))


def _sums(ledger: accounting.Ledger) -> dict[str, object]:
    return {
        "months": dict(ledger.months),
        "durations_by_scope": dict(ledger.durations),
        "remainders": dict(ledger.remainders),
    }


def _terminated(before: InstanceStatus, created: float, end: End) -> InstanceStatus:
    """Keep the provider's name of the instance: as long as it is listed, nobody may take it for a new one."""
    condition = Condition(
        type=ENDED,
        status=ConditionStatus.TRUE,
        reason=end.reason,
        message=f"existed for {max(0, math.floor(end.at) - math.ceil(created))} s",
        last_transition_time=moment(end.at),
    )
    changes = {"phase": Phase.TERMINATED, "node_name": None, "running": (), "idle_since": None}
    return before.model_copy(update={**changes, "conditions": (condition,)})
