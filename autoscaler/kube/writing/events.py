"""Events on objects, as `kubectl describe` shows them: what we did and why, repeated ones counted instead of repeated.

Telling must never hold up doing: events wait here, bounded, and are sent in the background, one after another, with
rests between them where the API server is busy, so that thousands of them leave it to others. Each object has a budget
of different events; repeating one is free. A part of the budget is kept for changes of state, which are told once and
would otherwise be lost behind chatter. What the API server does not take is sent again, less and less often, and only
what it took counts as told.
"""

import asyncio
import contextlib
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import msgspec
import structlog

from autoscaler import backoff, clock
from autoscaler.kube import kinds, objects, port
from autoscaler.kube.writing import writer

log = structlog.get_logger()
WAITING_MAX: Final = 2000
"""So many events wait at most, of all objects together."""
REMEMBERED_MAX: Final = 10_000
BURST: Final = 25
REFILL_SECONDS: Final = 30.0
"""One object may have so many different events at once, and one more per so many seconds."""
RESERVE: Final = 10
"""So many more for changes of state."""
REPEAT_SECONDS: Final = 10.0
"""An event that is repeated is counted at once and written this often."""
KEPT_SECONDS: Final = 600.0
"""What could not be told for so long is no news any more."""
MESSAGE_MAX: Final = 1024
BUSY_SECONDS: Final = 0.02
"""An API server that takes so long for an event is busy, and has better things to do."""
REST: Final = 3.0
"""After an event that it took so long for, the next waits so many times as long as that."""
REST_MAX_SECONDS: Final = 1.0
Ended = Callable[[bool], None]
"""Called once with whether the API server has taken an event."""
_REFUSED: Final = backoff.Backoff(first_seconds=5.0, longest_seconds=300.0)


class EventType(StrEnum):
    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Regarding:
    """The object an event is about."""

    resource: kinds.ResourceType
    key: objects.Key
    uid: str

    def as_json(self) -> dict[str, str]:
        reference = {
            "apiVersion": self.resource.api_version,
            "kind": self.resource.kind,
            "name": self.key.name,
            "uid": self.uid,
        }
        return {**reference, "namespace": self.key.namespace} if self.key.namespace else reference


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something worth telling."""

    regarding: Regarding
    type: EventType = EventType.NORMAL
    reason: str
    message: str
    is_change: bool = False
    """It tells of a change of state, once: the reserve is for it, and others give way to it."""

    @property
    def name(self) -> str:
        """Name it after its content, so that a repetition finds the first, also after a restart."""
        content = msgspec.json.encode((self.regarding.uid, self.type, self.reason, self.message))
        digest = hashlib.sha256(content).hexdigest()[:16]
        return f"{self.regarding.key.name[:200]}.{digest}"

    @property
    def namespace(self) -> str:
        return self.regarding.key.namespace or "default"


class _Count(msgspec.Struct, frozen=True):
    count: int = 0


_COUNT: Final = msgspec.json.Decoder(_Count)


@dataclass(slots=True)
class _Waiting:
    """An event that waits to be sent, as often as it happened since it was last."""

    event: Event
    since: float
    times: int = 0
    ended: list[Ended] = field(default_factory=list)


@dataclass(slots=True)
class _Budget:
    """How many different events an object may still have."""

    tokens: float
    at: float


class Recorder:
    """Sends events in the background."""

    def __init__(self, api: port.Api, fence: writer.Fence, time: clock.Clock, *, component: str) -> None:
        self.dropped = 0
        """Events that were never sent."""
        self._api = api
        self._fence = fence
        self._time = time
        self._component = component
        self._waiting: OrderedDict[str, _Waiting] = OrderedDict()
        self._added = asyncio.Event()
        self._counts: OrderedDict[str, tuple[int, float]] = OrderedDict()
        """Events that the API server has: how often they happened, and when that was last written."""
        self._budgets: OrderedDict[str, _Budget] = OrderedDict()
        self._refusals = backoff.Retries(time, _REFUSED)
        """By the UID of the object that events are about."""

    def record(self, event: Event, *, ended: Ended | None = None) -> None:
        """Have an event sent; never waits and never fails. `ended` is told whether the API server took it."""
        name = event.name
        waiting = self._waiting.get(name)
        if waiting is None:
            if not self._has_room(event) or not self._may_have(event, name):
                self._drop([ended] if ended is not None else [])
                return
            waiting = self._waiting[name] = _Waiting(event, self._time.monotonic())
        waiting.times += 1
        if ended is not None:
            waiting.ended.append(ended)
        self._added.set()

    async def run(self) -> None:
        """Send what waits, until cancelled."""
        while True:
            self._added.clear()
            for name in self._due():
                if name in self._due(name):  # unless another about the same object was refused just now
                    await self._send_and_rest(name)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._pause()):
                    await self._added.wait()

    async def flush(self) -> None:
        """Send everything that waits, once, before the end."""
        for name in list(self._waiting):
            await self._send(name)

    def _due(self, *names: str) -> list[str]:
        """Return which events, of these or of all, are to be sent now."""
        now = self._time.monotonic()
        return [name for name in names or self._waiting if name in self._waiting and self._due_at(name) <= now]

    def _due_at(self, name: str) -> float:
        refused_until = self._refusals.next_at(self._waiting[name].event.regarding.uid) or 0.0
        _, written_at = self._counts.get(name, (0, float("-inf")))
        return max(refused_until, written_at + REPEAT_SECONDS)

    def _pause(self) -> float | None:
        """Return for how long nothing is due; None: nothing waits."""
        if self._added.is_set():
            return 0.0
        due_at = clock.earliest(map(self._due_at, self._waiting))
        return None if due_at is None else max(0.0, due_at - self._time.monotonic())

    async def _send_and_rest(self, name: str) -> None:
        began = self._time.monotonic()
        await self._send(name)
        took = self._time.monotonic() - began
        if took >= BUSY_SECONDS:
            await asyncio.sleep(min(REST_MAX_SECONDS, REST * took))

    async def _send(self, name: str) -> None:
        """Send one event; one that is not taken waits on, and all others about the same object with it."""
        waiting = self._waiting.get(name)
        if waiting is None:  # it gave way to another
            return
        uid, times = waiting.event.regarding.uid, waiting.times
        try:
            if name in self._counts:
                await self._count(waiting.event, self._counts[name][0], times)
            else:
                await self._create(waiting.event, times)
        except writer.ObservedError:
            pass
        except (port.KubeError, writer.FencedError) as error:
            self._refusals.note(uid, is_done=False)
            about = waiting.event.regarding.key
            log.info("event_not_sent", reason=waiting.event.reason, regarding=about, error=str(error))
            if self._time.monotonic() - waiting.since > KEPT_SECONDS:
                self._waiting.pop(name, None)
                self._drop(waiting.ended)
            return
        self._refusals.note(uid, is_done=True)
        self._taken(name, waiting, times)

    def _taken(self, name: str, waiting: _Waiting, times: int) -> None:
        waiting.times -= times  # it may have happened again meanwhile
        ended, waiting.ended = waiting.ended, []
        if waiting.times <= 0:
            self._waiting.pop(name, None)
        for tell in ended:
            tell(True)

    def _drop(self, ended: list[Ended]) -> None:
        self.dropped += 1
        for tell in ended:
            tell(False)

    async def _create(self, event: Event, count: int) -> None:
        now = clock.to_rfc3339(self._time.now())
        manifest = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": event.name, "namespace": event.namespace},
            "involvedObject": event.regarding.as_json(),
            "type": event.type,
            "reason": event.reason,
            "message": event.message[:MESSAGE_MAX],
            "source": {"component": self._component},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": count,
        }
        try:
            await self._call("POST", kinds.EVENTS.collection(event.namespace), manifest)
            self._remember(event, count)
        except port.AlreadyExistsError:
            # We told this before a restart: go on counting where we stopped.
            there = await self._call("GET", kinds.EVENTS.path(event.name, event.namespace))
            await self._count(event, _COUNT.decode(there).count, count)

    async def _count(self, event: Event, before: int, times: int) -> None:
        count = before + times
        changes = {"count": count, "lastTimestamp": clock.to_rfc3339(self._time.now())}
        try:
            await self._call("PATCH", kinds.EVENTS.path(event.name, event.namespace), changes)
            self._remember(event, count)
        except port.NotFoundError:  # events expire after an hour
            self._counts.pop(event.name, None)
            await self._create(event, times)

    async def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> bytes:
        request = port.Request(
            method=method,
            path=path,
            body=msgspec.json.encode(body) if body is not None else None,
            content_type=port.MERGE_PATCH if method == "PATCH" else port.JSON,
        )
        limit = self._fence.check(request)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit):
                return port.required(await self._api.send(request))
        raise port.UnreachableError(f"{method} {path} was not answered within {limit:g} s")

    def _remember(self, event: Event, count: int) -> None:
        self._counts[event.name] = (count, self._time.monotonic())
        self._counts.move_to_end(event.name)
        if len(self._counts) > REMEMBERED_MAX:
            self._counts.popitem(last=False)

    def _has_room(self, event: Event) -> bool:
        """Tell whether one more event may wait; a change of state pushes out the oldest that is none."""
        if len(self._waiting) < WAITING_MAX:
            return True
        oldest = next((name for name, each in self._waiting.items() if not each.event.is_change), None)
        if not event.is_change or oldest is None:
            return False
        self._drop(self._waiting.pop(oldest).ended)
        return True

    def _may_have(self, event: Event, name: str) -> bool:
        """Keep one object's chatter within a budget that refills over time; an event that it has costs nothing."""
        if name in self._counts:
            return True
        now, uid = self._time.monotonic(), event.regarding.uid
        budget = self._budgets.pop(uid, None) or _Budget(float(BURST + RESERVE), now)
        budget.tokens = min(float(BURST + RESERVE), budget.tokens + (now - budget.at) / REFILL_SECONDS)
        budget.at = now
        allowed = budget.tokens >= (1 if event.is_change else RESERVE + 1)
        budget.tokens -= 1 if allowed else 0
        self._budgets[uid] = budget
        if len(self._budgets) > REMEMBERED_MAX:
            self._budgets.popitem(last=False)
        return allowed
