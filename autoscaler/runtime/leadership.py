"""Hold the Leases of this process, in a thread of its own, so that a busy loop cannot lose them.

In a simulation they are held in the one loop there is.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Protocol

import structlog

from autoscaler import clock
from autoscaler.kube import port
from autoscaler.kube.connection import client, credentials
from autoscaler.kube.leases import election

log = structlog.get_logger()
CONNECTIONS: Final = 4
JOIN_SECONDS: Final = 10.0
_START_CHECK_SECONDS: Final = 0.02
MakeElector = Callable[[port.Api, str], election.Elector]


class Leadership(Protocol):
    """The Leases of this process."""

    async def start(self, names: Sequence[str]) -> None:
        """Begin to try for these Leases."""
        ...

    def remaining(self, name: str) -> float:
        """Return for how many seconds we may act under a Lease."""
        ...

    def holder(self, name: str) -> str | None:
        """Return who held a Lease when it was last seen."""
        ...

    def vacant_since(self, name: str) -> float | None:
        """Return when whoever led before us last renewed a Lease; None: nobody did."""
        ...

    def failure(self) -> str | None:
        """Return why nobody tries for the Leases any more; None while somebody does."""
        ...

    async def stop(self, *, release: bool) -> None:
        """End, and release the Leases if nothing of ours is under way any more; otherwise they expire."""
        ...


class InLoop:
    """Leadership in the caller's own loop."""

    def __init__(self, api: port.Api, make: MakeElector) -> None:
        self._api = api
        self._make = make
        self._electors: dict[str, election.Elector] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, names: Sequence[str]) -> None:
        self._electors = {name: self._make(self._api, name) for name in names}
        self._tasks = [asyncio.create_task(elector.run()) for elector in self._electors.values()]

    def remaining(self, name: str) -> float:
        return self._electors[name].remaining() if name in self._electors else 0.0

    def holder(self, name: str) -> str | None:
        return self._electors[name].holder if name in self._electors else None

    def vacant_since(self, name: str) -> float | None:
        return self._electors[name].vacant_since if name in self._electors else None

    def failure(self) -> str | None:
        ended = next((task for task in self._tasks if task.done()), None)
        return f"an elector ended: {ended!r}" if ended else None

    async def until(self, stop: asyncio.Event) -> None:
        """Wait for the word to stop; raise if an elector ends before."""
        told = asyncio.create_task(stop.wait())
        done, _ = await asyncio.wait({told, *self._tasks}, return_when=asyncio.FIRST_COMPLETED)
        if told not in done:
            told.cancel()
            raise RuntimeError(self.failure() or "an elector ended")

    async def stop(self, *, release: bool) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for elector in self._electors.values() if release else ():
            await elector.release()


class InThread:
    """Leadership in a thread with its own loop and its own connections."""

    def __init__(self, origin: credentials.Origin, make: MakeElector) -> None:
        self._origin = origin
        self._make = make
        self._inner: InLoop | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._release = True

    async def start(self, names: Sequence[str]) -> None:
        started = threading.Event()
        self._thread = threading.Thread(target=self._main, args=(names, started), name="leadership", daemon=True)
        self._thread.start()
        while not started.is_set():  # noqa: ASYNC110  # a thread's event, and waiting for that in a thread never ends
            await asyncio.sleep(_START_CHECK_SECONDS)
        if self._failure is not None:
            raise self._failure

    def remaining(self, name: str) -> float:
        return self._inner.remaining(name) if self._inner else 0.0

    def holder(self, name: str) -> str | None:
        return self._inner.holder(name) if self._inner else None

    def vacant_since(self, name: str) -> float | None:
        return self._inner.vacant_since(name) if self._inner else None

    async def stop(self, *, release: bool) -> None:
        self._release = release
        if self._loop is not None and self._stop is not None and self._thread is not None:
            with contextlib.suppress(RuntimeError):  # its loop has ended already
                self._loop.call_soon_threadsafe(self._stop.set)
            await asyncio.to_thread(self._thread.join, JOIN_SECONDS)

    def failure(self) -> str | None:
        return repr(self._failure) if self._failure is not None else None

    def _main(self, names: Sequence[str], started: threading.Event) -> None:
        try:
            asyncio.run(self._run(names, started))
        except BaseException as error:  # whoever watches over the process asks for it
            log.exception("leadership_ended", error=str(error))
            self._failure = error
        finally:
            started.set()

    async def _run(self, names: Sequence[str], started: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        async with contextlib.aclosing(await client.Client.connect(self._origin, connections=CONNECTIONS)) as connected:
            self._inner = InLoop(connected, self._make)
            await self._inner.start(names)
            started.set()
            await self._inner.until(self._stop)
            await self._inner.stop(release=self._release)


def holder_of(identity: str, pod_name: str, token: str) -> str:
    """Name one process: replicas share an identity, and a restarted container has its pod's name."""
    return f"{identity}_{pod_name}_{token}"


def identity_of(holder: str) -> str:
    """Return the identity that a holder acts under: replicas of one runtime share it."""
    return holder.rsplit("_", 2)[0]


def pod_of(holder: str) -> str:
    """Return the name of the replica, which is its pod's where it is one."""
    return holder.rsplit("_", 2)[-2] if holder.count("_") > 1 else holder


def elector_maker(
    time: clock.Clock,
    *,
    namespace: str,
    identity: str,
    terms: election.Terms,
    elsewhere: Mapping[str, str] = MappingProxyType({}),
) -> MakeElector:
    """Return how this process makes its electors; `elsewhere` names the Leases of other namespaces."""

    def make(api: port.Api, name: str) -> election.Elector:
        return election.Elector(
            api, time, namespace=elsewhere.get(name, namespace), name=name, identity=identity, terms=terms
        )

    return make
