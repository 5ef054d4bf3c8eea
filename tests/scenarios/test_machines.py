"""Room is held for machine types, and guests get it: the controller on a simulated cluster."""

import asyncio

import pytest

from autoscaler import machines
from autoscaler.api import keys
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.machine_world import World, entry, machine_type, runtime


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
