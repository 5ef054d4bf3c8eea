"""What capacity promises about clouds that are short, late, slow or silent, in virtual time."""

import asyncio
import itertools
from collections import Counter
from typing import Any

import pytest

from autoscaler.api import keys, resources
from autoscaler.api.settings.node_groups import NodeGroupKey
from autoscaler.api.settings.scaling import Scaling
from autoscaler.cloud import port as cloud
from autoscaler.kube import kinds
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cloud import faults
from autoscaler.simulation.cloud.model import Obstacle
from tests import builders
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.capacity_replicas import add_account, replica
from tests.scenarios.capacity_world import World, runtime

POOLS = kinds.custom(resources.InstancePool)
SHORT = cloud.LaunchFailure.INSUFFICIENT_CAPACITY
GPU = "g4dn.xlarge"
A, B, C = (f"workers-{zone}-m5.xlarge" for zone in "abc")


def groups(world: World) -> dict[str, Any]:
    """Return what pools say of their groups, by name."""
    return {each["name"]: each for pool in world.all(POOLS) for each in pool["status"].get("nodeGroups", ())}


async def sizes(world: World, seconds: float) -> list[tuple[float, dict[str, int]]]:
    """Watch the groups, and return each change of what is desired of them with its time."""
    told: list[tuple[float, dict[str, int]]] = []
    for _ in range(int(seconds * 10)):
        await asyncio.sleep(0.1)
        now = world.desired()
        if not told or told[-1][1] != now:
            told.append((world.cloud.clock.now(), now))
    return told


# Shortages


@pytest.mark.accept("G9")
@simulated
async def test_what_a_zone_has_not_or_does_not_offer_is_taken_back_and_tried_elsewhere_at_once() -> None:
    world = World()
    world.add_pool()
    world.cloud.hinder(Obstacle(failure=SHORT, zone="a"))
    world.cloud.hinder(Obstacle(failure=cloud.LaunchFailure.UNSUPPORTED, zone="b"))
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("one")
        told = await sizes(world, 60)
        assert set(world.bound()) == {"one"}
        asked = [next(iter(now)) for _, now in told if now]
        assert asked == [A, B, C]
        gaps = [after - before for (before, gone), (after, _) in itertools.pairwise(told) if not gone]
        assert not [gap for gap in gaps[1:] if gap > 0.3]  # the next one was asked in the same cycle
        told_of = {name: each.get("reason", "").partition(":")[0] for name, each in groups(world).items()}
        assert told_of == {A: "unavailable (InsufficientCapacity)", B: "unavailable (Unsupported)", C: ""}
        assert groups(world)[A]["unavailableUntil"] < groups(world)[B]["unavailableUntil"]


@pytest.mark.accept("G9")
@simulated
async def test_an_offering_that_fails_again_is_left_alone_for_longer_and_one_that_came_is_forgiven() -> None:
    world = World()
    world.add_pool(zones=("a",), limits__maxIdleSeconds=0)
    world.cloud.hinder(Obstacle(failure=SHORT))
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("one")
        asked = [at for at, now in await sizes(world, 1300) if now]
        pauses = [round((after - before) / 180) for before, after in itertools.pairwise(asked)]
        assert pauses == [1, 2, 4]
        world.cloud.relieve()
        await asyncio.sleep(1600)
        assert set(world.bound()) == {"one"}
        world.cloud.hinder(Obstacle(failure=SHORT))
        world.add_pod("two", cpu="3")
        again = [at for at, now in await sizes(world, 300) if now == {A: 2}]
        assert 180 <= again[1] - again[0] < 200


@pytest.mark.accept("G15")
@simulated
async def test_an_instance_that_comes_after_its_group_was_given_up_is_kept_and_used() -> None:
    world = World()
    world.add_pool(zones=("a", "b"), limits__maxIdleSeconds=600)
    here = {keys.ZONE: "a"}
    (late, _) = world.cloud.groups
    world.cloud.be_late(late, 60)
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("one", cpu="3", nodeSelector=here)
        await asyncio.sleep(5)  # accepted by now, and nobody can see it
        world.cloud.hinder(Obstacle(failure=SHORT, zone="a"))
        world.add_pod("two", cpu="3", nodeSelector=here)
        await asyncio.sleep(10)
        assert world.desired() == {}  # nothing seems to come
        world.delete_pod("two")
        await asyncio.sleep(60)
        assert set(world.bound()) == {"one"}
        assert world.desired() == {A: 1}
        (instance,) = world.cloud.instances.values()
        assert instance.counts
        world.delete_pod("one")
        await asyncio.sleep(700)
        assert world.nodes() == []  # and it goes like any other
        assert world.desired() == {}


@pytest.mark.accept("G15")
@simulated
async def test_a_size_that_somebody_changed_meanwhile_is_read_before_it_is_written() -> None:
    world = World()
    world.add_pool(zones=("a",), limits__maxIdleSeconds=36_000)
    async with runtime(world):
        await asyncio.sleep(60)
        (group,) = world.cloud.groups.values()
        world.cloud.set_desired(group, 6)  # we read once a minute, and would ask for four
        for number in range(4):
            world.add_pod(f"p-{number}", cpu="3")
        told = [now[A] for _, now in await sizes(world, 90)]
        assert told == sorted(told)
        assert told[-1] == 6
        assert len(world.bound()) == 4
        assert len(world.cloud.instances) == 6


@pytest.mark.accept("G15")
@simulated
async def test_what_could_not_be_taken_back_is_taken_back_later() -> None:
    world = World()
    world.add_pool(zones=("a",))
    world.cloud.hinder(Obstacle(failure=SHORT))
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("one")
        await asyncio.sleep(1)
        world.cloud.faults.add(faults.Effect.THROTTLE, faults.Call.SET_DESIRED, times=1)
        await asyncio.sleep(20)
        assert world.desired() == {}


# Clouds that do not answer


@pytest.mark.accept("G16", "P21")
@simulated
async def test_an_account_that_is_throttled_slows_no_other_and_recovers() -> None:
    world = World()
    world.add_pool(zones=("a",))
    far = add_account(world, "far", pool="far")
    async with replica(world, others={"far": far}):
        await asyncio.sleep(5)
        far.faults.add(faults.Effect.THROTTLE, times=None)
        world.add_pod("near", nodeSelector={keys.INSTANCE_POOL: "workers"})
        world.add_pod("far", nodeSelector={keys.INSTANCE_POOL: "far"})
        await asyncio.sleep(1)
        assert world.desired() == {A: 1}
        await asyncio.sleep(600)
        assert set(world.bound()) == {"near"}
        assert not far.instances
        far.faults.clear()
        await asyncio.sleep(120)
        assert set(world.bound()) == {"near", "far"}
        assert (len(far.instances), len(world.cloud.instances)) == (1, 1)


@pytest.mark.accept("G16")
@simulated
async def test_nothing_is_decided_while_the_groups_cannot_be_read_again() -> None:
    world = World()
    world.add_pool(zones=("a",))
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("one", cpu="3")
        await asyncio.sleep(60)
        world.cloud.faults.add(faults.Effect.THROTTLE, faults.Call.GROUPS, times=None)
        world.add_pod("two", cpu="3")
        await asyncio.sleep(900)
        assert world.desired() == {A: 1}
        assert set(world.bound()) == {"one"}
        world.cloud.faults.clear()
        await asyncio.sleep(120)
        assert set(world.bound()) == {"one", "two"}
        assert len(world.cloud.instances) == 2


@pytest.mark.accept("G16")
@pytest.mark.parametrize("effect", [faults.Effect.THROTTLE, faults.Effect.REFUSE, faults.Effect.DENY])
def test_activities_that_cannot_be_read_hold_nobody_up(effect: faults.Effect) -> None:
    async def scenario() -> None:
        world = World()
        world.add_pool()
        async with runtime(world):
            await asyncio.sleep(5)
            world.cloud.faults.add(effect, faults.Call.ACTIVITIES, times=None)
            for number, zone in enumerate("abc"):
                world.add_pod(f"p-{number}", cpu="3", nodeSelector={keys.ZONE: zone})
                await asyncio.sleep(1)
                assert len(world.desired()) == number + 1
                await asyncio.sleep(19)
            await asyncio.sleep(60)
            assert len(world.bound()) == 3
            assert world.desired() == {A: 1, B: 1, C: 1}

    virtual_time.run(scenario())


@pytest.mark.accept("G16")
@simulated
async def test_nothing_is_started_elsewhere_because_an_account_was_not_read_yet() -> None:
    world = World()
    world.add_pool(zones=("a",))
    far = add_account(world, "far", pool="far")
    far.latency_seconds = 3.0
    entries = [{"name": "far", "priority": 9}, {"name": "workers", "priority": 1}]
    world.cluster.create(kinds.custom(resources.Scope), builders.resource("Scope", pools=entries))
    world.cluster.create(kinds.NAMESPACES, {"metadata": {"name": "team", "labels": {keys.SCOPE: "research"}}})
    world.add_pod("one", cpu="3", namespace="team")
    async with replica(world, others={"far": far}):
        await asyncio.sleep(60)
        assert (len(far.instances), len(world.cloud.instances)) == (1, 0)
        assert set(world.bound()) == {"one"}
        assert not world.events("NotTriggerScaleUp")


@pytest.mark.accept("G16")
@simulated
async def test_a_runtime_that_starts_while_groups_cannot_be_read_leaves_nodes_and_books_as_they_are() -> None:
    world = World()
    world.add_pool(zones=("a",), limits__maxIdleSeconds=60)
    async with runtime(world):
        world.add_pod("one", cpu="3")
        await asyncio.sleep(60)
    world.cloud.faults.add(faults.Effect.THROTTLE, faults.Call.GROUPS, times=None)
    async with runtime(world, "b"):
        world.add_pod("two", cpu="3")
        await asyncio.sleep(900)
        assert world.desired() == {A: 1}
        assert [each["status"]["phase"] for each in world.instances()] == ["Ready"]
        world.cloud.faults.clear()
        await asyncio.sleep(180)
        assert set(world.bound()) == {"one", "two"}
        assert len(world.cloud.instances) == 2


# Devices that come late


def gpu_world(zones: tuple[str, ...] = ("a",)) -> World:
    world = World()
    world.allocatable = {keys.GPU_RESOURCE: "0"}  # the device plugin has not told yet
    world.add_pool("gpu", types=(GPU,), zones=zones, registrationTimeoutSeconds=300)
    return world


def ask_for_gpu(world: World, name: str = "train") -> None:
    requests = {"cpu": "1", "memory": "1Gi", keys.GPU_RESOURCE: "1"}
    container = {"name": "main", "image": "app:1", "resources": {"requests": requests, "limits": requests}}
    world.add_pod(name, containers=[container])


def announce(world: World, node: Any) -> None:
    """Do what a device plugin does."""
    room = {**node["status"]["allocatable"], keys.GPU_RESOURCE: "1"}
    changes = {"status": {"allocatable": room, "capacity": room}}
    world.patch(kinds.NODES, node["metadata"]["name"], changes, "status")


@pytest.mark.accept("G20")
@simulated
async def test_a_ready_node_whose_gpu_has_not_appeared_is_waited_for_and_used() -> None:
    world = gpu_world()
    async with runtime(world):
        await asyncio.sleep(5)
        ask_for_gpu(world)
        await asyncio.sleep(240)
        (node,) = world.nodes()
        assert len(world.cloud.instances) == 1
        announce(world, node)
        await asyncio.sleep(60)
        assert set(world.bound()) == {"train"}
        await asyncio.sleep(600)
        assert len(world.cloud.instances) == 1


@pytest.mark.accept("G20")
@simulated
async def test_gpus_that_have_not_appeared_are_waited_for_in_every_group_of_a_pool() -> None:
    world = gpu_world(("a", "b", "c"))
    async with runtime(world):
        await asyncio.sleep(5)
        for number in range(5):
            ask_for_gpu(world, f"train-{number}")
            await asyncio.sleep(20)  # the next one comes while the others are on their way
        await asyncio.sleep(120)
        assert len(world.cloud.instances) == 5
        nodes = world.nodes()
        assert len({node["metadata"]["labels"][keys.ZONE] for node in nodes}) == 3
        for node in nodes:
            announce(world, node)
            await asyncio.sleep(10)
        assert len(world.bound()) == 5
        assert len(world.cloud.instances) == 5


@pytest.mark.accept("G20")
@simulated
async def test_a_gpu_that_never_appears_is_not_waited_for_for_ever() -> None:
    world = gpu_world()
    async with runtime(world):
        await asyncio.sleep(5)
        ask_for_gpu(world)
        await asyncio.sleep(300)
        assert len(world.cloud.instances) == 1
        await asyncio.sleep(300)  # the offering is left alone for three minutes
        assert len(world.cloud.instances) == 2


# Limits and balance


@pytest.mark.accept("G24")
@simulated
async def test_every_ceiling_of_the_cluster_holds_and_is_named() -> None:
    for scaling, want, why in (
        (Scaling(nodes=2), 2, "the cluster has 2 of at most 2 nodes"),
        (Scaling(cores=13), 3, "the cluster has 12 of at most 13 cores"),
        (Scaling(launches_per_minute=4), 4, "4 of at most 4 instances were started within a minute"),
    ):
        world = World()
        world.add_pool()
        async with runtime(world, scaling=scaling):
            await asyncio.sleep(5)
            for number in range(9):
                world.add_pod(f"p-{number}", cpu="3")
            await asyncio.sleep(40)
            assert sum(world.desired().values()) == want
            assert why in world.events("NotTriggerScaleUp")[0]["message"]


@pytest.mark.accept("G24")
@simulated
async def test_launches_go_on_with_the_next_minute() -> None:
    world = World()
    world.add_pool()
    async with runtime(world, scaling=Scaling(launches_per_minute=4)):
        await asyncio.sleep(5)
        for number in range(9):
            world.add_pod(f"p-{number}", cpu="3")
        told = await sizes(world, 300)
        launched = [(at, sum(now.values())) for at, now in told]
        for at, _ in launched:
            within = [size for when, size in launched if at <= when < at + 60]
            before = max((size for when, size in launched if when < at), default=0)
            assert within[-1] - before <= 4
        assert len(world.bound()) == 9


@pytest.mark.accept("G13")
@simulated
async def test_equal_groups_of_several_zones_fill_evenly_also_one_by_one() -> None:
    world = World()
    world.add_pool(limits__maxIdleSeconds=36_000)
    async with runtime(world):
        await asyncio.sleep(5)
        for number in range(7):
            world.add_pod(f"p-{number}", cpu="3")
            await asyncio.sleep(20)
            counts = Counter({A: 0, B: 0, C: 0} | world.desired())
            assert max(counts.values()) - min(counts.values()) <= 1
        for number in range(7, 30):
            world.add_pod(f"p-{number}", cpu="3")
        await asyncio.sleep(120)
        assert world.desired() == {A: 10, B: 10, C: 10}


@pytest.mark.accept("P21")
@simulated
async def test_a_pool_that_is_wrong_stops_no_other() -> None:
    world = World()
    world.add_pool(zones=("a",))
    world.add_pool("strange", zones=("a",), providerAccount="nobodys")
    world.add_group(NodeGroupKey(pool="gone", zone="a", instance_type="m5.xlarge"), minimum=1)
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("one", nodeSelector={keys.INSTANCE_POOL: "workers"})
        await asyncio.sleep(60)
        assert set(world.bound()) == {"one"}
        told = {pool["metadata"]["name"]: pool["status"]["conditions"][0]["reason"] for pool in world.all(POOLS)}
        assert told == {"workers": "Usable", "strange": "AccountUnusable"}
