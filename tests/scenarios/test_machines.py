"""Room is held for machine types, and guests get it: the controller on a simulated cluster."""

import asyncio

import pytest

from autoscaler import machines
from autoscaler.api import keys, names
from autoscaler.kube import kinds
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.machine_audit import MACHINES
from tests.scenarios.machine_world import World, entry, machine_type, runtime

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.accept("M14", part="a guest takes the room that a sleeper of its type holds")
@simulated
async def test_a_guest_takes_the_room_of_a_sleeper() -> None:
    world = World()
    world.add_node("n1", cpu="2")
    world.add_machine(types={"medium": machine_type(cpu="2", available=1)}, nodes=[entry("n1")])
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        assert world.rooms() == {"n1": 1}
        assert world.usage() == {"maximum": 1, "reserved": 1, "used": 0, "waiting": 0}

        world.add_guest()
        await asyncio.sleep(5)

        assert world.places() == {"guest": "n1"}
        assert world.rooms() == {}
        assert world.usage() == {"maximum": 1, "reserved": 0, "used": 1, "waiting": 0}
        assert world.guest()["metadata"]["annotations"][keys.MACHINE_PROMISED] == "n1"

        world.delete_guest()
        await asyncio.sleep(10)
        assert world.rooms() == {"n1": 1}


def two_nodes(**nodes: str) -> World:
    """Make a group of two nodes with one machine of 2 cpus each."""
    world = World()
    for name in ("n1", "n2"):
        world.add_node(name, cpu=nodes.get(name, "2"))
    world.add_machine(nodes=[entry("n1"), entry("n2")])
    return world


@pytest.mark.accept("M14", part="guests beyond maximum wait behind their gate and are told")
@simulated
async def test_guests_beyond_the_maximum_wait_and_are_told() -> None:
    world = two_nodes()
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        assert world.rooms() == {"n1": 1, "n2": 1}
        for name in ("g1", "g2", "g3"):
            world.add_guest(name)
        await asyncio.sleep(10)

        placed = world.places()
        waiting = [name for name, node in placed.items() if node is None]
        assert sorted(node for node in placed.values() if node) == ["n1", "n2"]
        assert len(waiting) == 1
        (told,) = world.events(waiting[0])["AllMachinesUsed"]
        assert told["count"] == 1
        assert world.usage() == {"maximum": 2, "reserved": 0, "used": 2, "waiting": 1}

        world.delete_guest(next(name for name, node in placed.items() if node == "n1"))
        await asyncio.sleep(10)
        assert world.places(*waiting) == {waiting[0]: "n1"}


@pytest.mark.accept("M13", part="unchanged state writes nothing")
@simulated
async def test_a_group_at_rest_writes_nothing() -> None:
    world = two_nodes()
    async with runtime(world, machines.build):
        await asyncio.sleep(5)
        world.add_guest()
        await asyncio.sleep(30)
        world.writes.clear()
        await asyncio.sleep(600)
    assert not +world.writes


@pytest.mark.accept("M12", part="a deleted Machine leaves nothing behind, and no guest is ended")
@simulated
async def test_a_deleted_machine_takes_its_marks_and_sleepers_along_and_no_guest() -> None:
    world = two_nodes()
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        for name in ("g1", "g2", "g3"):
            world.add_guest(name)
            await asyncio.sleep(5)
        world.delete_guest("g2")
        world.delete(MACHINES, "general")
        await asyncio.sleep(60)

        assert world.sleepers() == []
        held = world.places("g1")["g1"]
        free = "n2" if held == "n1" else "n1"
        assert world.marks(free) == {}
        assert world.taints(free) == set()
        assert keys.machine_label("medium") in world.marks(held or "")
        assert world.places("g3") == {"g3": None}
        assert "MachineDeleted" in world.events("g3")

        world.delete_guest("g1")
        await asyncio.sleep(60)
        assert world.marks(held or "") == {}
        assert world.taints(held or "") == set()


@pytest.mark.accept("M13", part="a renamed type")
@simulated
async def test_a_type_that_is_renamed_moves_its_room() -> None:
    world = two_nodes()
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        spec = {"name": "large", **machine_type()}
        world.change_machine(machineTypes=[spec], nodePool=[entry("n1", "large"), entry("n2", "large")])
        await asyncio.sleep(30)
        assert world.rooms("large") == {"n1": 1, "n2": 1}
        assert world.sleepers("medium") == []
        assert keys.machine_label("medium") not in world.marks("n1")


@pytest.mark.accept("M13", part="a type that changes its size")
@simulated
async def test_a_type_that_is_resized_holds_the_new_room() -> None:
    world = two_nodes(n1="4")
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        world.change_machine(machineTypes=[{"name": "medium", **machine_type(cpu="4")}])
        await asyncio.sleep(30)
        assert world.rooms() == {"n1": 1}
        asked = [each["spec"]["containers"][0]["resources"]["requests"]["cpu"] for each in world.sleepers()]
        assert asked == ["4", "4"]


@pytest.mark.accept("M14", part="a guest that the scheduler refuses is told and goes last")
@simulated
async def test_a_refused_guest_is_told_and_lets_others_go_first() -> None:
    world = two_nodes()
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        alone = {
            "podAffinity": {REQUIRED: [{"topologyKey": keys.HOSTNAME, "labelSelector": {"matchLabels": {"x": "y"}}}]}
        }
        world.add_guest("odd", affinity=alone)
        await asyncio.sleep(100)
        assert world.places() == {"odd": None}
        told = [each["message"] for each in world.events("odd")["MachineRefused"]]
        assert any("although" in each for each in told), told
        world.add_guest("good")
        await asyncio.sleep(10)
        assert world.places("good")["good"] is not None
        assert world.usage() == {"maximum": 2, "reserved": 0, "used": 1, "waiting": 1}


@pytest.mark.accept("S1", part="machines: a stack that leaves opens gates and takes everything off nodes")
@simulated
async def test_leaving_opens_gates_and_takes_everything_off() -> None:
    world = two_nodes()
    world.add_drain_object()
    async with runtime(world, machines.build):
        await asyncio.sleep(20)
        for name in ("g1", "g2", "g3"):
            world.add_guest(name)
        await asyncio.sleep(20)
        world.delete(kinds.CONFIG_MAPS, names.DRAIN_OBJECT)
        await asyncio.sleep(60)

        assert not world.exists(kinds.CONFIG_MAPS, names.DRAIN_OBJECT)
        assert not world.exists(kinds.CONFIG_MAPS, names.MACHINE_CATALOGUE)
        assert not any(each["spec"].get("schedulingGates") for each in world.all(kinds.PODS))
        assert world.sleepers() == []
        assert world.marks("n1") == world.marks("n2") == {}
        assert world.taints("n1") == world.taints("n2") == set()
        assert sum(node is not None for node in world.places().values()) == 2


@simulated
async def test_the_next_leader_goes_on_where_the_last_one_stopped() -> None:
    world = two_nodes()
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        world.add_guest("g1")
        await asyncio.sleep(0.1)
    async with runtime(world, machines.build, pod="b"):
        world.add_guest("g2")
        await asyncio.sleep(60)
        assert sorted(node or "" for node in world.places().values()) == ["n1", "n2"]
