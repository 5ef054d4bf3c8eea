"""Keep a table equal to what the API server has: list once, then watch, and list again when history is lost.

It gives up on nothing: every failure is counted, told and tried again after a growing, jittered pause. It must not
decide anything about the objects it brings.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Generic, TypeVar

import msgspec
import structlog

from autoscaler import backoff
from autoscaler.kube import kinds, objects, port, store, wire
from autoscaler.kube.reading import listing

T = TypeVar("T", bound=objects.Stored)
_LIST_SECONDS: Final = 60.0
log = structlog.get_logger()


_RETRIES: Final = backoff.Backoff(first_seconds=0.25, longest_seconds=30.0)
_ABSENCES: Final = backoff.Backoff(first_seconds=5.0, longest_seconds=30.0, factor=1.2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long to wait for what."""

    watch_seconds: float = 300.0
    """The server ends a watch after this, at the latest twice this."""
    inactivity_seconds: float = 150.0
    """A watch that says nothing for so long, not even a bookmark, is taken for dead."""
    retries: backoff.Backoff = _RETRIES
    stale_seconds: float = 60.0
    """When nothing has worked for so long, what we know is no longer trusted."""
    absences: backoff.Backoff = _ABSENCES
    """How often to look for a kind that is not served yet, or no more."""


DEFAULT_PACE: Final = Pace()


class State(StrEnum):
    STARTING = "Starting"
    SYNCED = "Synced"
    ABSENT = "Absent"
    """The kind is not served: its definition is not installed."""
    FAILING = "Failing"


class Reflector(Generic[T]):
    """Feeds one table from one collection."""

    def __init__(
        self,
        api: port.Api,
        resource: kinds.ResourceType,
        table: store.Table[T],
        decode: Callable[[bytes | msgspec.Raw], T],
        *,
        namespace: str | None = None,
        pace: Pace = DEFAULT_PACE,
    ) -> None:
        self.resource = resource
        self.state = State.STARTING
        self.problem: str | None = None
        """What is wrong, while the state is Failing."""
        self.restarts = 0
        """How often a watch broke or a list had to be made again."""
        self._api = api
        self._table = table
        self._decode = decode
        self._path = resource.collection(namespace)
        self._pace = pace
        self._random = random.Random(self._path)  # noqa: S311  # jitter, not cryptography
        self._failures = 0
        self._absences = 0
        """How often in a row the kind was not served."""
        self._stale: asyncio.TimerHandle | None = None
        """While nothing works: it ends our trust in what we know, even if an answer is still waited for."""
        self._was_served = False

    async def run(self) -> None:
        """List and watch until cancelled."""
        try:
            await self._follow()
        finally:
            self._settle()

    async def _follow(self) -> None:
        must_list = True
        while True:
            try:
                if must_list:
                    await self._list()
                    must_list = False
                await self._watch()
            except port.ExpiredError:
                self._restarted("watch_expired")
                must_list = True
                await asyncio.sleep(self._backoff())
            except port.NotFoundError:
                self._absent()
                must_list = True
                await asyncio.sleep(self._pace.absences.pause(self._absences))
            except TimeoutError as error:  # it said nothing: perhaps its history is another one than ours
                self._restarted("watch_silent", error)
                self._table.lost()  # an API server that has lost its etcd keeps watches open, and says nothing
                must_list = True
                await asyncio.sleep(self._backoff())
            except (port.KubeError, msgspec.MsgspecError, RecursionError) as error:
                self._restarted("watch_failed", error)
                await asyncio.sleep(self._backoff())

    async def _list(self) -> None:
        listed: list[T] = []
        aside: list[store.Unreadable] = []
        version = 0
        async for page in listing.pages(self._api, self._path, timeout_seconds=_LIST_SECONDS):
            version = int(page.metadata.resource_version)
            for read in map(self._read, page.items):
                if isinstance(read, store.Unreadable):
                    aside.append(read)
                else:
                    listed.append(read)
        self._was_served, self._absences = True, 0
        if version < self._table.resource_version:
            log.warning("history_restarted", kind=self.resource.kind)  # as after a restore from a backup
            self._table.forget()
        self._table.replace(listed, version, aside)
        self._well()

    async def _watch(self) -> None:
        """Watch from where we are until the server ends it; an end without any event at once is a failure."""
        seconds = self._pace.watch_seconds * (1 + self._random.random())
        query = {
            "resourceVersion": str(self._table.resource_version),
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(int(seconds)),
        }
        async with contextlib.aclosing(self._api.watch(self._path, query)) as batches:
            started = asyncio.get_running_loop().time()
            while True:
                async with asyncio.timeout(self._pace.inactivity_seconds):
                    batch = await anext(batches, None)
                if batch is None:
                    break
                self._apply(batch)
                self._well()
        if asyncio.get_running_loop().time() - started < 1:
            raise port.UnreachableError(f"the watch of {self._path} ended at once")

    def _apply(self, batch: Sequence[bytes]) -> None:
        for line in batch:
            event = wire.EVENT.decode(line)
            match event.type:
                case "ADDED" | "MODIFIED" if self._is_echo(event.object):
                    pass
                case "ADDED" | "MODIFIED":
                    read = self._read(event.object)
                    if isinstance(read, store.Unreadable):
                        self._table.put_aside(read.meta, read.problem)
                    else:
                        self._table.seen(read)
                case "DELETED":
                    self._table.gone(objects.simple(event.object).meta)
                case "BOOKMARK":
                    version = objects.simple(event.object).meta.resource_version
                    self._table.resource_version = max(self._table.resource_version, version)
                case _:
                    raise port.error_of(None, bytes(event.object))

    def _is_echo(self, raw: msgspec.Raw) -> bool:
        """Tell whether the answer to a write of ours has brought this already: reading all of it again is dear."""
        if not self._table.awaits_echoes:
            return False
        meta = wire.VERSION.decode(raw).metadata
        return self._table.echoed(objects.Key(meta.namespace, meta.name), int(meta.resource_version))

    def _read(self, raw: msgspec.Raw) -> T | store.Unreadable:
        """Decode an object; one that makes no sense is put aside under its name, and the rest goes on."""
        try:
            return self._decode(raw)
        except Exception as error:  # noqa: BLE001  # whatever it is, no single object may end a watch
            meta = objects.simple(raw).meta
            log.warning("object_unreadable", kind=self.resource.kind, key=meta.key, error=str(error))
            return store.Unreadable(meta, str(error))

    def _well(self) -> None:
        self._failures = 0
        self._settle()
        self.problem = None
        if self._was_served:
            self._table.found()
        if self.state is not State.SYNCED:
            log.info("watch_synced", kind=self.resource.kind, objects=len(self._table))
            self.state = State.SYNCED

    def _absent(self) -> None:
        """Take a kind that was never served for empty; of one that is served no more, nothing is known."""
        if self.state is not State.ABSENT:
            log.warning("kind_not_served", kind=self.resource.kind, path=self._path)
        self._absences += 1
        self._settle()  # an answer, and what it means is said here
        if self._was_served:
            self._table.lost()
        else:
            self._table.replace((), 0)
        self.state = State.ABSENT

    def _restarted(self, event: str, error: Exception | None = None) -> None:
        self.restarts += 1
        self._failures += 1
        self._table.cut_off()
        if self._stale is None:
            self._stale = asyncio.get_running_loop().call_later(self._pace.stale_seconds, self._table.lost)
        self.problem = str(error) if error else None
        if error:
            self.state = State.FAILING
        log.info(event, kind=self.resource.kind, failures=self._failures, error=self.problem)

    def _settle(self) -> None:
        if self._stale is not None:
            self._stale.cancel()
            self._stale = None

    def _backoff(self) -> float:
        return self._pace.retries.jittered(self._failures, self._random)
