"""Events on objects, as `kubectl describe` shows them: what we did and why, repeated ones counted instead of repeated.

Telling must never hold up doing: events are queued, bounded, and dropped with a count when there are too many.
"""

import asyncio
import contextlib
import hashlib
from collections import OrderedDict, deque
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import msgspec
import structlog

from autoscaler import clock
from autoscaler.kube import kinds, objects, port, writer

log = structlog.get_logger()
QUEUE_MAX: Final = 2000
REMEMBERED_MAX: Final = 10_000
BURST: Final = 25
REFILL_SECONDS: Final = 30.0
"""One object may have so many different events at once, and one more per so many seconds."""
MESSAGE_MAX: Final = 1024


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


class Recorder:
    """Sends events in the background."""

    def __init__(self, api: port.Api, fence: writer.Fence, time: clock.Clock, *, component: str) -> None:
        self.dropped = 0
        self._api = api
        self._fence = fence
        self._time = time
        self._component = component
        self._queue: deque[Event] = deque()
        self._waiting = asyncio.Event()
        self._counts: OrderedDict[str, int] = OrderedDict()
        self._budgets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def record(self, event: Event) -> None:
        """Queue an event; never waits and never fails."""
        if len(self._queue) >= QUEUE_MAX or not self._may_send(event):
            self.dropped += 1
            return
        self._queue.append(event)
        self._waiting.set()

    async def run(self) -> None:
        """Send what is queued, until cancelled."""
        while True:
            await self._waiting.wait()
            while self._queue:
                await self._send(self._queue.popleft())
            self._waiting.clear()

    async def flush(self) -> None:
        """Send what is still queued, before the end."""
        while self._queue:
            await self._send(self._queue.popleft())

    async def _send(self, event: Event) -> None:
        try:
            if event.name in self._counts:
                await self._count(event, self._counts[event.name] + 1)
            else:
                await self._create(event)
        except writer.ObservedError:
            return
        except (port.KubeError, writer.FencedError) as error:
            self.dropped += 1
            log.info("event_not_sent", reason=event.reason, regarding=event.regarding.key, error=str(error))

    async def _create(self, event: Event) -> None:
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
            "count": 1,
        }
        try:
            await self._call("POST", kinds.EVENTS.collection(event.namespace), manifest)
            self._remember(event, 1)
        except port.AlreadyExistsError:
            # We told this before a restart: go on counting where we stopped.
            there = await self._call("GET", kinds.EVENTS.path(event.name, event.namespace))
            await self._count(event, _COUNT.decode(there).count + 1)

    async def _count(self, event: Event, count: int) -> None:
        changes = {"count": count, "lastTimestamp": clock.to_rfc3339(self._time.now())}
        try:
            await self._call("PATCH", kinds.EVENTS.path(event.name, event.namespace), changes)
            self._remember(event, count)
        except port.NotFoundError:  # events expire after an hour
            self._counts.pop(event.name, None)
            await self._create(event)

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
        self._counts[event.name] = count
        self._counts.move_to_end(event.name)
        if len(self._counts) > REMEMBERED_MAX:
            self._counts.popitem(last=False)

    def _may_send(self, event: Event) -> bool:
        """Keep one object's chatter within a budget that refills over time."""
        now = self._time.monotonic()
        tokens, at = self._budgets.pop(event.regarding.uid, (float(BURST), now))
        tokens = min(float(BURST), tokens + (now - at) / REFILL_SECONDS)
        allowed = tokens >= 1
        self._budgets[event.regarding.uid] = (tokens - 1 if allowed else tokens, now)
        if len(self._budgets) > REMEMBERED_MAX:
            self._budgets.popitem(last=False)
        return allowed
