"""What a controller is to the runtime, and what the runtime gives it to stand on."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

import msgspec

from autoscaler import clock
from autoscaler.kube import events, kinds, objects, reflector, store, writer

T = TypeVar("T", bound=objects.Stored)
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


class Planner(Protocol):
    """Runs a pure function without holding up the loop."""

    async def __call__(self, function: Callable[..., R], *arguments: Any) -> R: ...  # noqa: ANN401  # any function's


async def in_thread(function: Callable[..., R], *arguments: Any) -> R:  # noqa: ANN401
    """Plan in a thread, so that health checks, watches and deadlines go on meanwhile.

    The thread is a daemon: a plan that takes long must not keep the process from ending.
    """
    loop = asyncio.get_running_loop()
    planned: asyncio.Future[R] = loop.create_future()

    def work() -> None:
        try:
            settle = partial(_settle, planned, function(*arguments), None)
        except Exception as error:  # noqa: BLE001  # it belongs to whoever waits for the plan
            settle = partial(_settle, planned, None, error)
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(settle)

    threading.Thread(target=work, name="planning", daemon=True).start()
    return await planned


def _settle(planned: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
    if planned.done():  # nobody waits any more
        return
    if error is None:
        planned.set_result(result)
    else:
        planned.set_exception(error)


async def inline(function: Callable[..., R], *arguments: Any) -> R:  # noqa: ANN401
    """Plan on the spot: in virtual time a plan takes no time."""
    return function(*arguments)


class Source(Protocol):
    """Something that feeds a controller with what happens outside: a watch, a queue, a cloud."""

    async def run(self) -> None:
        """Go on until cancelled."""
        ...

    def unsynced(self) -> str | None:
        """Return what is still missing before anything may be decided; None if nothing is."""
        ...


class Watches:
    """The watches of this process: one for each kind and namespace, however many controllers read it."""

    def __init__(self, start: Callable[..., reflector.Reflector[Any]]) -> None:
        self._start = start
        self._tables: dict[tuple[str, str | None], store.Table[Any]] = {}
        self.reflectors: dict[tuple[str, str | None], reflector.Reflector[Any]] = {}

    def table(
        self,
        resource: kinds.ResourceType,
        decode: Callable[[bytes | msgspec.Raw], T],
        namespace: str | None = None,
    ) -> store.Table[T]:
        """Return the table of a kind; the first call starts its watch."""
        place = (resource.collection(), namespace)
        if place not in self._tables:
            self._tables[place] = store.Table()
            self.reflectors[place] = self._start(resource, self._tables[place], decode, namespace=namespace)
        return self._tables[place]


@dataclass(frozen=True, slots=True, kw_only=True)
class Footing:
    """What a controller stands on."""

    clock: clock.Clock
    writer: writer.Writer
    recorder: events.Recorder
    plan: Planner
    watch: Callable[..., store.Table[Any]]
    """`watch(resource, decode, namespace=None)`: the table of a kind; its changes wake the controller."""
    feed: Callable[[Source], None]
    """Run a source for as long as the controller runs."""
    wake: Callable[[str, objects.Key], None]
    """Wake the controller, saying what for."""


Build = Callable[[Footing], Controller]
