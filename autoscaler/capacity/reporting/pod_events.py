"""Tell waiting pods for which group a node is started, or why none is.

A pod is told at once, again when the cause changes (at most once a minute), and every ten minutes while it waits; the
same words are counted and not repeated. So many are told at a time at most: the others follow, those first that were
told nothing. A pod is told once the API server took the event, and told again if it did not.
Whom to tell what is a part of the plan: `due` is pure.
"""

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

import structlog

from autoscaler import control
from autoscaler.capacity import messages
from autoscaler.capacity.plan import Launch, Plan, PodEvent, Unserved
from autoscaler.kube import kinds, objects

log = structlog.get_logger()
EVENTS_MAX: Final = 200
EVENTS_SECONDS: Final = 5.0
"""So many pods are told within so many seconds."""
CHANGED_SECONDS: Final = 60.0
"""A cause that changes is told again after so long at the earliest: some numbers change in every cycle."""
REPEATED_SECONDS: Final = 600.0
LAUNCHED_MAX: Final = 10_000
"""So many pods wait to be told of a launch at most; the first of them are then not told."""
LOGGED_MAX: Final = 200
"""So many pods are named in one line of the log."""


@dataclass(frozen=True, slots=True)
class Last:
    """What a pod was told last: the event's reason, what of its cause lasts, and when."""

    reason: str
    cause: tuple[object, ...]
    at: float


Told = Mapping[str, Last]
"""By uid of the pod."""


class _Launched(NamedTuple):
    pod: objects.Pod
    text: str
    at: float


def due(unserved: Iterable[Unserved], told: Told, now: float) -> tuple[PodEvent, ...]:
    """Return whom to tell: those first that were told nothing, then those whose cause is another one."""
    ranks = (list[PodEvent](), list[PodEvent](), list[PodEvent]())
    for each in unserved:
        cause = messages.cause(each.rejections)
        pods = (list[objects.Pod](), list[objects.Pod](), list[objects.Pod]())
        for pod in each.pods:
            rank = _rank(told.get(pod.meta.uid), cause, now)
            if rank is not None:
                pods[rank].append(pod)
        if any(pods):
            text = messages.not_triggered(each.rejections)
            for events, found in zip(ranks, pods, strict=True):
                if found:
                    event = PodEvent(
                        pods=tuple(found),
                        reason=messages.NOT_TRIGGERED,
                        text=text,
                        rejections=each.rejections,
                        cause=cause,
                    )
                    events.append(event)
    return tuple(event for events in ranks for event in events)


def _rank(last: Last | None, cause: messages.Cause, now: float) -> int | None:
    """Return how soon a pod is told; None: it knows."""
    if last is None or last.reason != messages.NOT_TRIGGERED:
        return 0
    if last.cause != cause and last.at + CHANGED_SECONDS <= now:
        return 1
    return 2 if last.at + REPEATED_SECONDS <= now else None


class PodEvents:
    """Tells pods, and remembers what those that still wait were told."""

    def __init__(self, context: control.ControllerContext) -> None:
        self._context = context
        self._told: dict[str, Last] = {}
        self._launched: deque[_Launched] = deque(maxlen=LAUNCHED_MAX)
        self._left = EVENTS_MAX
        self._began = -math.inf

    def launched(self, launch: Launch) -> None:
        """Have the pods told for which a group was raised."""
        log.info("scale_up", groups=[launch.group], **_named(launch.pods))
        text, now = messages.triggered([launch]), self._context.clock.now()
        self._launched.extend(_Launched(pod, text, now) for pod in launch.pods)

    def told(self) -> Told:
        """Return what pods know."""
        return self._told

    def tell(self, plan: Plan) -> float | None:
        """Tell as many as may be told now; return when there will be something to tell though nothing changed."""
        now = self._context.clock.now()
        if now - self._began >= EVENTS_SECONDS:
            self._began, self._left = now, EVENTS_MAX
        while self._launched and self._left:
            self._tell_launched(self._launched.popleft())
        later = len(self._launched) + sum(len(each.pods) for each in plan.pod_events) - self._left
        for event in plan.pod_events:
            self._tell_refused(event)
        waiting = {pod.meta.uid for refused in plan.unserved for pod in refused.pods}
        self._told = {uid: last for uid, last in self._told.items() if uid in waiting}
        if later > 0:
            log.info("pods_told_later", count=later, at_a_time=EVENTS_MAX, seconds=EVENTS_SECONDS)
            return self._began + EVENTS_SECONDS
        return self._next_at(plan.unserved)

    def _next_at(self, unserved: Iterable[Unserved]) -> float | None:
        """Return when the next one is due, by whole minutes: one cycle then serves many."""
        soonest = min((last_at for each in unserved for last_at in self._again_at(each)), default=None)
        return None if soonest is None else math.ceil(soonest / CHANGED_SECONDS) * CHANGED_SECONDS

    def _again_at(self, refused: Unserved) -> Iterable[float]:
        cause = messages.cause(refused.rejections)
        for pod in refused.pods:
            last = self._told.get(pod.meta.uid)
            if last is not None:
                yield last.at + (REPEATED_SECONDS if last.cause == cause else CHANGED_SECONDS)

    def _tell_launched(self, launched: _Launched) -> None:
        def ended(is_taken: bool) -> None:  # noqa: FBT001  # a callback's shape
            if not is_taken and self._context.clock.now() - launched.at < REPEATED_SECONDS:
                self._launched.append(launched)

        self._left -= 1
        self._context.tell(kinds.PODS, launched.pod, messages.TRIGGERED, launched.text, ended=ended)
        self._told[launched.pod.meta.uid] = Last(messages.TRIGGERED, (), launched.at)

    def _tell_refused(self, event: PodEvent) -> None:
        pods = event.pods[: self._left]
        self._left -= len(pods)
        if pods:
            log.info("no_scale_up", limits=messages.limits(event.rejections), **_named(pods))
        for pod in pods:
            last = self._told[pod.meta.uid] = Last(event.reason, event.cause, self._context.clock.now())
            ended = partial(self._ended, pod.meta.uid, last)
            self._context.tell(kinds.PODS, pod, event.reason, event.text, ended=ended)

    def _ended(self, uid: str, last: Last, is_taken: bool) -> None:  # noqa: FBT001  # a callback's shape
        if not is_taken and self._told.get(uid) is last:
            del self._told[uid]


def _named(pods: Sequence[objects.Pod]) -> dict[str, object]:
    return {"count": len(pods), "pods": [pod.meta.key for pod in pods[:LOGGED_MAX]]}
