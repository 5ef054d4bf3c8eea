"""`explain` on a live cluster, in virtual time: what a guest waits for."""

import asyncio

from autoscaler import machines
from autoscaler.kube import objects
from autoscaler.runtime import explain
from autoscaler.simulation import virtual_time
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.machine_world import GUESTS, NAMESPACE, World, entry, machine_type, runtime


async def explained(world: World, name: str, namespace: str = GUESTS) -> list[str]:
    """Explain as a person does."""
    now = virtual_time.clock().now()
    said = await explain.lines(world.cluster.client(), "pod", objects.Key(namespace, name), now=now)
    return "\n".join(said).splitlines()


@simulated
async def test_a_guest_beyond_the_maximum_is_explained_with_its_machines_and_nodes() -> None:
    world = World()
    world.add_node("n1", cpu="2")
    world.add_machine(types={"medium": machine_type(available=1)}, nodes=[entry("n1")])
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        world.add_guest("first")
        await asyncio.sleep(10)
        world.add_guest("second")
        await asyncio.sleep(10)
        said = await explained(world, "second")
    want = [
        "Pod guests/second, a guest of machine group general",
        "  waits        AllMachinesUsed: all 1 machines of type medium are taken by",
        "               guests",
        "  machines     of type medium: 1 at most, 1 used, 0 held free, 1 guests wait",
        "  NODE  SAYS",
        "  n1    has no room: cpu 0 of 2000",
    ]
    assert said[: len(want)] == want


@simulated
async def test_a_guest_that_runs_is_explained_by_its_node() -> None:
    world = World()
    world.add_node("n1")
    world.add_machine(nodes=[entry("n1")])
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        world.add_guest()
        await asyncio.sleep(10)
        said = await explained(world, "guest")
    assert said[1] == "  runs         on node n1"


@simulated
async def test_a_pod_that_is_no_guest_hears_nothing_of_machines() -> None:
    world = World()
    world.add_node("n1")
    world.add_pod("plain")
    await asyncio.sleep(5)
    assert not any("machine" in line for line in await explained(world, "plain", NAMESPACE))
