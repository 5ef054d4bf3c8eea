"""One process of the runtime: its watches, Leases and controllers, from start to clean end.

It runs unchanged on a real and on a simulated cluster; what differs is given to it as its surroundings.
"""

import asyncio
import contextlib
import dataclasses
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import structlog

from autoscaler import clock, control
from autoscaler.api import keys
from autoscaler.control import metrics
from autoscaler.kube import kinds, objects, port, store
from autoscaler.kube.reading import reflector
from autoscaler.kube.writing import events, writer
from autoscaler.runtime import compatibility, fence, leadership, loop, pausing, unreadable, watches
from autoscaler.runtime.observability import telemetry
from autoscaler.runtime.plans import plan_source

log = structlog.get_logger()
CHECK_SECONDS: Final = 2.0
SOURCE_PAUSE_SECONDS: Final = 5.0
RIVAL_SECONDS: Final = 10.0
_SERVER_ERROR: Final = 500
_RIVAL_ADVICE: Final = (
    "another operator does this work, so this one does not: give them different classes or scopes, "
    "let only one of them handle pools without a class, or remove one"
)
GRACE_SECONDS: Final = 10.0
"""How long a cycle may go on after we were told to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A controller of this process: the Lease it acts under, and how it is made."""

    lease: str
    build: control.Build
    lease_namespace: str | None = None
    """Where the Lease is; None: in the runtime's own namespace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a process finds around it."""

    api: port.Api
    clock: clock.Clock
    leadership: leadership.Leadership
    plan: control.Planner
    namespace: str
    identity: str
    observe: bool = False
    api_server: str = "https://kubernetes.default.svc"
    """The API server's URL."""
    cluster: str = ""
    """The cluster's name, which every metric carries."""


class Process:
    """A replica of the runtime."""

    def __init__(self, around: Surroundings, registrations: Mapping[str, Registration]) -> None:
        self.metrics = telemetry.Metrics(around.cluster)
        self._around = around
        self._registrations = registrations
        self._watches = watches.Watches(self._reflector)
        self._namespaces = self._watches.table(kinds.NAMESPACES, objects.simple)
        self._own_namespace = objects.Key("", around.namespace)
        self._runners: dict[str, loop.Runner] = {}
        self._writers: dict[str, writer.Writer] = {}
        self._recorders: dict[str, events.Recorder] = {}
        self._reporters: dict[str, unreadable.Reporter] = {}
        self._pause_reporters: dict[str, pausing.Reporter] = {}
        self._pause_writers: dict[str, writer.Writer] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._planned: dict[str, plan_source.Planned] = {}
        self.plans = plan_source.PlanSource(around.clock, self._planned)
        self._waits_for: str | None = "the API server was not asked yet"
        self.metrics.measure(self._collect)

    async def run(self) -> None:
        """Check, start everything and go on until cancelled; then end cleanly and release the Leases."""
        await self._check()
        leases = sorted({registration.lease for registration in self._registrations.values()})
        async with self._background(leases):
            await self._around.leadership.start(leases)
            await self._until_one_dies()

    @property
    def waits_for(self) -> str | None:
        """What keeps this replica from starting; None once it has."""
        return self._waits_for

    def unready(self) -> list[str]:
        """Return what is missing before this replica could act, were it to lead."""
        if self._waits_for:
            return [f"not started: {self._waits_for}"]
        return sorted({missing for source in self._sources() if (missing := source.unsynced())})

    def dead(self) -> list[str]:
        """Return what ended although it never should."""
        ended = [name for name, task in self._tasks.items() if task.done()]
        failure = self._around.leadership.failure()
        return [*ended, f"leadership: {failure}"] if failure else ended

    async def _check(self) -> None:
        """Ask whether we fit together, as soon as there is somebody to ask."""
        while True:
            try:
                return await compatibility.check(self._around.api)
            except (port.UnreachableError, port.TooManyRequestsError) as error:
                self._waits_for = str(error)
            except port.ApiError as error:
                if error.status < _SERVER_ERROR:
                    raise
                self._waits_for = str(error)
            log.warning("api_server_not_ready", error=self._waits_for)
            await asyncio.sleep(CHECK_SECONDS)

    @contextlib.asynccontextmanager
    async def _background(self, leases: Sequence[str]) -> AsyncGenerator[None, None]:
        cycles = {f"unreadable {lease}": self._start_reporter(lease) for lease in leases}
        cycles |= {f"pause {lease}": self._start_pause_reporter(lease) for lease in leases}
        cycles |= {name: self._start(name, registration) for name, registration in self._registrations.items()}
        self._waits_for = None
        for place, watched in self._watches.reflectors.items():
            self._spawn(f"watch {place[0]} {place[1] or ''}", watched.run())
        for lease in leases:
            self._spawn(f"events {lease}", self._recorder(lease).run())
        self._spawn("rivals", self._watch_rivals())
        if self._around.observe:
            self._spawn("plans", self.plans.log_changes())
        try:
            for name, run in cycles.items():
                self._spawn(f"controller {name}", run)
            yield
        finally:
            await self._end()

    async def _until_one_dies(self) -> None:
        done, _ = await asyncio.wait(self._tasks.values(), return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            log.error("task_ended", task=task.get_name())
            task.result()
            raise RuntimeError(f"{task.get_name()} ended, which it never should")

    async def _end(self) -> None:
        """Cancel cycles, tell what is left to tell, wait for writes that were sent, and give the Leases back."""
        log.info("stopping")
        for task in self._tasks.values():
            task.cancel()
        await asyncio.wait(self._tasks.values(), timeout=GRACE_SECONDS)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE_SECONDS / 2):
                for recorder in self._recorders.values():
                    await recorder.flush()
        writers = [*self._writers.values(), *self._pause_writers.values()]
        drained = await asyncio.gather(*(each.flush(GRACE_SECONDS / 2) for each in writers))
        await self._around.leadership.stop(release=all(drained))
        log.info("stopped")

    async def _watch_rivals(self) -> None:
        """Say when a Lease of ours is held by another operator: it would do our work, and we stand by for nothing."""
        told: dict[str, str] = {}
        while True:
            await asyncio.sleep(RIVAL_SECONDS)
            rivals = self._rivals()
            for lease, holder in rivals.items():
                if told.get(lease) != holder:
                    log.warning("rival_operator", lease=lease, holder=holder, advice=_RIVAL_ADVICE)
            told = rivals

    def _rivals(self) -> dict[str, str]:
        """Return who holds our Leases without being a replica of ours, by Lease."""
        around = self._around
        holders = {each.lease: around.leadership.holder(each.lease) for each in self._registrations.values()}
        return {
            lease: holder
            for lease, holder in holders.items()
            if holder and leadership.identity_of(holder) != around.identity
        }

    def _start(self, name: str, registration: Registration) -> Any:  # noqa: ANN401  # a coroutine
        lease = registration.lease
        runner = self._runner(name, lease)
        controller = registration.build(self._context(runner, lease))
        self._planned[name] = plan_source.Planned(
            controller=controller,
            leader=lambda: self._around.leadership.holder(lease),
            closed=self._fence(lease).closed,
            unsynced=runner.unsynced,
        )
        return runner.run(controller)

    def _start_reporter(self, lease: str) -> Any:  # noqa: ANN401  # a coroutine
        runner = self._runner(f"unreadable {lease}", lease)
        self._reporters[lease] = unreadable.Reporter(self._context(runner, lease))
        return runner.run(self._reporters[lease])

    def _start_pause_reporter(self, lease: str) -> Any:  # noqa: ANN401  # a coroutine
        """Run what alone goes on while we are paused: it says so."""
        even_if_paused = self._fence(lease, is_paused=lambda: False)
        runner = self._runner(f"pause {lease}", lease, even_if_paused)
        self._pause_writers[lease] = writer.Writer(self._around.api, pausing.Fence(even_if_paused))
        context = dataclasses.replace(self._context(runner, lease), writer=self._pause_writers[lease])
        self._pause_reporters[lease] = pausing.Reporter(context, lease=lease, is_paused=self._is_paused)
        self._namespaces.listen(lambda old, new: self._wake_if_own(runner, new or old))
        return runner.run(self._pause_reporters[lease])

    def _wake_if_own(self, runner: loop.Runner, changed: objects.Simple | None) -> None:
        if changed is not None and changed.meta.key.name == self._around.namespace:
            runner.wake(kinds.NAMESPACES.kind, changed.meta.key)

    def _runner(self, name: str, lease: str, own_fence: fence.Fence | None = None) -> loop.Runner:
        runner = loop.Runner(name, self._around.clock, own_fence or self._fence(lease), self.metrics)
        runner.sources.append(_Synced(self._watches.reflectors, kinds.NAMESPACES, None, self._namespaces))
        self._runners[name] = runner
        return runner

    def _context(self, runner: loop.Runner, lease: str) -> control.ControllerContext:
        return control.ControllerContext(
            clock=self._around.clock,
            identity=self._around.identity,
            namespace=self._around.namespace,
            api=self._around.api,
            api_server=self._around.api_server,
            writer=self._writer(lease),
            recorder=self._recorder(lease),
            plan=self._around.plan,
            watch=self._watcher(runner, lease),
            feed=lambda source: self._feed(runner, source),
            wake=runner.wake,
            held_back=runner.held_back,
            is_paused=lambda: self._fence(lease).closed() is fence.Closed.PAUSED,
            vacant_since=lambda: self._around.leadership.vacant_since(lease),
            may_act=self._fence(lease).permits,
            measure=self.metrics.measure,
        )

    def _watcher(self, runner: loop.Runner, lease: str) -> Callable[..., store.Table[Any]]:
        def watch(
            resource: kinds.ResourceType, decode: Callable[..., Any], namespace: str | None = None
        ) -> store.Table[Any]:
            if self._waits_for is None:
                raise RuntimeError(f"{runner.name} asks for {resource.kind} too late: watch in the constructor")
            table = self._watches.table(resource, decode, namespace)
            self._reporters[lease].add(resource, table)
            self._pause_reporters[lease].add(resource, table)
            runner.tables.append((resource.kind, table))
            table.listen(lambda old, new: _wake(runner, resource.kind, new or old))
            runner.sources.append(_Synced(self._watches.reflectors, resource, namespace, table))
            return table

        return watch

    def _feed(self, runner: loop.Runner, source: control.Source) -> None:
        runner.sources.append(source)
        self._spawn(f"source {runner.name} {len(runner.sources)}", self._keep_running(runner.name, source))

    async def _keep_running(self, name: str, source: control.Source) -> None:
        """Run a source; one that fails or ends is told of and started again, and the others go on."""
        while True:
            try:
                await source.run()
                log.error("source_ended", controller=name)
            except Exception:
                log.exception("source_failed", controller=name)
            await asyncio.sleep(SOURCE_PAUSE_SECONDS)

    def _spawn(self, name: str, work: Any) -> None:  # noqa: ANN401  # a coroutine
        if name in self._tasks:
            raise AssertionError(f"two tasks are called {name}")
        self._tasks[name] = asyncio.create_task(work, name=name)

    def _fence(self, lease: str, is_paused: Callable[[], bool] | None = None) -> fence.Fence:
        around = self._around
        return fence.Fence(
            remaining=lambda: around.leadership.remaining(lease),
            is_paused=is_paused or self._is_paused,
            observe=around.observe,
            monotonic=around.clock.monotonic,
        )

    def _writer(self, lease: str) -> writer.Writer:
        return self._writers.setdefault(lease, writer.Writer(self._around.api, self._fence(lease)))

    def _recorder(self, lease: str) -> events.Recorder:
        around = self._around
        made = events.Recorder(around.api, self._fence(lease), around.clock, component=around.identity)
        return self._recorders.setdefault(lease, made)

    def _reflector(self, *arguments: Any, **options: Any) -> reflector.Reflector[Any]:  # noqa: ANN401
        return reflector.Reflector(self._around.api, *arguments, **options)

    def _is_paused(self) -> bool:
        own = self._namespaces.get(self._own_namespace)
        return own is not None and own.meta.annotations.get(keys.PAUSED) == "true"

    def _sources(self) -> Iterable[control.Source]:
        own = _Synced(self._watches.reflectors, kinds.NAMESPACES, None, self._namespaces)
        return [own, *(source for runner in self._runners.values() for source in runner.sources)]

    def _restarts(self) -> Counter[str]:
        restarts: Counter[str] = Counter()
        for watched in self._watches.reflectors.values():
            restarts[watched.resource.kind] += watched.restarts
        return restarts

    def _paused_outcomes(self, lease: str) -> Counter[tuple[str, str, str]]:
        return self._pause_writers[lease].outcomes if lease in self._pause_writers else Counter()

    def _collect(self) -> Iterable[metrics.Metric]:
        yield from self._states()
        yield from self._counts()

    def _states(self) -> Iterable[metrics.Metric]:
        around = self._around
        leases = {registration.lease for registration in self._registrations.values()}
        yield metrics.gauge(
            "sluice_leader",
            "Whether this replica acts under a Lease.",
            [({"lease": lease}, float(around.leadership.remaining(lease) > 0)) for lease in sorted(leases)],
        )
        yield metrics.gauge(
            "sluice_paused",
            "1 while the annotation on the runtime's namespace pauses it.",
            [({}, float(self._is_paused()))],
        )
        yield metrics.gauge(
            "sluice_observing", "1 while the runtime only observes and writes nothing.", [({}, float(around.observe))]
        )
        yield metrics.gauge(
            "sluice_rival_operator",
            "1 while a Lease of ours is held by another operator.",
            [({"lease": lease, "holder": holder}, 1.0) for lease, holder in sorted(self._rivals().items())],
        )
        yield metrics.gauge(
            "sluice_oldest_change_seconds",
            "How long the oldest change has waited for a cycle.",
            [({"controller": name}, runner.oldest_change_seconds()) for name, runner in self._runners.items()],
        )

    def _counts(self) -> Iterable[metrics.Metric]:
        yield metrics.counter(
            "sluice_watch_restarts",
            "How often a watch broke or a list had to be made again.",
            [({"kind": kind}, count) for kind, count in sorted(self._restarts().items())],
        )
        yield metrics.counter(
            "sluice_events_dropped",
            "Events about objects that were not sent.",
            [({"lease": lease}, recorder.dropped) for lease, recorder in self._recorders.items()],
        )
        yield metrics.counter(
            "sluice_writes",
            "Writes to the API server, by verb, kind and outcome.",
            [
                ({"lease": lease, "verb": verb, "kind": kind, "outcome": outcome}, count)
                for lease, made in self._writers.items()
                for (verb, kind, outcome), count in sorted((made.outcomes + self._paused_outcomes(lease)).items())
            ],
        )


def _wake(runner: loop.Runner, kind: str, changed: objects.Stored | None) -> None:
    if changed is not None:
        runner.wake(kind, changed.meta.key)


@dataclass(frozen=True, slots=True)
class _Synced:
    """A watch as a source: run elsewhere, asked here whether its first list is complete."""

    reflectors: Mapping[tuple[str, str | None], reflector.Reflector[Any]]
    resource: kinds.ResourceType
    namespace: str | None
    table: store.Table[Any]

    async def run(self) -> None:
        await asyncio.Event().wait()

    def unsynced(self) -> str | None:
        if self.table.synced:
            return None
        watched = self.reflectors[self.resource.collection(), self.namespace]
        return f"{self.resource.kind}: {watched.state}" + (f", {watched.problem}" if watched.problem else "")
