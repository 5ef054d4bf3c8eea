"""Every write to the API server goes through here: fenced, bounded, with preconditions, and its answer into the store.

A write is sent only while the fence is open. It is tried again only where that is harmless, a bounded number of times;
what a failure means is the caller's to decide.
"""

import asyncio
import contextlib
import copy
import dataclasses
import weakref
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from autoscaler import backoff, clock
from autoscaler.kube import kinds, objects, port, store, wire
from autoscaler.kube.objects import Key

T = TypeVar("T", bound=objects.Stored)
Manifest = Mapping[str, Any]
Remember = Callable[[bytes], None]
"""What is done with the answer to a write; not called while we only observe."""
CONCURRENCY: Final = 32
ATTEMPTS: Final = 4
_BACKOFF: Final = backoff.Backoff(first_seconds=0.2, longest_seconds=5.0, factor=4.0)
_SERVER_ERROR: Final = 500
_REFUSED: Final = backoff.Backoff(first_seconds=0.2, longest_seconds=30.0, factor=3.0)
_CONFLICTS: Final = backoff.Backoff(first_seconds=0.02, longest_seconds=30.0, factor=3.0)
"""A conflict is an answer to be planned on, and the next write is another one; many in a row are a refusal."""


class FencedError(Exception):
    """We may not write now: we do not lead, or are paused. Nothing was sent."""


class HeldBackError(port.KubeError):
    """It was refused a moment ago, and it is too soon to ask again. Nothing was sent."""


class ObservedError(Exception):
    """We only observe: nothing was sent, and the caller goes on as if it had been."""


class Fence(Protocol):
    """Whether we may write, asked right before each send."""

    def check(self, request: port.Request) -> float:
        """Return how many seconds the call may take; raise FencedError or ObservedError if it must not be sent."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Target(Generic[T]):
    """A kind that is written to, and the table that takes the answers; a kind that is not watched has none."""

    resource: kinds.ResourceType
    decode: Callable[[bytes | msgspec.Raw], T]
    table: store.Table[T] | None = None

    def remember(self, body: bytes) -> None:
        """Put the object that an answer holds into the table."""
        if self.table is not None:
            self.table.wrote(self.decode(body))

    def forget(self, key: Key, uid: str) -> None:
        """Take an object that is gone out of the table."""
        if self.table is not None:
            self.table.deleted(key, uid)


@dataclass(frozen=True, slots=True, kw_only=True)
class Precondition:
    """What must still be true of an object for a write to take effect."""

    uid: str
    resource_version: int | None = None
    """None: any version of this very object."""

    @classmethod
    def of(cls, stored: objects.Stored) -> "Precondition":
        """Demand exactly the version that a decision was made on."""
        return cls(uid=stored.meta.uid, resource_version=stored.meta.resource_version)

    def as_json(self) -> dict[str, str]:
        version = {} if self.resource_version is None else {"resourceVersion": str(self.resource_version)}
        return {"uid": self.uid, **version}


class _Write(NamedTuple):
    """One write: what is done to what, and how often it is tried where that is harmless."""

    verb: str
    resource: kinds.ResourceType
    key: Key
    attempts: int


class Writer:
    """Writes objects. At most one write per object is under way. While we only observe, nothing is sent."""

    def __init__(self, api: port.Api, fence: Fence, *, concurrency: int = CONCURRENCY) -> None:
        self.outcomes: Counter[tuple[str, str, str]] = Counter()
        """How many writes ended how, by verb, kind and outcome."""
        self._api = api
        self._fence = fence
        self._slots = asyncio.Semaphore(concurrency)
        self._under_way: set[asyncio.Task[None]] = set()
        self._locks: weakref.WeakValueDictionary[tuple[str, Key], asyncio.Lock] = weakref.WeakValueDictionary()
        self._tells_deadlines = False
        self._refusals: _Refusals | None = None

    def with_deadlines(self) -> "Writer":
        """Return this writer, telling the server, too, when a write must have ended.

        A server that is slow must not write for a leader that was, after the next one has summed up many objects. It
        hands the time on to webhooks and names it in their errors, so others, who guard single objects, do without.
        """
        made = copy.copy(self)
        made._tells_deadlines = True  # noqa: SLF001  # a copy of our own
        return made

    def calmly(self, time: clock.Clock) -> "Writer":
        """Return this writer, which sends what was refused ever more seldom, for whoever plans it again and again.

        Meanwhile it raises HeldBackError. Evictions are not held back: their refusal is a budget's ordinary answer.
        """
        made = copy.copy(self)
        made._refusals = _Refusals(time)  # noqa: SLF001  # a copy of our own
        return made

    def next_at(self) -> float | None:
        """Return when the first write may be sent that is held back now, on the monotonic clock; None: none is."""
        return self._refusals.next_at() if self._refusals is not None else None

    async def create(self, target: Target[T], manifest: Manifest, *, attempts: int = ATTEMPTS) -> None:
        """Create an object whose name the caller chose; where nobody answers, or not now, in so many attempts at most.

        Raises AlreadyExistsError where an object of that name is there, which may be our own doing: an earlier attempt
        whose answer was lost. The table has it then.
        """
        metadata = manifest["metadata"]
        key = Key(metadata.get("namespace", ""), metadata["name"])
        request = port.Request(
            method="POST", path=target.resource.collection(key.namespace or None), body=msgspec.json.encode(manifest)
        )
        try:
            await self._write(_Write("create", target.resource, key, attempts), request, target.remember)
        except port.AlreadyExistsError:
            with contextlib.suppress(port.KubeError, msgspec.MsgspecError, ValueError):
                target.remember(await port.get(self._api, target.resource.path(key.name, key.namespace)))
            raise

    async def patch(
        self,
        target: Target[T],
        key: Key,
        changes: Manifest,
        *,
        only_if: Precondition,
        subresource: str | None = None,
        attempts: int = ATTEMPTS,
    ) -> None:
        """Merge changes into an object, or into a subresource such as `status`."""
        metadata = {**changes.get("metadata", {}), **only_if.as_json()}
        request = port.Request(
            method="PATCH",
            path=target.resource.path(key.name, key.namespace or None, subresource),
            body=msgspec.json.encode({**changes, "metadata": metadata}),
            content_type=port.MERGE_PATCH,
        )
        verb = f"patch_{subresource}" if subresource else "patch"

        def remember(answer: bytes) -> None:
            if wire.DELETED.decode(answer).is_let_go:
                target.forget(key, only_if.uid)
            else:
                target.remember(answer)

        await self._write(_Write(verb, target.resource, key, attempts), request, remember)

    async def patch_status(self, target: Target[T], stored: T, changes: Manifest, *, attempts: int = ATTEMPTS) -> None:
        """Merge changes into the status of the very version they were made from; nothing where there are none."""
        if changes:
            await self.patch(
                target,
                stored.meta.key,
                {"status": changes},
                only_if=Precondition.of(stored),
                subresource="status",
                attempts=attempts,
            )

    async def delete(
        self,
        target: Target[T],
        key: Key,
        *,
        only_if: Precondition,
        grace_seconds: int | None = None,
        attempts: int = ATTEMPTS,
    ) -> None:
        """Delete an object, its dependents after it; one that is gone already is fine."""
        options: dict[str, Any] = {"preconditions": only_if.as_json(), "propagationPolicy": "Background"}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        request = port.Request(
            method="DELETE",
            path=target.resource.path(key.name, key.namespace or None),
            body=msgspec.json.encode(options),
        )

        def remember(answer: bytes) -> None:
            if wire.DELETED.decode(answer).is_gone:
                target.forget(key, only_if.uid)
            else:
                target.remember(answer)

        try:
            await self._write(_Write("delete", target.resource, key, attempts), request, remember)
        except port.NotFoundError:
            target.forget(key, only_if.uid)

    async def evict(self, key: Key, *, only_if: Precondition) -> None:
        """Ask a pod to leave; TooManyRequestsError means a disruption budget holds it."""
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": key.name, "namespace": key.namespace},
            "deleteOptions": {"preconditions": only_if.as_json()},
        }
        request = port.Request(
            method="POST",
            path=kinds.PODS.path(key.name, key.namespace, "eviction"),
            body=msgspec.json.encode(eviction),
        )
        await self._write(_Write("evict", kinds.PODS, key, ATTEMPTS), request, _nothing)

    async def flush(self, within_seconds: float) -> bool:
        """Wait for writes that were sent before we were told to stop; tell whether all of them have ended."""
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=within_seconds)
        return not self._under_way

    async def _write(self, write: "_Write", request: port.Request, remember: Remember) -> None:
        """Write to the end and remember the answer, also when whoever asked for it is cancelled meanwhile."""
        if self._refusals is not None:
            write = self._refusals.checked(write)
        task = asyncio.create_task(self._write_alone(write, request, remember))
        self._under_way.add(task)
        task.add_done_callback(self._ended)
        await asyncio.shield(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # it is counted; where nobody is left who hears of it, asyncio would complain

    async def _write_alone(self, write: "_Write", request: port.Request, remember: Remember) -> None:
        outcome, refusals = "failed", self._refusals if write.verb != "evict" else None
        lock = self._locks.setdefault((write.resource.plural, write.key), asyncio.Lock())
        try:
            async with lock:
                remember(await self._send(request, write))
            outcome = "done"
        except ObservedError:
            outcome = "observed"
        except FencedError:
            outcome = "fenced"
            raise
        except port.ConflictError:
            outcome = "conflict"
            raise
        except port.NotFoundError:
            outcome = "gone"
            raise
        finally:
            self.outcomes[write.verb, write.resource.kind, outcome] += 1
            if refusals is not None:
                refusals.note(write, outcome)

    async def _send(self, request: port.Request, write: "_Write") -> bytes:
        """Send until there is an answer that settles it.

        Every write carries a precondition or a name that the caller chose, so sending it twice does no harm.
        """
        for attempt in range(1, write.attempts + 1):
            is_last, pause = attempt == write.attempts, _BACKOFF.pause(attempt)
            try:
                async with self._slots:  # not while we pause: a few busy objects must not keep the others waiting
                    limit = self._fence.check(request)
                    sent = _within(request, limit) if self._tells_deadlines else request
                    return port.required(await self._api.send(dataclasses.replace(sent, timeout_seconds=limit)))
            except port.UnreachableError:
                if is_last:
                    raise
            except port.TooManyRequestsError as error:
                if is_last or write.verb == "evict":  # a disruption budget holds it
                    raise
                pause = error.retry_after_seconds or pause
            except port.ApiError as error:
                if is_last or error.status < _SERVER_ERROR:
                    raise
            await asyncio.sleep(min(_BACKOFF.longest_seconds, pause))
        raise AssertionError("the last attempt returns or raises")


class _Refusals:
    """Knows which writes were refused, and when each may be sent again."""

    def __init__(self, time: clock.Clock) -> None:
        self._clock = time
        self._refused = backoff.Retries(time, _REFUSED)
        self._conflicts = backoff.Retries(time, _CONFLICTS)

    def checked(self, write: _Write) -> _Write:
        """Return a write as it may be sent now: once only if the last one was refused; HeldBackError: not yet."""
        place = _place(write)
        for retries in (self._refused, self._conflicts):
            if retries.holds(place):
                left = (retries.next_at(place) or 0.0) - self._clock.monotonic()
                failures = retries.failures(place)
                what = f"{write.verb} of {write.resource.kind} {write.key.name}"
                raise HeldBackError(f"{what} was refused {failures} times in a row and is tried again in {left:.0f} s")
        return write._replace(attempts=1) if self._refused.failures(place) else write

    def next_at(self) -> float | None:
        """Return when the first of these may be sent again."""
        return clock.earliest((self._refused.soonest(), self._conflicts.soonest()))

    def note(self, write: _Write, outcome: str) -> None:
        """Take note of what became of a write; who was fenced or only observes was told nothing."""
        if outcome in {"done", "gone", "failed", "conflict"}:
            self._refused.note(_place(write), is_done=outcome != "failed")
            self._conflicts.note(_place(write), is_done=outcome != "conflict")


def _place(write: _Write) -> tuple[str, str, Key]:
    return write.verb, write.resource.plural, write.key


def _within(request: port.Request, seconds: float) -> port.Request:
    return dataclasses.replace(request, query={**request.query, "timeout": f"{max(1, int(seconds * 1000))}ms"})


def _nothing(answer: bytes) -> None:
    del answer
