"""Nodes of machine groups on a simulated cluster: whose they are, what they carry, and what is said of them."""

import asyncio

import pytest

from autoscaler import machines
from autoscaler.api import keys
from autoscaler.kube import kinds
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.machine_audit import MACHINES
from tests.scenarios.machine_world import GROUP, NODE_POOLS, World, entry, machine_type, runtime, selected

pytestmark = pytest.mark.simulated
MEDIUM = keys.machine_label("medium")
MARKED = {keys.MACHINE_GROUP: GROUP, MEDIUM: GROUP, keys.NODE_POOL: keys.NODE_POOL_READY}
TAINTS = {MEDIUM, keys.NODE_POOL}
CLOSED = {keys.MACHINE_CLOSED}


def on(node: str) -> dict[str, str]:
    """Select one node."""
    return {"kubernetes.io/hostname": node}


def two_nodes() -> World:
    """Make a group of two nodes of one machine each, of which the first is tainted."""
    world = World()
    for name in ("n1", "n2"):
        world.add_node(name, cpu="2")
    world.add_machine(nodes=[entry("n1", taint=True), entry("n2")])
    return world


@pytest.mark.accept("M1", part="the later group leaves the node alone, says so, and has it once the first has left")
@simulated
async def test_a_node_that_two_groups_ask_for_is_the_older_ones_until_its_guests_have_gone() -> None:
    world = World()
    world.add_node("n1", cpu="4")
    world.add_machine("older", nodes=[entry("n1", taint=True)])
    await asyncio.sleep(2)  # times of creation are whole seconds
    world.add_machine("first-by-name", nodes=[entry("n1")])
    async with runtime(world, machines.build):
        await asyncio.sleep(20)
        assert (world.rooms(group="older"), world.rooms(group="first-by-name")) == ({"n1": 2}, {})
        assert world.marks("n1")[keys.MACHINE_GROUP] == world.marks("n1")[MEDIUM] == "older"
        assert world.node_conditions("older") == {"n1": "Ready"}
        assert world.node_conditions("first-by-name") == {"n1": "NotReady"}
        condition = world.condition("NodesReady", "first-by-name")
        assert condition is not None
        assert (condition["status"], condition["reason"]) == ("False", "NodeOfAnotherGroup")
        assert "older" in condition["message"]
        assert "NodeOfAnotherGroup" in world.events("first-by-name")
        world.writes.clear()
        await asyncio.sleep(600)
        assert not +world.writes

        world.add_guest(group="older")
        await asyncio.sleep(10)
        world.change_machine("older", nodePool=[])
        world.add_guest("waits", group="older")
        await asyncio.sleep(30)
        (told,) = world.events("waits")["NoMachineNode"]
        assert told["message"].startswith("no node of machine type medium takes guests now")
        assert world.marks("n1")[keys.MACHINE_GROUP] == world.marks("n1")[MEDIUM] == "older"
        assert world.taints("n1") == CLOSED
        assert world.rooms(group="first-by-name") == {}
        world.delete_guest()
        await asyncio.sleep(30)
        assert world.rooms(group="first-by-name") == {"n1": 2}
        assert world.marks("n1")[keys.MACHINE_GROUP] == world.marks("n1")[MEDIUM] == "first-by-name"
        assert world.taints("n1") == set()
        assert world.node_conditions("first-by-name") == {"n1": "Ready"}


@pytest.mark.accept("M6", part="marks follow the mode, and stay as long as guests that name them")
@pytest.mark.accept("M7", part="the condition follows the mode")
@simulated
async def test_a_node_in_maintenance_is_closed_and_keeps_its_labels_while_a_guest_runs_there() -> None:
    world = two_nodes()
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        assert world.marks("n1") == world.marks("n2") == MARKED
        assert (world.taints("n1"), world.taints("n2")) == (TAINTS, set())
        assert world.node_conditions() == {"n1": "Ready", "n2": "Ready"}
        world.add_guest("runs", nodeSelector=on("n1"))
        await asyncio.sleep(10)

        world.change_machine(nodePool=[entry("n1", mode="maintenance", taint=True), entry("n2")])
        await asyncio.sleep(20)
        assert world.node_conditions() == {"n1": "Maintenance", "n2": "Ready"}
        assert (world.marks("n1"), world.taints("n1")) == (MARKED, TAINTS | CLOSED)
        assert "NodeClosed" in world.events(GROUP)
        world.add_guest("waits", nodeSelector=on("n1"))
        await asyncio.sleep(10)
        assert world.places() == {"runs": "n1", "waits": None}
        assert "NoMachineNode" in world.events("waits")

        world.delete_guest("runs")
        await asyncio.sleep(20)
        assert (world.marks("n1"), world.taints("n1")) == ({keys.MACHINE_GROUP: GROUP}, TAINTS)
        world.change_machine(nodePool=[entry("n1", taint=True), entry("n2")])
        await asyncio.sleep(20)
        assert (world.marks("n1"), world.taints("n1")) == (MARKED, TAINTS)
        assert world.node_conditions() == {"n1": "Ready", "n2": "Ready"}
        assert world.places() == {"waits": "n1"}


@pytest.mark.accept("M6", part="labels stay for a guest that is about to be bound")
@simulated
async def test_a_closed_node_keeps_its_labels_for_a_guest_that_the_scheduler_may_be_binding_there() -> None:
    world = two_nodes()
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        world.add_guest(schedulerName="somebody-elses")  # says nothing, so it may bind the guest at any time
        await asyncio.sleep(10)
        world.change_machine(nodePool=[entry("n1", mode="maintenance"), entry("n2", mode="maintenance")])
        await asyncio.sleep(30)
        assert world.marks("n1") == world.marks("n2") == MARKED
        assert world.taints("n1") == world.taints("n2") == CLOSED
        world.delete_guest()
        await asyncio.sleep(30)
        assert world.marks("n1") == world.marks("n2") == {keys.MACHINE_GROUP: GROUP}


@pytest.mark.accept("M6", part="marks follow the node's health")
@pytest.mark.accept("M7", part="the condition follows the node's health")
@pytest.mark.accept("M10", part="room on a node that fails is not reserved")
@simulated
async def test_a_node_that_fails_or_is_cordoned_loses_its_labels_and_its_sleeper_and_gets_them_back() -> None:
    world = two_nodes()
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        world.kubelets.fail("n2")
        await asyncio.sleep(120)
        world.cordon("n1")
        await asyncio.sleep(20)
        assert world.node_conditions() == {"n1": "NotReady", "n2": "NotReady"}
        assert world.marks("n1") == world.marks("n2") == {keys.MACHINE_GROUP: GROUP}
        assert world.rooms() == {}
        assert world.usage()["reserved"] == 0
        said = world.condition("NodesReady")
        assert said is not None
        assert "n1: it is cordoned" in said["message"]
        assert "n2: it is not Ready" in said["message"]

        world.kubelets.recover("n2")
        world.cordon("n1", cordoned=False)
        await asyncio.sleep(30)
        assert world.node_conditions() == {"n1": "Ready", "n2": "Ready"}
        assert world.marks("n1") == world.marks("n2") == MARKED
        assert world.rooms() == {"n1": 1, "n2": 1}


@pytest.mark.accept("M12", part="a node that is dropped loses all of ours and nothing else, once its guest has gone")
@simulated
async def test_a_node_that_is_dropped_keeps_what_is_others_and_its_guest_runs_on() -> None:
    world = two_nodes()
    mine = {"labels": {"example.com/mine": "yes"}, "annotations": {"example.com/mine": "yes"}}
    taint = {"key": "example.com/mine", "effect": "PreferNoSchedule"}
    world.patch(kinds.NODES, "n1", {"metadata": mine, "spec": {"taints": [taint]}})
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        assert world.taints("n1") == TAINTS | {"example.com/mine"}
        world.add_guest(nodeSelector=on("n1"))
        await asyncio.sleep(10)
        world.change_machine(nodePool=[entry("n2")])
        await asyncio.sleep(30)
        assert world.places() == {"guest": "n1"}
        assert (world.marks("n1"), world.taints("n1")) == (MARKED, CLOSED | {"example.com/mine"})
        assert world.rooms() == {"n2": 1}

        world.delete_guest()
        await asyncio.sleep(30)
        assert (world.marks("n1"), world.taints("n1")) == ({}, {"example.com/mine"})
        metadata = world.node("n1")["metadata"]
        assert metadata["labels"]["example.com/mine"] == metadata["annotations"]["example.com/mine"] == "yes"
        assert world.node_conditions() == {"n2": "Ready"}
        assert "NodeLeft" in world.events(GROUP)


@pytest.mark.accept("M13", part="a missing node is told, and serves once it comes")
@pytest.mark.accept("M7", part="a node that is missing is NotReady")
@simulated
async def test_a_node_that_is_missing_keeps_nobody_waiting_and_serves_once_it_comes() -> None:
    world = World()
    world.add_node("n1", cpu="2")
    world.add_machine(nodes=[entry("n1"), entry("n2")])
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        assert world.rooms() == {"n1": 1}
        assert world.node_conditions() == {"n1": "Ready", "n2": "NotReady"}
        said = world.condition("NodesReady")
        assert said is not None
        assert (said["reason"], said["message"]) == ("NodeMissing", "node n2: it is missing")
        world.writes.clear()
        await asyncio.sleep(600)
        assert not +world.writes
        world.add_node("n2", cpu="2")
        await asyncio.sleep(20)
        assert world.rooms() == {"n1": 1, "n2": 1}
        assert world.node_conditions() == {"n1": "Ready", "n2": "Ready"}
        world.delete(kinds.NODES, "n2")
        await asyncio.sleep(60)
        assert world.node_conditions() == {"n1": "Ready", "n2": "NotReady"}


@pytest.mark.accept("M15", part="entries by nodeSelector follow nodes that come, change and go")
@simulated
async def test_nodes_that_are_selected_join_when_they_come_and_leave_with_their_label() -> None:
    world = World()
    pool = {"pool": "gpu"}
    world.add_machine(types={"medium": machine_type(available=3)}, nodes=[selected(pool)])
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        assert world.node_conditions() == {}
        for name, labels in (("n1", pool), ("n2", pool), ("other", {"pool": "cpu"})):
            world.add_node(name, cpu="2", labels=labels)
        await asyncio.sleep(20)
        assert world.rooms() == {"n1": 1, "n2": 1}
        assert world.node_conditions() == {"n1": "Ready", "n2": "Ready"}
        assert world.marks("other") == {}
        world.patch(kinds.NODES, "n1", {"metadata": {"labels": {"pool": "cpu"}}})
        world.delete(kinds.NODES, "n2")
        await asyncio.sleep(60)
        assert world.rooms() == {}
        assert world.node_conditions() == {}
        assert world.marks("n1") == {}
        world.patch(kinds.NODES, "other", {"metadata": {"labels": pool}})
        await asyncio.sleep(20)
        assert world.rooms() == {"other": 1}


@pytest.mark.accept("M9", part="hostLimit and dependence, as nodes, sleepers and guests have them")
@simulated
async def test_types_live_where_they_take_no_more_than_their_limit_and_children_on_their_parents_nodes() -> None:
    world = World()
    world.add_node("large", cpu="8")
    world.add_node("small", cpu="4")
    half = {"spec": {"dependence": {"parent": "whole", "availableRatio": 50}}, "available": 3}
    types = {"whole": machine_type(cpu="4", memory="8Gi", available=2, hostLimit=60), "half": half}
    world.add_machine(types=types, nodes=[entry("large", "whole", taint=True), entry("small", "whole", taint=True)])
    async with runtime(world, machines.build):
        await asyncio.sleep(20)
        assert world.rooms("whole") == {"large": 2}
        assert world.rooms("half") == {"small": 2}
        assert keys.machine_label("whole") not in world.marks("small")
        assert world.marks("small")[keys.machine_label("half")] == GROUP
        said = world.condition("NodesReady")
        assert said is not None
        assert (said["reason"], said["status"]) == ("HostLimit", "False")
        assert "one whole would take 100 % of the node's cpu, and its hostLimit is 60 %" in said["message"]
        asked = {each["spec"]["containers"][0]["resources"]["limits"]["cpu"] for each in world.sleepers("half")}
        assert asked == {"2"}
        guest = world.add_guest(machine="half")
        assert guest["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "2", "memory": "4Gi"}
        await asyncio.sleep(10)
        assert world.places() == {"guest": "small"}


@pytest.mark.accept("M11", part="it follows its Machine and goes with it")
@simulated
async def test_a_machine_node_pool_follows_its_machine_and_is_put_right() -> None:
    world = two_nodes()
    async with runtime(world, machines.build):
        await asyncio.sleep(10)
        made, machine = world.node_pool(), world.machine()
        assert made["metadata"]["name"] == f"{GROUP}-node-pool"
        assert made["metadata"]["labels"][keys.MACHINE_GROUP] == GROUP
        assert [each["uid"] for each in made["metadata"]["ownerReferences"]] == [machine["metadata"]["uid"]]
        assert made["spec"]["machineGroup"] == GROUP
        assert made["spec"]["nodePool"] == machine["spec"]["nodePool"]
        assert made["spec"]["machineTypeStock"] == [{"name": "medium"}]

        nodes, types = [entry("n2")], [{"name": name, **machine_type()} for name in ("medium", "large")]
        world.change_machine(nodePool=nodes, machineTypes=types)
        await asyncio.sleep(10)
        want = {"machineGroup": GROUP, "nodePool": nodes, "machineTypeStock": [{"name": "medium"}, {"name": "large"}]}
        assert world.node_pool()["spec"] == want
        world.patch(NODE_POOLS, f"{GROUP}-node-pool", {"spec": {"nodePool": []}})
        await asyncio.sleep(10)
        assert world.node_pool()["spec"] == want
        world.delete(NODE_POOLS, f"{GROUP}-node-pool")
        await asyncio.sleep(10)
        assert world.node_pool()["spec"] == want
        world.delete(MACHINES, GROUP)
        await asyncio.sleep(30)
        assert not world.exists(NODE_POOLS, f"{GROUP}-node-pool")
