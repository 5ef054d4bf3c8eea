"""Tell waiting pods for which group a node is started, or why none is.

A pod is told at once, again when the cause changes (at most once a minute), and every ten minutes while it waits; the
same words are counted and not repeated. So many are told at a time at most: the others follow, those first that were
told nothing. A pod is told once the API server took the event, and told again if it did not.
What they are told is decided elsewhere.
"""

import itertools
import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

import structlog

from autoscaler import control
from autoscaler.capacity import messages
from autoscaler.capacity.model import Rejection
from autoscaler.capacity.plan import Launch, Unserved
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
class _Told:
    """What a pod was told last: the event's reason, what of its cause lasts, and when."""

    reason: str
    cause: messages.Cause
    at: float


class _Launched(NamedTuple):
    pod: objects.Pod
    text: str
    at: float


class _Refused(NamedTuple):
    pods: tuple[objects.Pod, ...]
    rejections: tuple[Rejection, ...]
    cause: messages.Cause


class PodEvents:
    """Tells pods, and remembers what those that still wait were told."""

    def __init__(self, context: control.ControllerContext) -> None:
        self._context = context
        self._told: dict[str, _Told] = {}
        self._launched: deque[_Launched] = deque(maxlen=LAUNCHED_MAX)
        self._left = EVENTS_MAX
        self._began = -math.inf

    def launched(self, launch: Launch) -> None:
        """Have the pods told for which a group was raised."""
        log.info("scale_up", groups=[launch.group], **_named(launch.pods))
        text, now = messages.triggered([launch]), self._context.clock.now()
        self._launched.extend(_Launched(pod, text, now) for pod in launch.pods)

    def tell(self, unserved: Sequence[Unserved]) -> float | None:
        """Tell who is to be told now; return when there will be something to tell though nothing changed."""
        now = self._context.clock.now()
        if now - self._began >= EVENTS_SECONDS:
            self._began, self._left = now, EVENTS_MAX
        while self._launched and self._left:
            self._tell_launched(self._launched.popleft())
        waiting = {pod.meta.uid for refused in unserved for pod in refused.pods}
        self._told = {uid: told for uid, told in self._told.items() if uid in waiting}
        causes = [_Refused(each.pods, each.rejections, messages.cause(each.rejections)) for each in unserved]
        due = self._due(causes, now)
        later = len(self._launched) + sum(len(each.pods) for each in due) - self._left
        for refused in due:
            self._tell_refused(refused)
        if later > 0:
            log.info("pods_told_later", count=later, at_a_time=EVENTS_MAX, seconds=EVENTS_SECONDS)
            return self._began + EVENTS_SECONDS
        return self._next_at(causes)

    def _due(self, causes: Iterable[_Refused], now: float) -> list[_Refused]:
        """Return whom to tell: those first that were told nothing, then those whose cause is another one."""
        fresh, changed, repeated = [], [], []
        for each in causes:
            for pod in each.pods:
                told = self._told.get(pod.meta.uid)
                if told is None or told.reason != messages.NOT_TRIGGERED:
                    fresh.append((each, pod))
                elif told.cause != each.cause and told.at + CHANGED_SECONDS <= now:
                    changed.append((each, pod))
                elif told.at + REPEATED_SECONDS <= now:
                    repeated.append((each, pod))
        ordered = itertools.groupby((*fresh, *changed, *repeated), key=lambda due: id(due[0]))
        runs = [list(run) for _, run in ordered]
        return [run[0][0]._replace(pods=tuple(pod for _, pod in run)) for run in runs]

    def _next_at(self, causes: Iterable[_Refused]) -> float | None:
        """Return when the next one is due, by whole minutes: one cycle then serves many."""
        due = (
            told.at + (REPEATED_SECONDS if told.cause == each.cause else CHANGED_SECONDS)
            for each in causes
            for pod in each.pods
            if (told := self._told.get(pod.meta.uid)) is not None
        )
        soonest = min(due, default=None)
        return None if soonest is None else math.ceil(soonest / CHANGED_SECONDS) * CHANGED_SECONDS

    def _tell_launched(self, launched: _Launched) -> None:
        def ended(is_taken: bool) -> None:  # noqa: FBT001  # a callback's shape
            if not is_taken and self._context.clock.now() - launched.at < REPEATED_SECONDS:
                self._launched.append(launched)

        self._left -= 1
        self._context.tell(kinds.PODS, launched.pod, messages.TRIGGERED, launched.text, ended=ended)
        self._told[launched.pod.meta.uid] = _Told(messages.TRIGGERED, (), launched.at)

    def _tell_refused(self, refused: _Refused) -> None:
        pods = refused.pods[: self._left]
        self._left -= len(pods)
        if pods:
            log.info("no_scale_up", limits=messages.limits(refused.rejections), **_named(pods))
        text = messages.not_triggered(refused.rejections)
        for pod in pods:
            told = self._told[pod.meta.uid] = _Told(messages.NOT_TRIGGERED, refused.cause, self._context.clock.now())
            ended = partial(self._ended, pod.meta.uid, told)
            self._context.tell(kinds.PODS, pod, messages.NOT_TRIGGERED, text, ended=ended)

    def _ended(self, uid: str, told: _Told, is_taken: bool) -> None:  # noqa: FBT001  # a callback's shape
        if not is_taken and self._told.get(uid) is told:
            del self._told[uid]


def _named(pods: Sequence[objects.Pod]) -> dict[str, object]:
    return {"count": len(pods), "pods": [pod.meta.key for pod in pods[:LOGGED_MAX]]}
