"""Run in a copy of the repository that has one more controller, called toy: say what became of it, as JSON.

The copy comes first on the path, so that all that is imported here is the copy's.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import autoscaler
from autoscaler.api.settings.node_groups import NodeGroups
from autoscaler.kube import kinds
from autoscaler.runtime import controllers, settings
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cluster import SimulatedCluster
from components.access import rbac
from components.runtime import deployment
from tests.components import configs, places
from tests.scenarios import running

Ground = AbstractAsyncContextManager[SimulatedCluster]
ROOMS = ("workers", "admission", "machines", "capacity", "toy")


def main() -> None:
    """Print what there is to say."""
    said = {
        "copy": autoscaler.__file__,
        "known": settings.CONTROLLERS,
        "runtime": made_by(in_the_runtime),
        "imported": imported(),
        "simulation": made_by(in_the_simulation),
        "stack": stack(),
    }
    sys.stdout.write(f"{json.dumps(said)}\n")


def imported() -> list[str]:
    """Name the rooms of controllers that were opened so far."""
    return [room for room in ROOMS if f"autoscaler.{room}" in sys.modules]


def made_by(ground: Callable[[], Ground]) -> list[str]:
    """Name the ConfigMaps and Leases of a cluster in which the runtime ran for a while."""

    async def run() -> list[str]:
        async with ground() as cluster:
            await asyncio.sleep(60)
            found = [
                entry.object
                for kind in (kinds.CONFIG_MAPS, kinds.LEASES)
                for entry in cluster.server.store.collection(kind).entries.values()
            ]
        return sorted(f"{each['metadata']['namespace']}/{each['metadata']['name']}" for each in found)

    return virtual_time.run(run())


@asynccontextmanager
async def in_the_runtime() -> AsyncGenerator[SimulatedCluster, None]:
    """Run as `run --controllers toy` does."""
    parser = argparse.ArgumentParser()
    settings.add_arguments(parser, settings.CONTROLLERS)
    flags = ["--namespace", "default", "--kubeconfig", "none", "--controllers", "toy"]
    chosen = settings.read(parser.parse_args(flags), settings.CONTROLLERS, {})
    cluster = SimulatedCluster(virtual_time.clock())
    cluster.install_definitions()
    async with running.replica(cluster, controllers.registrations(chosen)):
        yield cluster


@asynccontextmanager
async def in_the_simulation() -> AsyncGenerator[SimulatedCluster, None]:
    """Run as `simulate` does, on a stack with nothing in it."""
    from autoscaler.simulate import play, trace, world  # noqa: PLC0415  # they import capacity's books
    from autoscaler.simulate.stack import Stack  # noqa: PLC0415  # the same

    empty = Stack(groups=NodeGroups(cluster="toys", region="eu-west-1"), objects=())
    simulated = world.World(empty, trace.parse({"starts": "2026-06-30T06:00:00Z"}), virtual_time.clock())
    async with play._runtime(simulated, empty):
        yield simulated.cluster


def stack() -> dict[str, Any]:
    """Tell what the stack starts and grants."""
    config = configs.of_cluster(configs.cluster()).stack.config.clusters["bench"]
    around = deployment.Surroundings(config=config, place=places.place(), image="sluice:1")
    started = {each["name"]: each.get("value") for each in deployment.environment(around)}["SLUICE_CONTROLLERS"]
    roles = rbac.runtime_roles(deployment.controllers(config.autoscaler), scope=config.autoscaler.scope, classes=[None])
    return {"started": started, "cluster": roles.cluster}


if __name__ == "__main__":
    main()
