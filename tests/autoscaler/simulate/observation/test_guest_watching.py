"""When a guest came, ran, and whether room was held for it, is counted from pods."""

import asyncio
from typing import Any

import pytest

from autoscaler import machines
from autoscaler.api import keys
from autoscaler.kube import kinds
from autoscaler.simulate import trace
from autoscaler.simulate.observation.guest_record import GuestLife, MachineName, MachineUse
from autoscaler.simulate.observation.guest_watching import GuestWatcher
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cluster import SimulatedCluster
from autoscaler.simulation.cluster.store import Key
from autoscaler.simulation.cluster.verbs.deletes import Options
from autoscaler.simulation.cluster.verbs.writes import STATUS, Manner
from tests import builders
from tests.scenarios import machine_world
from tests.scenarios.machine_audit import MACHINES
from tests.scenarios.machine_world import GROUP, GUESTS, World

pytestmark = pytest.mark.simulated
MEDIUM = MachineName(group=GROUP, type="medium")
ASKS = trace.Guest.model_validate({"namespace": GUESTS, "group": GROUP, "type": "medium", "takes": ["1m", "1m"]})
Body = dict[str, Any]


class Watched:
    """A cluster in which two machines are held on one node, and what is seen of its guests."""

    def __init__(self) -> None:
        self.world = World()
        self.watcher = GuestWatcher(self.world.cluster, virtual_time.clock())
        self.world.add_node("n1")
        self.world.add_machine(nodes=[machine_world.entry("n1")])

    def come(self, name: str) -> None:
        self.watcher.comes(name, ASKS)
        self.world.add_guest(name)

    def life(self, name: str) -> GuestLife:
        return next(each for each in self.watcher.seen().lives if each.name == name)

    def held(self) -> dict[str, bool]:
        return {each.name: each.is_room_held for each in self.watcher.seen().lives}


async def test_guests_for_whom_room_is_held_are_told_from_those_who_must_wait() -> None:
    watched = Watched()
    async with machine_world.runtime(watched.world, machines.build):
        await asyncio.sleep(30)
        for name in ("one", "two", "three"):  # on two machines
            watched.come(name)
            await asyncio.sleep(2)
        await asyncio.sleep(30)
        assert watched.held() == {"one": True, "two": True, "three": False}
        assert watched.life("three").began_at is None
        watched.world.delete_guest("one")
        await asyncio.sleep(30)
    first, last = watched.life("one").wait, watched.life("three").wait
    assert 1 <= first.seconds(0) < 5
    assert 32 <= last.seconds(0) < 37
    seen = watched.watcher.seen()
    assert seen.uses == (MachineUse(machine=MEDIUM, maximum=2, most_used=2),)
    assert seen.beyond_maximum == 0


async def test_room_that_a_guest_uses_is_not_held_and_is_again_when_it_has_ended() -> None:
    watched = Watched()
    async with machine_world.runtime(watched.world, machines.build):
        await asyncio.sleep(30)
        watched.come("one")
        watched.come("two")
        await asyncio.sleep(30)
        watched.watcher.comes("early", ASKS)
        watched.world.delete_guest("one")
        await asyncio.sleep(30)
        watched.watcher.comes("late", ASKS)
    assert watched.held() == {"one": True, "two": True, "early": False, "late": True}


async def test_a_guest_that_ran_and_ended_waited_until_it_ran() -> None:
    watched = Watched()
    async with machine_world.runtime(watched.world, machines.build):
        await asyncio.sleep(30)
        watched.watcher.comes("one", ASKS)
        watched.world.add_guest("one", annotations={"local.sluice.dev/run-for": "10s"}, restartPolicy="Never")
        await asyncio.sleep(5)
        began_at = watched.life("one").began_at
        await asyncio.sleep(30)
        watched.come("two")
        await asyncio.sleep(30)
    assert began_at is not None
    assert watched.life("one").began_at == began_at
    assert watched.watcher.seen().uses[0].most_used == 1


async def test_a_guest_that_could_not_be_made_yet_has_come_all_the_same() -> None:
    watched = Watched()
    watched.watcher.comes("one", ASKS)
    async with machine_world.runtime(watched.world, machines.build):
        await asyncio.sleep(30)
        watched.world.add_guest("one")
        await asyncio.sleep(30)
    assert 30 <= watched.life("one").wait.seconds(0) < 35
    assert watched.held() == {"one": False}


class Unguarded:
    """A cluster without our policies and runtime: pods of a type of one machine come whether there are any or not."""

    def __init__(self) -> None:
        self.cluster = SimulatedCluster(virtual_time.clock(), admission_policies=())
        self.cluster.install_definitions()
        self.watcher = GuestWatcher(self.cluster, virtual_time.clock())
        offered = [{"name": "medium", **machine_world.machine_type(available=1)}]
        self.cluster.create(MACHINES, builders.resource("Machine", name=GROUP, machineTypes=offered, nodePool=[]))

    def add(self, name: str, role: str, *, node: str | None = None, gate: str | None = None) -> None:
        labels = {keys.MACHINE_GROUP: GROUP, keys.MACHINE_TYPE: "medium", keys.POD_ROLE: role}
        spec: Body = {"containers": [{"name": "main", "image": "main:1"}]}
        if gate:
            spec["schedulingGates"] = [{"name": gate}]
        if node:
            spec["nodeName"] = node
        self.cluster.create(
            kinds.PODS, {"metadata": {"name": name, "namespace": "default", "labels": labels}, "spec": spec}
        )

    def end(self, name: str) -> None:
        self.cluster.server.writes.update(
            kinds.PODS,
            Key("default", name),
            lambda body: {**body, "status": {**body["status"], "phase": "Succeeded"}},
            manner=Manner(user="admin"),
            subresource=STATUS,
        )

    def delete(self, name: str) -> None:
        self.cluster.server.deletes.delete(kinds.PODS, Key("default", name), Options(), Manner(user="admin"))

    def is_room_held(self) -> bool:
        """Tell whether room is held for one more guest."""
        self.watcher.comes("more", ASKS)
        return self.watcher.seen().lives[-1].is_room_held

    @property
    def beyond(self) -> int:
        return self.watcher.seen().beyond_maximum


async def test_guests_and_sleepers_beyond_the_maximum_are_counted_at_the_worst_moment() -> None:
    unguarded = Unguarded()
    unguarded.add("guest", keys.ROLE_GUEST)
    assert unguarded.beyond == 0
    unguarded.add("sleeper", keys.ROLE_RESERVATION)
    unguarded.add("third", keys.ROLE_GUEST, node="n1")
    assert unguarded.beyond == 2
    unguarded.end("guest")
    assert unguarded.beyond == 2


async def test_pods_behind_our_gate_and_pods_that_ended_are_not_open() -> None:
    unguarded = Unguarded()
    unguarded.add("gated", keys.ROLE_GUEST, gate=keys.MACHINE_GATE)
    unguarded.add("first", keys.ROLE_GUEST)
    unguarded.end("first")
    unguarded.add("second", keys.ROLE_GUEST)
    assert unguarded.beyond == 0
    unguarded.add("elsewhere", keys.ROLE_GUEST, gate="example.com/another")
    assert unguarded.beyond == 1


async def test_room_that_others_wait_for_or_that_is_given_up_is_not_held_for_one_more() -> None:
    unguarded = Unguarded()
    unguarded.add("gated", keys.ROLE_RESERVATION, gate=keys.MACHINE_GATE)
    assert not unguarded.is_room_held()
    for name in ("first", "second"):
        unguarded.add(name, keys.ROLE_RESERVATION, node="n1")
    unguarded.add("guest", keys.ROLE_GUEST, gate=keys.MACHINE_GATE)
    assert unguarded.is_room_held()
    unguarded.add("another", keys.ROLE_GUEST, gate=keys.MACHINE_GATE)
    assert not unguarded.is_room_held()
    unguarded.end("another")
    assert unguarded.is_room_held()
    unguarded.delete("first")
    assert not unguarded.is_room_held()
