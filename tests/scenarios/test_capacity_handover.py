"""What one leader of capacity learned and the next one needs, in virtual time: it is written down first."""

import asyncio

import pytest
import structlog.testing

from autoscaler.api import keys
from autoscaler.cloud import port as cloud
from autoscaler.kube import kinds
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cloud import faults
from autoscaler.simulation.cloud.model import Obstacle
from autoscaler.simulation.cluster.faults import Answer, Matching
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.capacity_replicas import Death, replica
from tests.scenarios.capacity_services import Service
from tests.scenarios.capacity_world import World, runtime


@pytest.mark.accept("G12")
@pytest.mark.parametrize("is_after", [False, True])
def test_a_notice_of_interruption_is_known_to_the_next_leader(*, is_after: bool) -> None:
    """Whoever heard of it is killed at its first write for it, before or after this is done."""

    async def scenario() -> None:
        world = World()
        world.add_pool(zones=("a", "b"))
        service = Service(world, "web")
        async with runtime(world):
            await asyncio.sleep(5)
            service.start()
            await asyncio.sleep(60)
        (node,) = service.running().values()
        (instance,) = world.cloud.instances.values()
        death = Death(at=1, is_after=is_after, told=lambda what: "/nodes/" in what or "/pods/" in what)
        async with replica(world, "mortal", death=death):
            await asyncio.sleep(5)
            world.cloud.interrupt(instance.id)
            await asyncio.sleep(5)
            assert death.is_dead
            async with replica(world, "next"):
                await asyncio.sleep(100)  # the provider takes it away after two minutes
                assert service.running()
                assert node not in service.running().values()

    virtual_time.run(scenario())


@simulated
async def test_a_notice_that_the_api_server_refuses_is_written_ever_more_seldom_and_in_the_end() -> None:
    world = World()
    world.add_pool(zones=("a",))
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("work", cpu="3")
        await asyncio.sleep(60)
        (instance,) = world.cloud.instances.values()
        world.cluster.faults.add(Answer(code=403), Matching(method="PATCH", path="/api/v1/nodes/"), times=None)
        with structlog.testing.capture_logs() as logged:
            world.cloud.news.tell(cloud.SpotInterruption(instance=instance.id))
            await asyncio.sleep(60)
        refused = [entry for entry in logged if entry["event"] == "interruption_not_written"]
        assert 2 <= len(refused) <= 20
        world.cluster.faults.clear()
        written = False
        for _ in range(160):  # it goes soon after
            await asyncio.sleep(0.1)
            written = written or any(keys.INTERRUPTED_AT in node["metadata"]["annotations"] for node in world.nodes())
        assert written


@simulated
async def test_pods_that_could_not_leave_under_one_leader_are_asked_by_the_next() -> None:
    world = World()
    world.add_pool(zones=("a", "b"))
    service = Service(world, "web")
    service.guard(available=1)
    async with runtime(world):
        await asyncio.sleep(5)
        service.start()
        await asyncio.sleep(60)
        (instance,) = world.cloud.instances.values()
        before = service.running()
        world.cloud.interrupt(instance.id)
        await asyncio.sleep(10)
        assert service.running() == before
    world.patch(kinds.DISRUPTION_BUDGETS, "web", {"spec": {"minAvailable": 0}})
    async with runtime(world, "b"):
        await asyncio.sleep(90)
        assert before.keys() & service.running().keys() == set(), "it was never asked to leave"


@simulated
async def test_an_instance_that_was_not_taken_away_after_all_is_used_again() -> None:
    world = World()
    world.add_pool(zones=("a",))
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("one", cpu="3")
        await asyncio.sleep(60)
        (node,) = world.nodes()
        long_ago = str(int(virtual_time.clock().now()) - 3601)
        world.patch(
            kinds.NODES, node["metadata"]["name"], {"metadata": {"annotations": {keys.INTERRUPTED_AT: long_ago}}}
        )
        await asyncio.sleep(60)
        assert world.bound() == {"one": node["metadata"]["name"]}
        assert not world.nodes()[0]["spec"].get("taints")


@pytest.mark.accept("G26", part="unknown reasons, simulated")
@simulated
async def test_a_pod_that_no_node_takes_starts_one_instance_over_all_groups_and_leaders() -> None:
    world = World(schedules=False)
    world.add_pool(limits__maxIdleSeconds=300)
    for leader in ("a", "b", "a"):
        async with runtime(world, leader):
            await asyncio.sleep(5)
            if not world.all(kinds.PODS):
                world.add_pod("unwanted")
            await asyncio.sleep(1100)
    assert len(world.cloud.instances) == 1
    async with runtime(world, "c"):
        await asyncio.sleep(600)
        assert len(world.cloud.instances) == 2, "an hour has passed"


@simulated
async def test_pods_are_helped_again_once_a_node_has_taken_one_of_their_kind() -> None:
    world = World(schedules=False)
    world.add_pool(zones=("a",), limits__maxIdleSeconds=3600)
    async with runtime(world):
        await asyncio.sleep(5)
        for number in range(2):
            world.add_pod(f"p-{number}", cpu="3")
        await asyncio.sleep(100)  # the scheduler is away
        nodes = [node["metadata"]["name"] for node in world.nodes()]
        assert len(nodes) == 2
        for number, node in enumerate(nodes):
            world.bind(f"p-{number}", node)
        world.add_pod("p-2", cpu="3")
        await asyncio.sleep(60)
        assert len(world.cloud.instances) == 3


@pytest.mark.accept("G21")
@simulated
async def test_a_type_that_offers_less_than_it_should_is_tried_once_and_not_once_in_every_zone() -> None:
    world = World()
    world.allocatable = {"cpu": "2"}
    world.add_pool()
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("large", cpu="3")
        await asyncio.sleep(3600)
        assert len(world.cloud.instances) == 1


@simulated
async def test_an_offering_that_is_left_alone_is_not_asked_for_by_the_next_leader() -> None:
    world = World()
    world.add_pool(zones=("a", "b"), registrationTimeoutSeconds=60)
    world.silent = {"a", "b"}
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("one", cpu="3")
        await asyncio.sleep(180)  # both zones were tried
        started = len(world.cloud.instances)
        assert started == 2
    async with runtime(world, "b"):
        await asyncio.sleep(60)
        assert len(world.cloud.instances) == started


# Launches that failed (Capacity 20)


@pytest.mark.parametrize("is_known", [False, True])
def test_a_failure_of_an_earlier_launch_is_not_held_against_a_fresh_one(*, is_known: bool) -> None:
    """The earlier one was another leader's, which noted it or died before it could."""

    async def scenario() -> None:
        world = World()
        world.add_pool(zones=("a",))
        (group,) = world.cloud.groups.values()
        world.cloud.hinder(Obstacle(failure=cloud.LaunchFailure.INSUFFICIENT_CAPACITY))
        if is_known:
            async with runtime(world):
                await asyncio.sleep(5)
                world.add_pod("first", cpu="3")
                await asyncio.sleep(30)
            world.delete_pod("first")
        else:
            world.cloud.set_desired(group, 1)
            await asyncio.sleep(5)
            world.cloud.set_desired(group, 0)
        world.cloud.relieve()
        await asyncio.sleep(200)  # longer than it is left alone, and shorter than activities are looked back at
        world.cloud.be_late(group.name, 40)
        async with runtime(world, "b"):
            await asyncio.sleep(5)
            world.add_pod("one", cpu="3")
            await asyncio.sleep(60)
            assert set(world.bound()) == {"one"}
            assert world.clients["aws"].calls[faults.Call.SET_DESIRED] == 1

    virtual_time.run(scenario())


@simulated
async def test_a_launch_under_way_is_not_taken_back_by_the_next_leader_for_an_old_failure() -> None:
    world = World()
    world.add_pool(zones=("a",))
    world.cloud.hinder(Obstacle(failure=cloud.LaunchFailure.INSUFFICIENT_CAPACITY))
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("one", cpu="3")
        await asyncio.sleep(30)
        world.cloud.relieve()
        (group,) = world.cloud.groups.values()
        world.cloud.be_late(group.name, 60)
        await asyncio.sleep(155)
        assert world.desired() == {group.name: 1}
    async with runtime(world, "b"):
        await asyncio.sleep(90)
        assert set(world.bound()) == {"one"}
        assert world.clients["aws"].calls[faults.Call.SET_DESIRED] == 0


@simulated
async def test_the_next_leader_goes_on_with_a_backoff_that_has_grown() -> None:
    world = World()
    world.add_pool(zones=("a",))
    world.cloud.hinder(Obstacle(failure=cloud.LaunchFailure.INSUFFICIENT_CAPACITY))
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("one", cpu="3")
        await asyncio.sleep(180 + 360 + 30)  # left alone twice, and once more
        world.delete_pod("one")
        await asyncio.sleep(720)
    async with runtime(world, "b"):
        await asyncio.sleep(5)
        world.add_pod("two", cpu="3")
        await asyncio.sleep(600)
        assert world.clients["aws"].calls[faults.Call.SET_DESIRED] == 2, "asked once more, and taken back"
