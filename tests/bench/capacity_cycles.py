"""Capacity: what one cycle costs while a pod comes and goes beside many nodes that have work. In virtual time."""

import asyncio
import dataclasses
import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

from autoscaler import control
from autoscaler.cloud import port as cloud
from autoscaler.runtime import process
from autoscaler.runtime.commands import run
from autoscaler.simulation import virtual_time
from tests.bench import removing, results
from tests.scenarios import capacity_world, running

SIZES: Final = (1_000, 10_000)
PODS_EACH: Final = 10
ROUNDS: Final = 30
CHANGES_EACH: Final = 3
"""A pod comes and is bound at once, it starts a second later, and it ends half a second after its deletion."""
PERIOD_SECONDS: Final = 2.0
SETTLE_SECONDS: Final = 180.0
QUIET_SECONDS: Final = 120.0
R = TypeVar("R")


@dataclass(slots=True)
class Work:
    """The processor time of each cycle, with what the simulated API server needs for what a cycle writes."""

    seconds: list[float] = field(default_factory=list)
    is_planned: bool = False

    def build(self, make: control.Build, context: control.ControllerContext) -> control.Controller:
        """Make a controller, and measure it."""
        planner = context.plan

        async def plan(function: Callable[..., R], *arguments: Any) -> R:
            self.is_planned = True
            return await planner(function, *arguments)

        return _Measured(make(dataclasses.replace(context, plan=plan)), self)

    def figures(self, changes: int) -> dict[str, float]:
        """Tell of the cycles since the last time."""
        seconds, self.seconds = self.seconds, []
        return {
            "cycle_ms": 1000 * statistics.median(seconds),
            "worst_ms": 1000 * max(seconds),
            "cycles_per_change": len(seconds) / changes,
        }


@dataclass(slots=True)
class _Measured:
    inner: control.Controller
    work: Work

    async def reconcile(self, dirty: control.Dirty) -> float | None:
        """Reconcile; where nothing was planned, it was no cycle."""
        self.work.is_planned = False
        started = time.process_time()
        wake_at = await self.inner.reconcile(dirty)
        if self.work.is_planned:
            self.work.seconds.append(time.process_time() - started)
        return wake_at


def cycles(scale: float) -> None:
    """A pod comes and goes every two seconds beside 1,000 and 10,000 nodes with 10 pods each; 1,000 nodes fall idle."""
    for size in SIZES:
        virtual_time.run(measure(max(10, int(size * scale))))
    removing.removals(scale)


async def measure(nodes: int) -> None:
    """Measure the cycles beside so many nodes."""
    world, work = capacity_world.World(), Work()
    await _fill(world, nodes)
    gc.collect()
    gc.freeze()  # the world: beside a runtime there is none in its process
    gc.set_threshold(run.YOUNG_OBJECTS)
    made = capacity_world.registrations(world, partial(_open, world))
    measured = {name: _with(each, work) for name, each in made.items()}
    async with running.replica(world.cluster, measured):
        await asyncio.sleep(SETTLE_SECONDS)
        work.figures(1)
        await asyncio.sleep(QUIET_SECONDS)
        quiet = work.figures(1)["cycle_ms"]
        await _come_and_go(world)
        results.tell(
            "cycles", nodes=nodes, pods=nodes * PODS_EACH, quiet_ms=quiet, **work.figures(ROUNDS * CHANGES_EACH)
        )


def _with(registration: process.Registration, work: Work) -> process.Registration:
    return dataclasses.replace(registration, build=partial(work.build, registration.build))


async def _open(world: capacity_world.World, context: object, name: str, spec: object) -> cloud.Cloud:
    del context, name, spec
    return world.cloud.client()


async def _fill(world: capacity_world.World, nodes: int) -> None:
    """Have so many nodes, and bind pods to each; the scheduler has no say, for it looks at each node for each pod."""
    world.add_pool(types=("m5.4xlarge",), zones=("a",), minimum=nodes, maximum=nodes + 1)
    await asyncio.sleep(60)
    names = [node["metadata"]["name"] for node in world.nodes()]
    for number in range(PODS_EACH):
        for name in names:
            world.add_pod(f"{name}-{number}", nodeName=name)
    await asyncio.sleep(60)


async def _come_and_go(world: capacity_world.World) -> None:
    for number in range(ROUNDS):
        world.add_pod(f"guest-{number}")
        await asyncio.sleep(PERIOD_SECONDS)
        world.delete_pod(f"guest-{number}")
    await asyncio.sleep(PERIOD_SECONDS)
