"""A simulated cluster with a watched table and a writer, for tests of the engine."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from autoscaler.kube import kinds, objects, port, store
from autoscaler.kube.reading import reflector
from autoscaler.kube.writing import writer
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cluster import SimulatedCluster

ENGINE = "engine"
"""The identity of the code under test; faults are aimed at it."""


class OpenFence:
    """Lets everything pass."""

    def check(self, request: port.Request) -> float:
        return request.timeout_seconds


def manifest(name: str, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default", **metadata}}


def key(name: str) -> objects.Key:
    return objects.Key("default", name)


@dataclass
class Bench:
    """A cluster, and the table of its ConfigMaps kept by a reflector."""

    cluster: SimulatedCluster
    table: store.Table[objects.Simple]
    reflector: "reflector.Reflector[objects.Simple]"
    target: "writer.Target[objects.Simple]"
    writer: "writer.Writer"
    changes: list[str] = field(default_factory=list)

    def create(self, name: str, **metadata: Any) -> dict[str, Any]:
        """Create a ConfigMap as somebody else."""
        return self.cluster.create(kinds.CONFIG_MAPS, manifest(name, **metadata))

    def known(self) -> set[str]:
        return {stored.meta.key.name for stored in self.table if stored.meta.key.namespace == "default"}


@contextlib.asynccontextmanager
async def bench(
    *, fence: writer.Fence | None = None, pace: reflector.Pace = reflector.DEFAULT_PACE, latency_seconds: float = 0.005
) -> AsyncGenerator[Bench, None]:
    """Start the reflector and wait for its first list."""
    cluster = SimulatedCluster(virtual_time.clock(), latency_seconds=latency_seconds)
    api = cluster.client(ENGINE)
    table: store.Table[objects.Simple] = store.Table()
    watched = reflector.Reflector(api, kinds.CONFIG_MAPS, table, objects.simple, pace=pace)
    target = writer.Target(resource=kinds.CONFIG_MAPS, decode=objects.simple, table=table)
    made = Bench(cluster, table, watched, target, writer.Writer(api, fence or OpenFence()))
    table.listen(lambda old, new: made.changes.append(_told(old, new)))
    task = asyncio.create_task(watched.run())
    await asyncio.sleep(0.1 + 2 * latency_seconds)
    assert table.synced
    try:
        yield made
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def simulated(
    test: Callable[[], Coroutine[Any, Any, None]], *, start: float = virtual_time.START
) -> Callable[[], None]:
    """Run a test in virtual time."""

    def run() -> None:
        virtual_time.run(test(), start=start)

    run.__dict__.update(test.__dict__)  # its marks
    run.__name__ = test.__name__
    run.__doc__ = test.__doc__
    return run


def _told(old: objects.Simple | None, new: objects.Simple | None) -> str:
    if new is None:
        return f"-{old.meta.key.name}" if old else ""
    return f"{'~' if old else '+'}{new.meta.key.name}"
