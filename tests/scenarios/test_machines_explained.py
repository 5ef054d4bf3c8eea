"""`explain` on a live cluster, in virtual time: what a guest waits for."""

import asyncio

from autoscaler import machines
from autoscaler.kube import kinds, objects
from autoscaler.runtime.commands import explain
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
        "  waits        AllMachinesUsed: the only machine of type medium is taken by a",
        "               guest",
        "  machines     of type medium: 1 at most, 1 used, 0 held free, 1 waited for",
        "  NODE  SAYS",
        "  n1    has no room: cpu 0 free, 2 needed",
    ]
    assert said[: len(want)] == want


@simulated
async def test_a_guest_is_told_of_each_node_why_it_cannot_go_there() -> None:
    world = World()
    for name in ("cordoned", "full", "resting", "tainted", "wrong"):
        labels = {} if name == "wrong" else {"disk": "fast"}
        world.add_node(name, cpu="1" if name == "full" else "4", labels=labels)
    taking = [entry(name) for name in ("away", "cordoned", "full", "tainted", "wrong")]
    world.add_machine(nodes=[*taking, entry("resting", mode="maintenance")])
    async with runtime(world, machines.build):
        world.cordon("cordoned")
        world.patch(kinds.NODES, "tainted", {"spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}})
        await asyncio.sleep(10)
        world.add_guest(nodeSelector={"disk": "fast"})
        await asyncio.sleep(10)
        said = await explained(world, "guest")
    want = [
        "  NODE      SAYS",
        "  away      takes no guests: it is missing",
        "  cordoned  takes no guests: it is cordoned",
        "  full      has no room: cpu 1 free, 2 needed",
        "  resting   takes no guests: it is in maintenance",
        "  tainted   has a taint that it does not tolerate: k=v:NoSchedule",
        "  wrong     does not suit its node selector or affinity",
    ]
    start = said.index(want[0])
    assert said[start : start + len(want)] == want
    (event,) = world.events("guest")["NoMachineRoom"]
    assert event["message"] == "of 1 node of machine type medium, none has room for 2 cpu, 4Gi memory"


@simulated
async def test_a_guest_without_a_node_is_told_whether_that_is_for_the_nodes_or_for_itself() -> None:
    world = World()
    world.add_node("n1")
    world.add_machine(nodes=[entry("n1")])
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        world.add_guest(nodeSelector={"disk": "fast"})
        await asyncio.sleep(5)
        world.cordon("n1")
        await asyncio.sleep(10)
    got = [each["message"] for each in world.events("guest")["NoMachineNode"]]
    itself = "by its node selector or affinity, or by a taint that it does not tolerate"
    assert got == [
        f"of 1 node of machine type medium, none takes this guest: {itself}",
        "no node of machine type medium takes guests now: condition NodesReady of its Machine says why",
    ]


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
