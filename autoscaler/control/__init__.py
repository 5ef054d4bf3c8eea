"""What a controller is, and what it is given. Controllers know this module and not the runtime above them."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

from autoscaler import clock
from autoscaler.control import metrics, plans
from autoscaler.kube import kinds, objects, port, store
from autoscaler.kube.writing import events, writer

R = TypeVar("R")
Dirty = frozenset[tuple[str, objects.Key]]
"""What changed since the last cycle: kinds and keys. After a long wait, everything there is instead."""


class Controller(Protocol):
    """One of the things that the runtime does."""

    def reconcile(self, dirty: Dirty) -> Coroutine[Any, Any, float | None]:
        """Bring the cluster one step closer to what it should be.

        Return when, in seconds since the epoch, time alone will change the answer; None if it will not.
        """
        ...


@runtime_checkable
class Planning(Protocol):
    """A controller that can say what it would do now."""

    def planned(self) -> Coroutine[Any, Any, plans.Planned]:
        """Decide as a cycle does, and carry nothing out: nothing is written, and no later cycle decides otherwise."""
        ...


class Planner(Protocol):
    """Runs a pure function without holding up the loop."""

    async def __call__(self, function: Callable[..., R], *arguments: Any) -> R: ...  # noqa: ANN401  # any function's


class Source(Protocol):
    """Something that feeds a controller with what happens outside: a watch, a queue, a cloud."""

    async def run(self) -> None:
        """Go on until cancelled."""
        ...

    def unsynced(self) -> str | None:
        """Return what is still missing before anything may be decided; None if nothing is."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerContext:
    """What the runtime gives a controller."""

    clock: clock.Clock
    identity: str
    """The name under which this runtime acts, which its replicas share."""
    namespace: str
    """The runtime's own namespace."""
    api: port.Api
    """For reading what is not watched. All writing is the writer's."""
    api_server: str
    """The API server's URL."""
    writer: writer.Writer
    recorder: events.Recorder
    plan: Planner
    watch: Callable[..., store.Table[Any]]
    """`watch(resource, decode, namespace=None)`: the table of a kind; its changes wake the controller."""
    feed: Callable[[Source], None]
    """Run a source for as long as the controller runs."""
    wake: Callable[[str, objects.Key], None]
    """Wake the controller, saying what for."""
    held_back: Callable[[], str | None]
    """Why nothing may be done now: something is not synced, or another replica leads; None if it may."""
    is_paused: Callable[[], bool]
    """Whether we lead and would act, were it not for the annotation that pauses the runtime."""
    vacant_since: Callable[[], float | None]
    """When whoever led before us last showed a sign of life; None: nobody did."""
    may_act: Callable[[str], bool]
    """Ask before each act outside of the API server, saying what it is: it is under the same Lease. FencedError if
    we may not act; False: we only observe, and go on as if it had been done."""
    measure: Callable[[metrics.Measure], None]
    """Have numbers gathered whenever metrics are asked for."""

    def tell(  # noqa: PLR0913  # an event has as many parts
        self,
        resource: kinds.ResourceType,
        stored: objects.Stored,
        reason: str,
        message: str,
        *,
        is_warning: bool = False,
        is_change: bool = False,
        ended: events.Ended | None = None,
    ) -> None:
        """Record an event about an object; `events` says what a change of state is, and when `ended` is called."""
        self.recorder.record(
            events.Event(
                regarding=events.Regarding(resource=resource, key=stored.meta.key, uid=stored.meta.uid),
                type=events.EventType.WARNING if is_warning else events.EventType.NORMAL,
                reason=reason,
                message=message,
                is_change=is_change,
            ),
            ended=ended,
        )


Build = Callable[[ControllerContext], Controller]
