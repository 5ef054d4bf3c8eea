"""A thousand idle instances go while pods keep coming: how long that takes, and whether one with work went."""

import asyncio
import random
import time
from collections import Counter
from typing import Any

from autoscaler.kube import kinds
from autoscaler.simulation import virtual_time
from tests.bench import results
from tests.scenarios.capacity_world import World, runtime

INSTANCES = 1000
IDLE_SECONDS = 60
PODS_WHILE_GOING = 300


def removals(scale: float) -> None:
    """1,000 instances fall idle and go, in virtual time, while pods race for those that are marked."""
    instances = max(10, int(INSTANCES * scale))
    started, used = time.perf_counter(), results.cpu_seconds()
    seen = virtual_time.run(run(instances))
    results.tell(
        "removals",
        instances=instances,
        seconds=time.perf_counter() - started,
        core=results.cpu_seconds() - used,
        **seen,
    )


async def run(instances: int) -> dict[str, Any]:
    """Start all, let them fall idle, add pods while they go; return what was seen."""
    world, dice = World(), random.Random(0)  # noqa: S311
    world.add_pool(maximum=instances, limits__maxIdleSeconds=IDLE_SECONDS)
    async with runtime(world):
        for number in range(instances):
            world.add_pod(f"first-{number}", cpu="3")
        await asyncio.sleep(120)
        begun = len(world.nodes())
        for number in range(instances):
            world.delete_pod(f"first-{number}")
        await asyncio.sleep(IDLE_SECONDS)
        idle_at = virtual_time.clock().now()
        for number in range(PODS_WHILE_GOING * instances // INSTANCES):
            await asyncio.sleep(dice.uniform(0.0, 1.5))
            world.add_pod(f"late-{number}", cpu="3")
        late = {pod["metadata"]["uid"] for pod in world.all(kinds.PODS)}
        await asyncio.sleep(6 * instances / 10 + 120)
        pods = world.all(kinds.PODS)
        phases = Counter(pod["status"]["phase"] for pod in pods)
        ends = [instance.ended_at for instance in world.cloud.instances.values() if instance.ended_at]
        return {
            "nodes_before": begun,
            "nodes_after": len(world.nodes()),
            "virtual_seconds": max(ends, default=idle_at) - idle_at,
            "pods_that_came_meanwhile": len(late),
            "running": phases["Running"],
            "wrong_victims": len(
                late - {pod["metadata"]["uid"] for pod in pods if pod["status"]["phase"] == "Running"}
            ),
        }
