"""Machines among people and parts that do not play along: refusals are bounded, and all is put right again."""

import asyncio
from collections import Counter

import pytest

from autoscaler import machines
from autoscaler.api import keys, names
from autoscaler.kube import kinds, port
from autoscaler.simulation import virtual_time
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.machine_world import NAMESPACE, RUNTIME, World, entry, machine_type, runtime


def one_node() -> World:
    world = World()
    world.add_node("n1", cpu="2")
    world.add_machine(types={"medium": machine_type(available=1)}, nodes=[entry("n1")])
    return world


def refuse(world: World, method: str, part: str) -> Counter[float]:
    """Refuse calls of the runtime whose path has a part; return how many were in each minute."""
    handle, minutes = world.cluster.server.handle, Counter[float]()
    began = asyncio.get_running_loop().time()

    def refusing(request: port.Request, user: str) -> port.Response:
        if user != "admin" and request.method == method and part in request.path:
            minutes[(asyncio.get_running_loop().time() - began) // 60] += 1
            return port.Response(status=403, body=b'{"reason": "Forbidden", "message": "no"}')
        return handle(request, user)

    world.cluster.server.handle = refusing  # type: ignore[method-assign]
    return minutes


@pytest.mark.accept("M13", part="refused calls are bounded")
@pytest.mark.parametrize(
    ("method", "part"),
    [
        ("PATCH", "/nodes/n1"),
        ("POST", "/statefulsets"),
        ("POST", "/services"),
        ("PATCH", "/pods/medium-general-0"),
        ("PATCH", "/machines/general/status"),
        ("POST", "/configmaps"),
        ("POST", "/machinenodepools"),
    ],
)
def test_what_is_refused_is_asked_for_less_and_less_often(method: str, part: str) -> None:
    minutes = virtual_time.run(refusals(method, part))
    assert 0 < minutes[0] <= 20
    assert all(count <= 2 for minute, count in minutes.items() if minute > 1)


async def refusals(method: str, part: str) -> Counter[float]:
    """Run ten minutes in which some calls are refused; return how many were in each minute."""
    world = one_node()
    minutes = refuse(world, method, part)
    async with runtime(world, machines.build):
        await asyncio.sleep(600)
    return minutes


@pytest.mark.accept("M13", part="what is undone by hand is put right")
@simulated
async def test_what_is_undone_by_hand_is_put_right() -> None:
    world = one_node()
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        world.delete(kinds.STATEFUL_SETS, "medium-general")
        world.delete(kinds.SERVICES, "medium-general")
        world.patch(kinds.NODES, "n1", {"metadata": {"labels": {keys.NODE_POOL: None}}})
        await asyncio.sleep(30)
        assert world.rooms() == {"n1": 1}
        assert world.exists(kinds.SERVICES, "medium-general")
        assert world.marks("n1")[keys.NODE_POOL] == "ready"


@pytest.mark.accept("M13", part="what is undone by hand again and again is written less and less often")
@simulated
async def test_a_label_that_somebody_takes_off_again_and_again_is_written_less_and_less_often() -> None:
    world = one_node()
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        world.writes.clear()
        for _ in range(600):
            world.patch(kinds.NODES, "n1", {"metadata": {"labels": {keys.NODE_POOL: None}}})
            await asyncio.sleep(1)
        assert world.writes["PATCH /api/v1/nodes/n1"] < 60


@pytest.mark.accept("M3", part="who is no guest does not count")
@simulated
async def test_pods_that_only_say_they_are_guests_do_not_count() -> None:
    world = one_node()
    world.add_namespace("outside", inject=False)
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        world.add_guest("liar", namespace="outside", labels={keys.POD_ROLE: keys.ROLE_GUEST})
        await asyncio.sleep(10)
        assert world.usage() == {"maximum": 1, "reserved": 1, "used": 0, "waiting": 0}


@pytest.mark.accept("M14", part="room that others take")
@simulated
async def test_a_foreign_pod_that_steals_the_room_is_told_and_waited_for() -> None:
    world = one_node()
    world.add_pod("thief", cpu="2")
    await asyncio.sleep(10)
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        assert world.rooms() == {}
        world.add_guest()
        await asyncio.sleep(10)
        assert "NoMachineRoom" in world.events("guest")
        world.delete(kinds.PODS, "thief")
        await asyncio.sleep(20)
        assert world.places() == {"guest": "n1"}


@pytest.mark.accept("M2", part="the catalogue is put right")
@simulated
async def test_the_catalogue_comes_back_when_it_is_gone() -> None:
    world = one_node()
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        request = port.Request(method="DELETE", path=kinds.CONFIG_MAPS.path(names.MACHINE_CATALOGUE, NAMESPACE))
        port.required(world.cluster.server.handle(request, RUNTIME.user))
        await asyncio.sleep(20)
        assert world.exists(kinds.CONFIG_MAPS, names.MACHINE_CATALOGUE)
