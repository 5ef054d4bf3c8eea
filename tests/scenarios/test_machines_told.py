"""What Machines and guests are told, also where telling fails or something stands in the way."""

import asyncio

import pytest

from autoscaler import machines
from autoscaler.api import keys, names
from autoscaler.kube import kinds, port
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.machine_audit import MACHINES
from tests.scenarios.machine_world import GROUP, NAMESPACE, World, entry, machine_type, runtime
from tests.scenarios.test_machines_hostile_hands import MINUTE, SET, one_node

pytestmark = pytest.mark.simulated


def ready_reason(world: World) -> str:
    condition = world.condition("Ready")
    assert condition is not None
    reason: str = condition["reason"]
    return reason


@pytest.mark.accept("M4", part="a StatefulSet of that name that is somebody else's is left alone, and told")
@simulated
async def test_a_name_that_somebody_else_has_is_told_until_it_is_free() -> None:
    world = one_node()
    selector = {"matchLabels": {"app": "mine"}}
    template = {"metadata": {"labels": {"app": "mine"}}, "spec": {"containers": [{"name": "c", "image": "c:1"}]}}
    spec = {"selector": selector, "serviceName": "mine", "template": template, "replicas": 0}
    world.cluster.create(kinds.STATEFUL_SETS, {"metadata": {"name": SET, "namespace": NAMESPACE}, "spec": spec})
    async with runtime(world, machines.build):
        await asyncio.sleep(20)
        assert ready_reason(world) == "NameTaken"
        assert world.sleepers() == []
        world.writes.clear()
        await asyncio.sleep(10 * MINUTE)
        assert not +world.writes
        world.delete(kinds.STATEFUL_SETS, SET)
        await asyncio.sleep(30)
        assert world.rooms() == {"n1": 1}
        assert ready_reason(world) != "NameTaken"


@simulated
async def test_of_two_machines_whose_sets_have_one_name_the_second_is_told_and_served_once_the_first_is_gone() -> None:
    world = World()
    for node in ("n1", "n2"):
        world.add_node(node)
    world.add_machine("c", types={"a-b": machine_type(available=1)}, nodes=[entry("n1", "a-b")])
    async with runtime(world, machines.build):
        await asyncio.sleep(20)
        world.add_machine("b-c", types={"a": machine_type(available=1)}, nodes=[entry("n2", "a")])
        await asyncio.sleep(20)
        condition = world.condition("Ready", "b-c")
        assert condition is not None
        want = "StatefulSet a-b-c belongs to machine group c: rename this machine group, or its type"
        assert (condition["reason"], want in condition["message"]) == ("NameTaken", True)
        world.delete(MACHINES, "c")
        await asyncio.sleep(30)
        assert world.rooms("a", "b-c") == {"n2": 1}


@simulated
async def test_guests_that_could_not_be_told_are_told_later() -> None:
    world = one_node()
    handle, refuses = world.cluster.server.handle, [True]

    def refusing(request: port.Request, user: str) -> port.Response:
        if refuses[0] and user != "admin" and "/events" in request.path:
            return port.Response(status=403, body=b'{"reason": "Forbidden", "message": "no"}')
        return handle(request, user)

    world.cluster.server.handle = refusing  # type: ignore[method-assign]
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        for name in ("g1", "g2"):
            world.add_guest(name)
        await asyncio.sleep(20 * MINUTE)  # what could not be told for ten minutes is given up
        (waits,) = [name for name, node in world.places().items() if node is None]
        assert world.events(waits) == {}
        refuses[0] = False
        await asyncio.sleep(20 * MINUTE)
        assert "AllMachinesUsed" in world.events(waits)


@simulated
async def test_a_guest_in_line_is_told_calmly_and_one_without_a_machine_is_warned() -> None:
    world = one_node(available=2)
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        for name in ("g1", "g2", "g3"):
            world.add_guest(name)
        await asyncio.sleep(20)
        found = {reason: events[0] for name in ("g1", "g2", "g3") for reason, events in world.events(name).items()}
        assert found["MachineInLine"]["type"] == "Normal"
        assert found["AllMachinesUsed"]["type"] == "Warning"
        assert {"MachinePromised", "MachineGateOpened"} <= found.keys()


@pytest.mark.accept("M2", part="a group that is deleted is not known any more")
@simulated
async def test_guests_of_a_group_that_is_deleted_are_refused() -> None:
    world = one_node()
    world.patch(MACHINES, GROUP, {"metadata": {"finalizers": ["example.com/held"]}})
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        world.delete(MACHINES, GROUP)  # somebody keeps it, and it is not served any more all the same
        await asyncio.sleep(30)
        assert world.sleepers() == []
        assert world.marks("n1") == {}
        with pytest.raises(port.ApiError):
            world.add_guest()
        world.writes.clear()
        await asyncio.sleep(10 * MINUTE)
        assert not +world.writes


@simulated
async def test_guests_that_are_made_after_the_stack_has_left_are_let_through() -> None:
    world = World()
    world.add_node("n1", cpu="8")
    world.add_machine(types={"medium": machine_type(available=1)}, nodes=[entry("n1")])
    metadata = {"name": names.DRAIN_OBJECT, "namespace": NAMESPACE, "annotations": {keys.CONFIRM_LEAVING: "true"}}
    world.cluster.create(kinds.CONFIG_MAPS, {"metadata": metadata})
    async with runtime(world, machines.build):
        await asyncio.sleep(20)
        world.delete(kinds.CONFIG_MAPS, names.DRAIN_OBJECT)
        await asyncio.sleep(60)
        assert world.sleepers() == []
        assert world.all(kinds.SERVICES) == []
        gated = [{"name": keys.MACHINE_GATE}]
        world.add_pod("late", cpu="1", schedulingGates=gated)
        await asyncio.sleep(10)
        assert world.pod("late")["spec"].get("nodeName") == "n1"
