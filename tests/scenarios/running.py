"""A replica of the runtime on a simulated cluster, for as long as a test needs it."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping

from autoscaler import control
from autoscaler.api import policies
from autoscaler.cloud import port as cloud
from autoscaler.kube import port
from autoscaler.kube.leases import election
from autoscaler.options import Options
from autoscaler.queues import port as queues
from autoscaler.runtime import leadership, planning, process, registry
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cluster import SimulatedCluster

NAMESPACE = "default"
Wrap = Callable[[port.Api], port.Api]


def _no_queues(context: control.ControllerContext) -> queues.Queues:
    raise AssertionError(f"{context.identity} asks for queues: the world of this test has none")


async def _no_cloud(context: control.ControllerContext, name: str, spec: object) -> cloud.Cloud:
    raise AssertionError(f"{context.identity} asks for {name}, {spec}: the world of this test has no cloud")


NOTHING_OUTSIDE = Options(open_queues=_no_queues, open_cloud=_no_cloud)
"""A world without anything beside the cluster; `dataclasses.replace` adds what a test has."""


def guarded(runtime: policies.Runtime, *, latency_seconds: float) -> SimulatedCluster:
    """Make a cluster with our definitions, and with all policies in force for a runtime."""
    chosen = policies.for_runtime(runtime)
    cluster = SimulatedCluster(virtual_time.clock(), latency_seconds=latency_seconds, admission_policies=chosen)
    cluster.install_definitions()
    cluster.install_policies(runtime)
    return cluster


@contextlib.asynccontextmanager
async def replica(  # noqa: PLR0913  # each test sets what matters
    cluster: SimulatedCluster,
    registrations: Mapping[str, process.Registration],
    *,
    identity: str = "sluice",
    pod: str = "a",
    observe: bool = False,
    wrap: Wrap | None = None,
    user: str | None = None,
) -> AsyncGenerator[process.Process, None]:
    """Run controllers in virtual time; at the end they stop cleanly. The API server knows them as this user."""
    plain, time = cluster.client(user or pod), virtual_time.clock()
    api: port.Api = wrap(plain) if wrap else plain
    holder = leadership.holder_of(identity, pod, "0")
    make = leadership.elector_maker(
        time,
        namespace=NAMESPACE,
        identity=holder,
        terms=election.Terms(),
        elsewhere=registry.lease_namespaces(registrations),
    )
    around = process.Surroundings(
        api=api,
        clock=time,
        leadership=leadership.InLoop(api, make),
        plan=planning.inline,
        namespace=NAMESPACE,
        identity=identity,
        observe=observe,
    )
    made = process.Process(around, registrations)
    task = asyncio.create_task(made.run())
    try:
        yield made
    finally:
        assert not task.done() or not task.exception(), task.exception()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
