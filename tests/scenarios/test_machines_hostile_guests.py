"""Guests that do not play along: those that can be served are, and the others are told why they wait."""

import asyncio
from typing import Any

import pytest

from autoscaler import machines
from autoscaler.api import keys
from autoscaler.kube import kinds, port
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.machine_world import GROUP, GUESTS, NAMESPACE, World, entry, machine_type, runtime

pytestmark = pytest.mark.simulated
MINUTE = 60
ANOTHERS = "somebody-elses"


def one_node(*, available: int = 2) -> World:
    world = World()
    world.add_node("n1", cpu=str(2 * available))
    world.add_machine(types={"medium": machine_type(available=available)}, nodes=[entry("n1")])
    return world


# Labels and annotations that lie


@pytest.mark.accept("M2", part="guests that lie are refused")
@pytest.mark.parametrize(
    ("labels", "annotations"),
    [
        ({keys.MACHINE_GROUP: "another"}, {}),
        ({keys.MACHINE_TYPE: "huge"}, {}),
        ({keys.POD_ROLE: keys.ROLE_RESERVATION}, {}),
        ({keys.INJECTING_CONTAINER: "nobody"}, {}),
        ({}, {keys.MACHINE_PROMISED: "n1"}),
        ({}, {keys.MACHINE_TRYING_SINCE: "99999999999"}),
        ({}, {keys.MACHINE_PINNED: "n1"}),
    ],
)
def test_guests_that_lie_about_what_they_are_are_refused(labels: dict[str, str], annotations: dict[str, str]) -> None:
    @simulated
    async def test() -> None:
        world = one_node()
        async with runtime(world, machines.build):
            await asyncio.sleep(10)
            with pytest.raises(port.ApiError):
                world.add_guest(labels=labels, annotations=annotations)
            await asyncio.sleep(10)
            assert world.usage() == {"maximum": 2, "reserved": 2, "used": 0, "waiting": 0}

    test()


@pytest.mark.accept("M3", part="guests cannot hide from being counted")
@pytest.mark.parametrize(
    "changes",
    [
        {"labels": {keys.MACHINE_TYPE: "huge"}},
        {"labels": {keys.MACHINE_GROUP: None}},
        {"labels": {keys.POD_ROLE: keys.ROLE_RESERVATION}},
        {"annotations": {keys.MACHINE_TRYING_SINCE: None}},
    ],
)
def test_a_guest_that_runs_cannot_hide(changes: dict[str, Any]) -> None:
    @simulated
    async def test() -> None:
        world = one_node()
        async with runtime(world, machines.build):
            await asyncio.sleep(10)
            world.add_guest()
            await asyncio.sleep(10)
            with pytest.raises(port.ApiError):
                world.patch(kinds.PODS, "guest", {"metadata": changes}, GUESTS)
            await asyncio.sleep(10)
            assert world.usage() == {"maximum": 2, "reserved": 1, "used": 1, "waiting": 0}

    test()


@pytest.mark.accept("M3", part="who is no guest does not count")
@simulated
async def test_pods_that_look_like_guests_and_sleepers_take_room_and_no_machine() -> None:
    world = one_node()
    world.add_namespace("outside", inject=False)
    asked = {keys.MACHINE_GROUP: GROUP, keys.MACHINE_TYPE: "medium", keys.POD_ROLE: keys.ROLE_GUEST}
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        container = {"name": "main", "image": "main:1", "resources": {"requests": {"cpu": "1"}}}
        bound = {"containers": [container], "nodeName": "n1", "terminationGracePeriodSeconds": 0}
        body = {"metadata": {"name": "squatter", "labels": asked}, "spec": bound}
        world.send("POST", kinds.PODS.collection("outside"), body)
        await asyncio.sleep(30)
        assert world.usage() == {"maximum": 2, "reserved": 2, "used": 0, "waiting": 0}
        for name in ("g1", "g2"):
            world.add_guest(name)
        await asyncio.sleep(30)
        assert sorted(str(node) for node in world.places().values()) == ["None", "n1"]
        world.delete(kinds.PODS, "squatter", "outside")
        await asyncio.sleep(30)
        assert world.places() == {"g1": "n1", "g2": "n1"}


# Guests that nobody but others can help


@pytest.mark.accept("M14", part="a guest that nobody schedules is told and goes last")
@simulated
async def test_a_guest_of_another_scheduler_holds_others_back_for_a_while_only() -> None:
    world = one_node()
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        world.add_guest("odd", schedulerName=ANOTHERS)
        await asyncio.sleep(5)
        world.add_guest("good")
        await asyncio.sleep(6 * MINUTE)
        assert world.places() == {"odd": None, "good": "n1"}
        assert "MachineRefused" in world.events("odd")
        assert world.usage() == {"maximum": 2, "reserved": 0, "used": 1, "waiting": 1}
        world.writes.clear()
        await asyncio.sleep(10 * MINUTE)
        assert not +world.writes
        world.delete_guest("odd")
        await asyncio.sleep(30)
        assert world.rooms() == {"n1": 1}


@pytest.mark.accept("M14", part="gates of others")
@simulated
async def test_a_guest_with_a_gate_that_never_opens_holds_nothing_and_nobody_back() -> None:
    world = one_node()
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        world.add_guest("held", schedulingGates=[{"name": "example.com/never"}])
        await asyncio.sleep(10)
        assert world.rooms() == {"n1": 2}
        assert world.usage() == {"maximum": 2, "reserved": 2, "used": 0, "waiting": 1}
        assert "OtherGates" in world.events("held")
        for name in ("g1", "g2"):
            world.add_guest(name)
        await asyncio.sleep(20)
        assert world.places() == {"held": None, "g1": "n1", "g2": "n1"}
        world.writes.clear()
        await asyncio.sleep(10 * MINUTE)
        assert not +world.writes
        world.delete_guest("g1")
        world.patch(kinds.PODS, "held", {"spec": {"schedulingGates": [{"name": keys.MACHINE_GATE}]}}, GUESTS)
        await asyncio.sleep(20)
        assert world.places() == {"held": "n1", "g2": "n1"}


@simulated
async def test_guests_that_are_made_and_deleted_while_they_wait_leave_the_room_to_others() -> None:
    world = one_node(available=1)
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        for turn in range(30):
            world.add_guest(f"fickle-{turn}")
            await asyncio.sleep(0.01 * turn)
            world.delete_guest(f"fickle-{turn}")
        world.add_guest("good")
        await asyncio.sleep(30)
        assert world.places() == {"good": "n1"}
        world.delete_guest("good")
        await asyncio.sleep(30)
        assert world.rooms() == {"n1": 1}


# Namespaces


@pytest.mark.accept("M14", part="guests of a namespace that gives no machines are told")
@pytest.mark.accept("M3", part="guests of a namespace that gives no machines any more")
@simulated
async def test_guests_of_a_namespace_that_gives_no_machines_any_more_are_told_and_served_once_it_does_again() -> None:
    world = one_node(available=1)
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        world.add_guest("runs")
        await asyncio.sleep(10)
        world.add_guest("waits")
        await asyncio.sleep(10)
        world.patch(kinds.NAMESPACES, GUESTS, {"metadata": {"labels": {keys.INJECT_RESOURCE: None}}}, NAMESPACE)
        await asyncio.sleep(10)
        assert world.places() == {"runs": "n1", "waits": None}
        assert world.usage() == {"maximum": 1, "reserved": 0, "used": 1, "waiting": 0}
        assert "NamespaceGivesNoMachines" in world.events("waits")
        world.delete_guest("runs")
        await asyncio.sleep(30)
        assert world.rooms() == {"n1": 1}
        assert world.places() == {"waits": None}
        world.writes.clear()
        await asyncio.sleep(10 * MINUTE)
        assert not +world.writes
        enabled = {keys.INJECT_RESOURCE: keys.INJECT_ENABLED}
        world.patch(kinds.NAMESPACES, GUESTS, {"metadata": {"labels": enabled}}, NAMESPACE)
        await asyncio.sleep(10)
        assert world.places() == {"waits": "n1"}
