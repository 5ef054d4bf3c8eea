"""How many machines are used, reserved and waited for on a simulated cluster, and what is made to hold them."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from autoscaler import control, machines
from autoscaler.api import keys, names
from autoscaler.kube import kinds
from autoscaler.options import Options
from autoscaler.simulation import kubelet
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.machine_audit import MACHINES, gates
from tests.scenarios.machine_world import GROUP, GUESTS, NAMESPACE, World, entry, machine_type, node_of, runtime

pytestmark = pytest.mark.simulated
SET = f"medium-{GROUP}"
IMAGE = "mirror.example/pause:1"


def one_node(*, available: int = 2, cpu: str = "4", stop_seconds: float = 0.5) -> World:
    world = World(stop_seconds=stop_seconds)
    world.add_node("n1", cpu=cpu)
    world.add_machine(types={"medium": machine_type(available=available)}, nodes=[entry("n1")])
    return world


def counted(world: World) -> tuple[int, int, int]:
    """Return how many machines are reserved, used and waited for."""
    usage = world.usage()
    return usage["reserved"], usage["used"], usage["waiting"]


def say(world: World, name: str, state: dict[str, Any]) -> None:
    """Say of a guest's container how it stands, as a kubelet does."""
    status = {"containerStatuses": [{"name": "main", "state": state, "ready": False, "image": "", "imageID": ""}]}
    world.send("PATCH", kinds.PODS.path(name, GUESTS) + "/status", {"status": status})


def with_image(context: control.ControllerContext, options: Options) -> control.Controller:
    """Build the controller with an image of sleepers that is not the usual one."""
    return machines.build(context, replace(options, sleeper_image=IMAGE))


@pytest.mark.accept("M3", part="what a guest counts as, from its creation to its end")
@pytest.mark.accept("M10", part="usage follows guests")
@simulated
async def test_a_guest_is_waited_for_then_used_until_it_has_ended() -> None:
    world = one_node(stop_seconds=4)
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        assert counted(world) == (2, 0, 0)
        world.add_guest("held", schedulingGates=[{"name": "example.com/never"}])
        world.add_guest("fails")
        world.add_guest("ends", annotations={kubelet.RUN_FOR: "60s"}, restartPolicy="Never")
        await asyncio.sleep(10)
        assert counted(world) == (0, 2, 1)  # a guest behind gates of others waits, and nothing is held for it

        say(world, "fails", {"waiting": {"reason": "Error"}})
        await asyncio.sleep(5)
        assert counted(world) == (0, 1, 1)
        say(world, "fails", {"waiting": {"reason": "ContainerCreating"}})
        await asyncio.sleep(5)
        assert counted(world) == (0, 2, 1)
        world.delete_guest("fails")
        await asyncio.sleep(2)
        assert counted(world) == (0, 2, 1)  # it has not stopped yet
        await asyncio.sleep(10)
        assert counted(world) == (1, 1, 1)
        await asyncio.sleep(60)
        assert world.guest("ends")["status"]["phase"] == "Succeeded"
        assert counted(world) == (2, 0, 1)


@pytest.mark.accept("M10", part="the sleeper that goes is the one where the guest fits")
@simulated
async def test_the_sleeper_goes_that_holds_room_where_the_guest_may_go() -> None:
    world = World()
    for name in ("n1", "n2", "n3"):
        world.add_node(name, cpu="2")
    world.add_machine(types={"medium": machine_type(available=3)}, nodes=[entry(name) for name in ("n1", "n2", "n3")])
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        kept = {each["metadata"]["uid"] for each in world.sleepers() if node_of(each) != "n2"}
        world.add_guest(nodeSelector={"kubernetes.io/hostname": "n2"})
        await asyncio.sleep(10)
        assert world.places() == {"guest": "n2"}
        assert world.rooms() == {"n1": 1, "n3": 1}
        assert kept <= {each["metadata"]["uid"] for each in world.sleepers()}
        assert counted(world) == (2, 1, 0)


def alarms(world: World) -> int:
    """Return how often it was told that room is missing."""
    return sum(each["count"] for each in world.all(kinds.EVENTS) if each["reason"] == "RoomMissing")


@pytest.mark.accept("M10", part="room that a guest gives back is not said to be missing while a sleeper comes")
@simulated
async def test_a_guest_that_leaves_makes_no_alarm_and_a_node_that_leaves_does() -> None:
    world = one_node(available=1)
    async with runtime(world, machines.build):
        await asyncio.sleep(20)
        before = alarms(world)
        for number in range(3):
            world.add_guest(f"guest-{number}")
            await asyncio.sleep(20)
            world.delete_guest(f"guest-{number}")
            await asyncio.sleep(20)
        after = alarms(world)
        world.patch(kinds.NODES, "n1", {"spec": {"unschedulable": True}})
        await asyncio.sleep(20)
        said = world.condition("Ready")
    assert after == before
    assert said is not None
    assert (said["status"], said["reason"]) == ("False", "RoomMissing")


@pytest.mark.accept("M10", part="sleepers that cannot be scheduled are not opened again and again, and Ready says so")
@pytest.mark.parametrize("is_tainted", [False, True], ids=["no room", "a taint of others"])
def test_sleepers_without_a_place_stay_gated_and_cause_no_writes(is_tainted: bool) -> None:  # noqa: FBT001
    @simulated
    async def test() -> None:
        world = one_node(available=4)
        if is_tainted:
            world.patch(kinds.NODES, "n1", {"spec": {"taints": [{"key": "example.com/x", "effect": "NoSchedule"}]}})
        room = 0 if is_tainted else 2
        async with runtime(world, machines.build):
            await asyncio.sleep(20)
            assert counted(world) == (room, 0, 0)
            assert sum(keys.MACHINE_GATE in gates(each) for each in world.sleepers()) == 4 - room
            said = world.condition("Ready")
            assert said is not None
            assert (said["status"], said["reason"]) == ("False", "RoomMissing")
            world.writes.clear()
            await asyncio.sleep(600)
            assert not +world.writes
            world.patch(kinds.NODES, "n1", {"spec": {"taints": None}})
            await asyncio.sleep(20)
            assert counted(world) == (2, 0, 0)
            world.add_node("n2", cpu="8")
            world.change_machine(nodePool=[entry("n1"), entry("n2")])
            await asyncio.sleep(20)
            assert counted(world) == (4, 0, 0)
            said = world.condition("Ready")
            assert said is not None
            assert (said["status"], said["reason"]) == ("True", "RoomHeld")

    test()


@pytest.mark.accept("M10", part="lowering the maximum takes sleepers away, and no guest")
@simulated
async def test_a_lower_maximum_ends_sleepers_and_lets_guests_run() -> None:
    world = one_node(available=4, cpu="8")
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        for name in ("g1", "g2"):
            world.add_guest(name)
        await asyncio.sleep(10)
        assert counted(world) == (2, 2, 0)
        world.change_machine(machineTypes=[{"name": "medium", **machine_type(available=1)}])
        await asyncio.sleep(30)
        assert world.usage() == {"maximum": 1, "reserved": 0, "used": 2, "waiting": 0}
        assert world.places() == {"g1": "n1", "g2": "n1"}
        assert len(world.sleepers()) == 1
        assert world.status()["total"] == world.usage()


@pytest.mark.accept("M4", part="made in the runtime's namespace with the configured image, and made again")
@pytest.mark.accept("M5", part="sleepers and guests say what they are")
@simulated
async def test_each_type_has_a_service_and_a_stateful_set_whose_sleepers_hold_its_room() -> None:
    world = one_node()
    async with runtime(world, with_image):
        await asyncio.sleep(10)
        labels = {keys.MACHINE_GROUP: GROUP, keys.MACHINE_TYPE: "medium", keys.POD_ROLE: "reservation"}
        uid = world.machine()["metadata"]["uid"]
        for kind in (kinds.STATEFUL_SETS, kinds.SERVICES):
            (made,) = (each for each in world.all(kind) if each["metadata"]["name"] == SET)
            assert made["metadata"]["namespace"] == NAMESPACE
            assert made["metadata"]["labels"] == labels
            assert [each["uid"] for each in made["metadata"]["ownerReferences"]] == [uid]
        assert made["spec"]["clusterIP"] == "None"
        for sleeper in world.sleepers():
            assert sleeper["metadata"]["labels"].items() >= labels.items()
            (container,) = sleeper["spec"]["containers"]
            assert (container["name"], container["image"]) == ("sleeper", IMAGE)
            amounts = {"cpu": "2", "memory": "4Gi"}
            assert container["resources"] == {"requests": amounts, "limits": amounts}
            assert sleeper["spec"]["terminationGracePeriodSeconds"] == 0
        assert world.add_guest()["metadata"]["labels"][keys.POD_ROLE] == "guest"

        world.delete(kinds.STATEFUL_SETS, SET)
        world.delete(kinds.SERVICES, SET)
        await asyncio.sleep(20)
        assert world.exists(kinds.STATEFUL_SETS, SET)
        assert world.exists(kinds.SERVICES, SET)


@pytest.mark.accept(
    "M12", part="StatefulSets, Services and the MachineNodePool go with their Machine, and the rest stays"
)
@simulated
async def test_all_that_was_made_for_a_machine_goes_with_it_and_nothing_of_others() -> None:
    world = one_node()
    world.add_node("n2", cpu="4")
    world.add_machine("other", nodes=[entry("n2")])
    async with runtime(world, machines.build):
        await asyncio.sleep(20)
        before = {each["metadata"]["name"] for each in world.all(kinds.SERVICES)}
        world.delete(MACHINES, GROUP)
        await asyncio.sleep(30)
        assert [each["metadata"]["name"] for each in world.all(kinds.STATEFUL_SETS)] == ["medium-other"]
        assert {each["metadata"]["name"] for each in world.all(kinds.SERVICES)} == before - {SET}
        assert world.sleepers() == []
        assert world.rooms(group="other") == {"n2": 2}
        assert (world.marks("n1"), world.taints("n1")) == ({}, set())
        assert world.catalogue()["groups"] == "other"
        assert world.exists(kinds.CONFIG_MAPS, names.MACHINE_CATALOGUE)
