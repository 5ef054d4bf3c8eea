"""Play a day: the real controllers on the simulated cluster and cloud, the trace's work, and a record of what came."""

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Final

from autoscaler import control
from autoscaler.api import controllers, keys, names
from autoscaler.api.permissions import WorkerScope
from autoscaler.api.resources.scopes import Scope, ScopeSpec
from autoscaler.cloud import port as cloud
from autoscaler.kube import kinds
from autoscaler.kube.leases import election
from autoscaler.options import Options
from autoscaler.runtime import leadership, planning, process, registry
from autoscaler.runtime.observability import telemetry
from autoscaler.simulate import manifests
from autoscaler.simulate.arrivals import Arrival, arrivals
from autoscaler.simulate.observation import guest_watching, job_watching, observing
from autoscaler.simulate.observation.record import InstanceLife, Record, Target
from autoscaler.simulate.observation.waits import Waits
from autoscaler.simulate.stack import Stack
from autoscaler.simulate.trace import DAY_SECONDS, Guest, QueuedJob, Trace, Work
from autoscaler.simulate.world import NAMESPACE, RUNTIME, World
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cloud.model import Obstacle

IDENTITY: Final = "sluice"
LEASE_SECONDS: Final = 600
"""Nobody else wants the Leases: they are renewed a few hundred times a day instead of twenty thousand."""
PROGRESS_STEPS: Final = 12
"""How often a day is told of as it goes."""
SCRAPE_SECONDS: Final = 60.0
"""How often metrics are read, where somebody reads them."""
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How things stand at a moment of the day."""

    at: float
    instances: int
    running: int
    waiting: int
    """Pods without a place."""
    queued: int
    """Jobs in all queues that workers empty."""
    without_quota: int
    """Queued jobs that wait for quota."""


Report = Callable[[Progress], None]
Scrape = Callable[[float, bytes], None]
"""Takes the moment and the runtime's metrics at it, as /metrics shows them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watch:
    """All that is seen of a day."""

    observer: observing.Observer
    jobs: job_watching.JobWatcher
    guests: guest_watching.GuestWatcher


def play(stack: Stack, trace: Trace, report: Report, scrape: Scrape | None = None) -> Record:
    """Run a day to its end, telling how things stand as it goes; whoever scrapes gets the metrics of each minute."""
    return virtual_time.run(_play(stack, trace, report, scrape), start=trace.starts_at)


async def _play(stack: Stack, trace: Trace, report: Report, scrape: Scrape | None) -> Record:
    time = virtual_time.clock()
    world = World(stack, trace, time)
    watch = _Watch(
        observer=observing.Observer(world.cluster, time),
        jobs=job_watching.JobWatcher(world.cluster, time),
        guests=guest_watching.GuestWatcher(world.cluster, time),
    )
    _hinder(world)
    with watch.observer.listening():
        async with _runtime(world, stack) as metrics:
            _schedule(world, watch)
            if scrape is not None:
                _scrape(world, metrics, scrape)
            for _ in range(PROGRESS_STEPS):
                report(_progress(world, watch))
                await asyncio.sleep(trace.lasts / PROGRESS_STEPS)
            return _record(world, watch)


def _hinder(world: World) -> None:
    trace = world.trace
    for shortage in trace.shortages:
        begins = trace.starts_at + trace.after_start(shortage.begins)
        length = (shortage.ends - shortage.begins) % DAY_SECONDS
        for kind in shortage.instance_types or (None,):
            world.cloud.hinder(
                Obstacle(
                    failure=cloud.LaunchFailure.INSUFFICIENT_CAPACITY,
                    zone=shortage.zone,
                    instance_type=kind,
                    starts_at=begins,
                    ends_at=begins + length,
                )
            )


def _schedule(world: World, watch: _Watch) -> None:
    """Let work come, and Jobs be resized, in their time."""
    loop, trace = asyncio.get_running_loop(), world.trace
    for arrival in arrivals(trace):
        loop.call_later(arrival.after_seconds, _arrive, world, watch, arrival)
    for name, job in trace.jobs.items():
        for each in job.resizes:
            loop.call_later(trace.after_start(each.at), world.resize, name, each.parallelism)


def _scrape(world: World, metrics: telemetry.Metrics, scrape: Scrape) -> None:
    """Hand the metrics over now, and again each minute."""
    scrape(world.clock.now(), metrics.render())
    asyncio.get_running_loop().call_later(SCRAPE_SECONDS, _scrape, world, metrics, scrape)


def _arrive(world: World, watch: _Watch, arrival: Arrival) -> None:
    if arrival.in_queue:
        world.line(arrival.name).push(arrival.takes_seconds)
        return
    name, takes = f"{arrival.name}-{arrival.number:04d}", arrival.takes_seconds
    work = world.trace.work()[arrival.name]
    match work:
        case QueuedJob():
            world.create(manifests.job(name, arrival.name, work, takes), kinds.JOBS)
        case Guest():
            watch.guests.comes(name, work)
            world.admit(manifests.guest(name, arrival.name, work, takes))
        case Work():
            world.create(manifests.pod(name, arrival.name, work, takes), kinds.PODS)


@contextlib.asynccontextmanager
async def _runtime(world: World, stack: Stack) -> AsyncGenerator[telemetry.Metrics, None]:
    """Run one replica of the runtime with all controllers, put together as `run` does, on what is simulated."""
    api, time = world.cluster.client(RUNTIME.user), world.clock
    holder = leadership.holder_of(IDENTITY, "simulate", "0")
    registrations = registry.registrations(controllers.CONTROLLERS, _options(world, stack))
    make = leadership.elector_maker(
        time,
        namespace=NAMESPACE,
        identity=holder,
        terms=election.Terms.of(LEASE_SECONDS),
        elsewhere=registry.lease_namespaces(registrations),
    )
    around = process.Surroundings(
        api=api,
        clock=time,
        leadership=leadership.InLoop(api, make),
        plan=planning.inline,
        namespace=NAMESPACE,
        identity=IDENTITY,
        cluster=stack.groups.cluster,
    )
    replica = process.Process(around, registrations)
    task = asyncio.create_task(replica.run())
    try:
        yield replica.metrics
    finally:
        if task.done():
            task.result()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _options(world: World, stack: Stack) -> Options:
    async def open_cloud(context: control.ControllerContext, name: str, spec: object) -> cloud.Cloud:
        del context, name, spec
        return world.cloud.client(stack.groups.cluster)

    source = random.Random(world.trace.seed)  # noqa: S311  # a simulation, not cryptography
    return Options(
        open_queues=lambda _: world.lines,
        open_cloud=open_cloud,
        scope=WorkerScope.CLUSTER,
        scaling=stack.scaling,
        elastic_jobs=stack.queued_jobs.feature_gates.elastic_jobs,
        pods_ready_timeout_seconds=stack.queued_jobs.pods_ready_timeout_seconds,
        suffix=lambda: "".join(source.choices(_LETTERS, k=names.POD_SUFFIX_LENGTH)),
    )


def _progress(world: World, watch: _Watch) -> Progress:
    return Progress(
        at=world.clock.now(),
        instances=sum(len(group.members) for group in world.cloud.groups.values()),
        running=watch.observer.running,
        waiting=watch.observer.waiting,
        queued=sum(len(world.line(name)) for name in world.trace.queues),
        without_quota=watch.jobs.waiting,
    )


def _record(world: World, watch: _Watch) -> Record:
    observer = watch.observer
    instances = tuple(
        InstanceLife(
            id=one.id,
            key=one.key,
            capacity_type=one.capacity_type,
            launched_at=one.launched_at,
            ended_at=one.ended_at,
        )
        for one in world.cloud.instances.values()
    )
    return Record(
        starts_at=world.trace.starts_at,
        ends_at=world.clock.now(),
        instances=instances,
        waits=_waits(world, observer),
        groups={str(spec.name): spec.key for spec in world.specs.values()},
        logs=observer.logs,
        told=observer.told,
        pods_by_pool=observer.pods_by_pool,
        pods=observer.pods,
        targets=_targets(world),
        queued=watch.jobs.seen(),
        guests=watch.guests.seen(),
    )


def _waits(world: World, observer: observing.Observer) -> tuple[Waits, ...]:
    trace = world.trace
    jobs = tuple(
        Waits(scope=_scope(world, queue.namespace), work=name, what="jobs", waits=world.line(name).all_waits())
        for name, queue in trace.queues.items()
    )
    pods = tuple(
        Waits(scope=_scope(world, work.namespace), work=name, what="pods", waits=observer.waits(name))
        for name, work in trace.pods.items()
    )
    return jobs + pods


def _targets(world: World) -> tuple[Target, ...]:
    """Return the target latencies of scopes."""
    found = world.cluster.server.store.collection(kinds.custom(Scope)).entries
    scopes = {key.name: ScopeSpec.model_validate(entry.object["spec"]) for key, entry in sorted(found.items())}
    return tuple(
        Target(scope=name, pool=entry.name, seconds=entry.limits.target_latency_seconds)
        for name, spec in scopes.items()
        for entry in sorted(spec.pools, key=lambda each: -each.priority)
        if entry.limits.target_latency_seconds is not None
    )


def _scope(world: World, namespace: str) -> str:
    """Return the scope of a namespace; empty if it has none."""
    return world.namespace_labels(namespace).get(keys.SCOPE, "")
