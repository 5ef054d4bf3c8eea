"""Machine groups on nodes that come and go: some pull nodes and keep them, others take what is there."""

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from autoscaler import control
from autoscaler.api import controllers, keys
from autoscaler.cloud import port as cloud
from autoscaler.kube import kinds, port
from autoscaler.runtime import registry
from autoscaler.simulation import virtual_time
from tests import builders
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios import capacity_world, machine_world, running
from tests.scenarios.machine_audit import MACHINES
from tests.scenarios.machine_world import GUESTS, RUNTIME

Body = dict[str, Any]
GROUP, TYPE = "desk", "half"
HALF = "1800m"
"""Two machines of so much cpu fit on a node."""
IDLE_SECONDS = 60
STARTED = 5.0
"""By then the runtime has said what machines there are, and guests are let in."""
BOOTED = 120.0
"""By then a node that was asked for is there, and marked."""


class World(capacity_world.World):
    """A cluster whose nodes come from a cloud, with a pool of nodes and a machine group on them."""

    def __init__(self, *, has_pool: bool = True) -> None:
        super().__init__(runs_as=RUNTIME)
        labels = {keys.INJECT_RESOURCE: keys.INJECT_ENABLED}
        self.cluster.create(kinds.NAMESPACES, {"metadata": {"name": GUESTS, "labels": labels}})
        if has_pool:
            self.add_pool(limits__maxIdleSeconds=IDLE_SECONDS)

    def add_machine(self, *, available: int = 2, taint: bool = False, **spec: Any) -> None:
        entry = machine_world.selected({keys.INSTANCE_POOL: "workers"}, TYPE, taint=taint)
        types = [{"name": TYPE, **machine_world.machine_type(HALF, available=available)}]
        body = builders.resource("Machine", name=GROUP, machineTypes=types, nodePool=[entry], **spec)
        body["metadata"]["finalizers"] = ["example.com/held"]  # somebody's who keeps it when it is deleted
        self.cluster.create(MACHINES, body)

    def add_guest(self, name: str, **spec: Any) -> None:
        labels = {keys.MACHINE_GROUP: GROUP, keys.MACHINE_TYPE: TYPE}
        self.add_pod(name, namespace=GUESTS, labels=labels, **spec)

    def delete_guest(self, name: str) -> None:
        request = port.Request(method="DELETE", path=kinds.PODS.path(name, GUESTS))
        port.required(self.cluster.server.handle(request, "admin"))

    def machines(self) -> tuple[int, int, int]:
        """Return how many machines are reserved, used and waited for."""
        (machine,) = self.all(MACHINES)
        (said,) = machine["status"]["availableMachines"]
        usage = said["usage"]
        return usage["reserved"], usage["used"], usage["waiting"]

    def started(self) -> int:
        """Count all instances that were ever started."""
        return len(self.cloud.instances)


def runtime(world: World) -> Any:
    """Run a replica that holds room and scales nodes."""
    options = replace(
        running.NOTHING_OUTSIDE, open_cloud=partial(_open, world), open_interruptions=world.cloud.interruptions
    )
    chosen = registry.registrations([controllers.MACHINES, controllers.CAPACITY], options)
    return running.replica(world.cluster, chosen, user=RUNTIME.user)


async def _open(world: World, context: control.ControllerContext, name: str, spec: object) -> cloud.Cloud:
    del context, name, spec
    return world.cloud.client()


@pytest.mark.accept("M15")
@simulated
async def test_room_that_is_to_be_held_pulls_nodes_from_zero_and_keeps_them() -> None:
    world = World()
    world.add_machine(provision=True, taint=True)
    async with runtime(world):
        await asyncio.sleep(BOOTED)
        assert world.machines() == (2, 0, 0)
        assert world.started() == 1
        await asyncio.sleep(20 * IDLE_SECONDS)
        world.add_guest("one")
        await asyncio.sleep(5)
        assert world.machines() == (1, 1, 0)  # no node had to boot for it
        world.delete_guest("one")
        await asyncio.sleep(20 * IDLE_SECONDS)
        assert world.machines() == (2, 0, 0)
        assert world.started() == 1


@pytest.mark.accept("M15", part="what does not pull nodes keeps none")
@simulated
async def test_other_groups_pull_no_nodes_and_keep_none() -> None:
    world = World()
    world.add_machine()
    async with runtime(world):
        await asyncio.sleep(STARTED)
        world.add_guest("early")
        await asyncio.sleep(BOOTED)
        assert world.started() == 0
        assert world.machines() == (0, 0, 1)
        world.delete_guest("early")
        world.add_pod("work")
        await asyncio.sleep(BOOTED)
        assert world.machines() == (1, 0, 0)  # beside the work
        world.delete_pod("work")
        await asyncio.sleep(3 * IDLE_SECONDS)
        assert world.nodes() == []
        assert world.machines() == (0, 0, 0)


@pytest.mark.accept("M15", part="a group that pulls no nodes any more lets them go")
@pytest.mark.parametrize(
    ("method", "body"),
    [("PATCH", b'{"spec":{"provision":false}}'), ("DELETE", b"")],
    ids=["told not to", "being deleted"],
)
def test_a_group_that_pulls_no_nodes_any_more_lets_them_go(method: str, body: bytes) -> None:
    async def play() -> None:
        world = World()
        world.add_machine(provision=True)
        async with runtime(world):
            await asyncio.sleep(BOOTED)
            assert world.machines() == (2, 0, 0)
            content = port.MERGE_PATCH if method == "PATCH" else port.JSON
            request = port.Request(method=method, path=MACHINES.path(GROUP), body=body or None, content_type=content)
            port.required(world.cluster.server.handle(request, "admin"))
            await asyncio.sleep(3 * IDLE_SECONDS)
            assert world.nodes() == []
            await asyncio.sleep(600)
            assert world.started() == 1

    virtual_time.run(play())


@simulated
async def test_guests_of_a_group_that_is_being_deleted_pull_no_nodes() -> None:
    world = World(has_pool=False)
    world.add_machine(provision=True)
    async with runtime(world):
        await asyncio.sleep(STARTED)
        world.add_guest("one")
        await asyncio.sleep(STARTED)
        port.required(world.cluster.server.handle(port.Request(method="DELETE", path=MACHINES.path(GROUP)), "admin"))
        await asyncio.sleep(STARTED)
        world.add_pool()
        await asyncio.sleep(BOOTED)
        assert world.started() == 0


@pytest.mark.accept("M15", part="guests pull nodes as far as there are machines, and no further")
@simulated
async def test_guests_pull_nodes_up_to_the_number_of_machines() -> None:
    world = World()
    world.add_machine(provision=True, available=3)
    async with runtime(world):
        await asyncio.sleep(STARTED)
        for number in range(6):
            world.add_guest(f"g-{number}")
        await asyncio.sleep(2 * BOOTED)
        assert world.machines() == (0, 3, 3)
        assert world.started() == 2
        for number in range(6):
            world.delete_guest(f"g-{number}")
        await asyncio.sleep(BOOTED)
        assert world.machines() == (3, 0, 0)
        assert world.started() == 2


@simulated
async def test_a_guest_that_goes_to_one_zone_with_others_gets_its_zone_first_and_then_its_machine() -> None:
    world = World()
    world.add_machine(provision=True)
    async with runtime(world):
        await asyncio.sleep(BOOTED)
        world.add_guest("one", annotations={keys.SAME_ZONE: "true"})
        (pod,) = [each for each in world.all(kinds.PODS) if each["metadata"]["name"] == "one"]
        gates = {gate["name"] for gate in pod["spec"]["schedulingGates"]}
        assert gates == {keys.PLACEMENT_GATE, keys.MACHINE_GATE}
        await asyncio.sleep(2 * BOOTED)
        assert world.machines() == (1, 1, 0)
