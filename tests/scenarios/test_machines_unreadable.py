"""Machines that the runtime cannot read: they keep what they have, others go on, and they can be deleted."""

import asyncio
from typing import Any

import pytest

from autoscaler import machines
from autoscaler.kube import kinds
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.machine_audit import MACHINES
from tests.scenarios.machine_world import GROUP, World, entry, runtime
from tests.scenarios.test_machines_hostile_hands import MINUTE, SET, one_node

pytestmark = pytest.mark.simulated


def spoil(world: World, value: Any = "many") -> None:
    """Store a Machine as if it had been written by another version of the runtime, which knew other rules."""
    stored = world.machine()
    types = [{**each, "available": value} for each in stored["spec"]["machineTypes"]]
    world.cluster.server.store.put(MACHINES, {**stored, "spec": {**stored["spec"], "machineTypes": types}})


def everything(world: World) -> object:
    """Return what a group has, and what is said of it to its guests."""
    sets = [each["spec"] for each in world.all(kinds.STATEFUL_SETS) if each["metadata"]["name"] == SET]
    said = {key: value for key, value in world.catalogue().items() if key.startswith(f"{GROUP}.")}
    return world.marks("n1"), world.taints("n1"), world.rooms(), world.places(), sets, said


@pytest.mark.accept("R5", part="a Machine that cannot be read keeps what it has")
@simulated
async def test_a_machine_that_cannot_be_read_any_more_keeps_what_it_has_until_it_can() -> None:
    world = one_node(available=2)
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        world.add_guest("g1")
        await asyncio.sleep(10)
        want = everything(world)
        spoil(world)
        await asyncio.sleep(60)
        assert everything(world) == want
        assert "Unreadable" in world.events(GROUP)
        world.add_guest("g2")
        world.writes.clear()
        await asyncio.sleep(10 * MINUTE)
        assert not +world.writes
        spoil(world, 2)
        await asyncio.sleep(30)
        assert world.places() == {"g1": "n1", "g2": "n1"}


@pytest.mark.accept("M2", part="guests of a Machine that cannot be read")
@simulated
async def test_a_new_runtime_keeps_what_a_machine_has_that_it_cannot_read() -> None:
    world = one_node(available=2)
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        world.add_guest("g1")
        await asyncio.sleep(10)
    want = everything(world)
    spoil(world)
    world.add_node("n2", cpu="2")
    async with runtime(world, machines.build, pod="b"):
        await asyncio.sleep(60)
        assert everything(world) == want
        world.add_machine("other", nodes=[entry("n2")])
        await asyncio.sleep(60)
        assert world.rooms(group="other") == {"n2": 1}
        assert everything(world) == want
        assert world.catalogue()["groups"] == "general, other"


@pytest.mark.accept("M12", part="a Machine that cannot be read")
@simulated
async def test_a_machine_that_cannot_be_read_and_is_deleted_leaves_nothing_behind() -> None:
    world = one_node(available=2)
    world.add_node("n2", cpu="1")  # no room for a sleeper there
    world.change_machine(nodePool=[entry("n1"), entry("n2")])
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        assert world.marks("n2")
        spoil(world)
        await asyncio.sleep(10)
        world.delete(MACHINES, GROUP)
        await asyncio.sleep(60)
        assert world.sleepers() == []
        assert world.all(kinds.STATEFUL_SETS) == world.all(kinds.SERVICES)[1:] == []
        assert world.marks("n1") == world.marks("n2") == {}
        assert world.taints("n1") == world.taints("n2") == set()
