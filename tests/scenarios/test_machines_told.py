"""What Machines and guests are told, also where telling fails or something stands in the way."""

import asyncio

import pytest

from autoscaler import machines
from autoscaler.api import keys, names
from autoscaler.api.resources.machines import TYPES_MAX
from autoscaler.kube import kinds, port
from autoscaler.simulation.cluster import faults
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.machine_audit import MACHINES
from tests.scenarios.machine_world import GROUP, NAMESPACE, World, entry, machine_type, runtime
from tests.scenarios.test_machines_hostile_hands import MINUTE, SET, as_runtime, one_node

pytestmark = pytest.mark.simulated


def ready_reason(world: World, group: str = GROUP) -> str:
    condition = world.condition("Ready", group)
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


@pytest.mark.accept("M14", part="guests are told also where events were refused for a while")
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


@pytest.mark.accept("M14", part="guests are told what they wait for")
@simulated
async def test_a_guest_in_line_is_told_calmly_and_one_without_a_machine_is_warned() -> None:
    world = one_node(available=2)
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        for name in ("g1", "g2", "g3"):
            unlike = [{"key": f"example.com/{name}", "operator": "Exists"}]  # those alike are placed together
            world.add_guest(name, tolerations=unlike)
        await asyncio.sleep(20)
        found = {reason: events[0] for name in ("g1", "g2", "g3") for reason, events in world.events(name).items()}
        assert found["MachineInLine"]["type"] == "Normal"
        assert found["AllMachinesUsed"]["type"] == "Warning"
        assert {"MachinePromised", "MachineGateOpened"} <= found.keys()


@pytest.mark.accept("M2", part="a group that is deleted is not known any more")
@pytest.mark.accept("M12", part="a Machine that somebody keeps while it is deleted")
@simulated
async def test_guests_of_a_group_that_is_deleted_are_refused() -> None:
    world = one_node()
    world.patch(MACHINES, GROUP, {"metadata": {"finalizers": ["example.com/held"]}})
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        world.add_guest("waits", nodeSelector={"there-is": "no-such-node"})
        await asyncio.sleep(10)
        world.delete(MACHINES, GROUP)  # somebody keeps it, and it is not served any more all the same
        await asyncio.sleep(30)
        assert "MachineDeleted" in world.events("waits")
        assert world.sleepers() == []
        assert world.marks("n1") == {}
        with pytest.raises(port.ApiError):
            world.add_guest()
        world.writes.clear()
        await asyncio.sleep(10 * MINUTE)
        assert not +world.writes


@pytest.mark.accept("M2", part="where the catalogue is full, the youngest groups are left out, and told")
@simulated
async def test_the_youngest_group_is_told_that_the_catalogue_has_no_room_for_it() -> None:
    world = World()
    handle = world.cluster.server.handle

    def without_sets(request: port.Request, user: str) -> port.Response:
        """Refuse what is not looked at here: there would be thousands."""
        if request.method == "POST" and request.path.endswith(("/statefulsets", "/services")):
            return port.Response(status=403, body=b'{"reason": "Forbidden", "message": "no"}')
        return handle(request, user)

    world.cluster.server.handle = without_sets  # type: ignore[method-assign]
    gpu = {"type": "nvidia.com/gpu", "num": 1024, "product": "p" * 63}
    large = machine_type("1234567m", "123456789012345", available=0, gpu=gpu)
    types = {f"type-{number:02d}-{'x' * 28}": large for number in range(TYPES_MAX)}
    world.add_machine("z-oldest", types=types)
    await asyncio.sleep(2)  # times of creation are whole seconds
    for number in range(60):
        world.add_machine(f"group-{number:02d}-xxxxxx", types=types)
    async with runtime(world, machines.build):
        await asyncio.sleep(3)
        groups = sorted(each["metadata"]["name"] for each in world.all(MACHINES))
        full = [name for name in groups if ready_reason(world, name) == "CatalogueFull"]
        assert 0 < len(full) < 10
        assert full == groups[:-1][-len(full) :]
        assert "z-oldest.types" in world.catalogue()


class Late:
    """A connection by which a ConfigMap that is made arrives a little later, once that is asked for."""

    def __init__(self, api: port.Api) -> None:
        self.is_late = False
        self.sent = asyncio.Event()
        self.watch = api.watch
        self._api = api

    async def send(self, request: port.Request) -> port.Response:
        if self.is_late and request.method == "POST" and request.path == kinds.CONFIG_MAPS.collection(NAMESPACE):
            self.sent.set()
            await asyncio.sleep(5)
        return await self._api.send(request)


@pytest.mark.accept("S1", part="what was sent before the stack leaves is not left behind")
@simulated
async def test_a_catalogue_that_is_being_written_when_the_stack_leaves_goes_too() -> None:
    world, made = World(), list[Late]()
    world.add_drain_object()

    def late(api: port.Api) -> port.Api:
        made.append(Late(api))
        return made[-1]

    async with runtime(world, machines.build, wrap=late):
        await asyncio.sleep(20)
        made[0].is_late = True
        as_runtime(world, "DELETE", kinds.CONFIG_MAPS.path(names.MACHINE_CATALOGUE, NAMESPACE))
        await asyncio.wait_for(made[0].sent.wait(), MINUTE)
        world.delete(kinds.CONFIG_MAPS, names.DRAIN_OBJECT)
        await asyncio.sleep(MINUTE)
        assert not world.exists(kinds.CONFIG_MAPS, names.DRAIN_OBJECT)
        assert not world.exists(kinds.CONFIG_MAPS, names.MACHINE_CATALOGUE)


@pytest.mark.accept("S1", part="machines: guests that are made later are let through")
@simulated
async def test_guests_that_are_made_after_the_stack_has_left_are_let_through() -> None:
    world = World()
    world.add_node("n1", cpu="8")
    world.add_machine(types={"medium": machine_type(available=1)}, nodes=[entry("n1")])
    world.add_drain_object()
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


@simulated
async def test_machine_types_that_cannot_be_published_are_told_until_they_are() -> None:
    world = one_node()
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        assert ready_reason(world) == "RoomHeld"
        world.cluster.faults.add(
            faults.Answer(code=403),
            faults.Matching(method="PATCH", path=f"/configmaps/{names.MACHINE_CATALOGUE}"),
            times=None,
        )
        world.add_machine("late", types={"tiny": machine_type("100m", "1Mi", available=0)})
        await asyncio.sleep(MINUTE)
        for group in (GROUP, "late"):
            condition = world.condition("Ready", group)
            assert condition is not None
            assert (condition["status"], condition["reason"]) == ("False", "CatalogueNotWritten")
            assert "guests of new or changed types are refused or get the old ones: 403" in condition["message"]
        world.cluster.faults.clear()
        await asyncio.sleep(2 * MINUTE)
        assert ready_reason(world) == "RoomHeld"
