"""Who is told when, and that only what the API server took counts as told."""

from typing import Any, cast

from autoscaler import control
from autoscaler.capacity.model import Reason, Rejection
from autoscaler.capacity.plan import Launch, Plan, Unserved
from autoscaler.capacity.reporting.pod_events import EVENTS_MAX, EVENTS_SECONDS, REPEATED_SECONDS, PodEvents, due
from autoscaler.cloud import port as cloud
from autoscaler.kube import objects
from tests.autoscaler.admission.manual_clock import ManualClock
from tests.autoscaler.capacity import builders, seen

DISABLED = Rejection(reason=Reason.DISABLED)


class Context:
    """Remembers who was told, and takes events or not."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.told: list[str] = []
        self.takes = True

    def tell(self, _kind: object, pod: objects.Pod, reason: str, _text: str, *, ended: Any) -> None:
        self.told.append(f"{reason} {pod.meta.key.name}")
        ended(self.takes)

    def after(self, seconds: float) -> list[str]:
        """Let time pass, and forget what was told before."""
        self.clock.seconds += seconds
        self.told = []
        return self.told


def made() -> tuple[Context, PodEvents]:
    context = Context()
    return context, PodEvents(cast("control.ControllerContext", context))


def unserved(*names: str) -> tuple[Unserved, ...]:
    return (Unserved(pods=tuple(seen.pod(name) for name in names), rejections=(DISABLED,)),)


def tell(events: PodEvents, context: Context, refused: tuple[Unserved, ...] = ()) -> float | None:
    """Decide whom to tell, and tell them, as a cycle does."""
    return events.tell(Plan(unserved=refused, pod_events=due(refused, events.told(), context.clock.now())))


def test_an_event_that_was_not_taken_is_told_in_the_next_cycle() -> None:
    context, events = made()
    context.takes = False
    tell(events, context, unserved("one"))
    context.takes, told = True, context.after(1)
    tell(events, context, unserved("one"))
    tell(events, context, unserved("one"))
    assert told == ["NotTriggerScaleUp one"]


def test_a_launch_that_could_not_be_told_is_told_later_but_not_for_ever() -> None:
    context, events = made()
    context.takes = False
    group = cloud.GroupName("g")
    events.launched(Launch(key=builders.key(), group=group, before=0, after=1, maximum=2, pods=(seen.pod("one"),)))
    tell(events, context)
    context.takes, told = True, context.after(EVENTS_SECONDS)
    tell(events, context)
    assert told == ["TriggeredScaleUp one"]
    context.takes = False
    events.launched(Launch(key=builders.key(), group=group, before=0, after=1, maximum=2, pods=(seen.pod("two"),)))
    for _ in range(200):
        context.after(EVENTS_SECONDS)
        tell(events, context)
    assert context.told == []


def test_those_beyond_the_bound_follow_and_come_before_those_who_were_told() -> None:
    context, events = made()
    everybody = [f"p-{number:03}" for number in range(EVENTS_MAX + 1)]
    wake = tell(events, context, unserved(*everybody))
    assert len(context.told) == EVENTS_MAX
    assert wake == context.clock.now() + EVENTS_SECONDS
    told = context.after(1)
    tell(events, context, unserved(*everybody))
    assert told == []
    told = context.after(REPEATED_SECONDS)
    tell(events, context, unserved(*everybody))
    assert told[0] == f"NotTriggerScaleUp {everybody[-1]}"


def test_a_pod_that_no_longer_waits_is_forgotten_and_told_anew_when_it_does() -> None:
    context, events = made()
    tell(events, context, unserved("one"))
    assert tell(events, context) is None
    told = context.after(1)
    assert tell(events, context, unserved("one")) is not None
    assert told == ["NotTriggerScaleUp one"]
