"""What the provider announces long before: maintenance, and that an instance may be taken away. In virtual time."""

import asyncio

import pytest

from autoscaler.api import keys
from autoscaler.cloud import port as cloud
from autoscaler.kube import kinds
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cloud import faults as cloud_faults
from autoscaler.simulation.cluster.faults import Answer, Matching
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.capacity_services import Service
from tests.scenarios.capacity_world import World, runtime

DAY = 86_400.0


def ended(world: World) -> list[str]:
    return [one.id for one in world.cloud.instances.values() if not one.counts]


def marks(world: World) -> dict[str, str | None]:
    """Return what our mark says on each node."""
    taints = {node["metadata"]["name"]: node["spec"].get("taints") or [] for node in world.nodes()}
    return {
        name: next((each["value"] for each in there if each["key"] == keys.REMOVING), None)
        for name, there in taints.items()
    }


@pytest.mark.parametrize("seconds", [30 * 60.0, DAY])
def test_an_instance_is_replaced_and_drained_before_its_maintenance(seconds: float) -> None:
    async def scenario() -> None:
        world = World()
        world.add_pool(zones=("a",), limits__maxIdleSeconds=36_000)
        service = Service(world, "web")
        service.guard(available=1)
        async with runtime(world):
            await asyncio.sleep(5)
            service.start(2)
            await asyncio.sleep(60)
            first = service.running()
            doomed = min(world.cloud.instances)
            world.cloud.announce_maintenance(doomed, seconds)
            fewest = 2
            for _ in range(10):
                await asyncio.sleep(30)
                fewest = min(fewest, len(service.running()))
            assert ended(world) == [doomed]
            assert fewest >= 1
            assert len(service.running()) == 2
            left = set(first.values()) - {f"ip-{doomed}"}
            assert left <= set(service.running().values()), "the other one was left alone"
            assert len(world.cloud.instances) == 3
            await asyncio.sleep(seconds)
            assert len(world.cloud.instances) == 3

    virtual_time.run(scenario())


@simulated
async def test_what_ends_by_itself_is_left_to_end_until_an_hour_before_the_maintenance() -> None:
    world = World()
    world.add_pool(zones=("a",), limits__maxIdleSeconds=36_000)
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("job", cpu="3")
        await asyncio.sleep(60)
        (instance,) = world.cloud.instances
        world.cloud.announce_maintenance(instance, 4 * 3600)
    async with runtime(world, "b"):  # it is written on the node, or will be told again
        await asyncio.sleep(3 * 3600 - 300)
        assert "job" in world.bound()
        assert not ended(world)
        await asyncio.sleep(900)
        assert ended(world) == [instance]


@pytest.mark.parametrize("seconds", [30 * 60.0, DAY])
def test_an_idle_instance_that_is_due_for_maintenance_goes_at_once_also_at_the_minimum(seconds: float) -> None:
    async def scenario() -> None:
        world = World()
        world.add_pool(zones=("a",), minimum=2)
        async with runtime(world):
            await asyncio.sleep(60)
            doomed = min(world.cloud.instances)
            world.cloud.announce_maintenance(doomed, seconds)
            await asyncio.sleep(120)
            assert ended(world) == [doomed]
            assert world.desired() == {"workers-a-m5.xlarge": 2}
            assert len(world.cloud.instances) == 3

    virtual_time.run(scenario())


@simulated
async def test_a_node_that_was_only_restarted_takes_pods_again() -> None:
    world = World()
    world.add_pool(zones=("a",), minimum=1, limits__maxIdleSeconds=36_000)
    service = Service(world, "web")
    service.guard(available=1)  # its only pod cannot leave
    async with runtime(world):
        await asyncio.sleep(30)
        service.start(1)
        await asyncio.sleep(60)
        (instance,) = world.cloud.instances
        due = virtual_time.clock().now() + 1800
        world.cloud.news.tell(cloud.MaintenanceScheduled(instances=(instance,), at=due))
        await asyncio.sleep(3600)
        assert marks(world) == {f"ip-{instance}": "Interrupted"}
        await asyncio.sleep(3600)
        assert marks(world) == {f"ip-{instance}": None}
        assert service.running() == {"web-1": f"ip-{instance}"}


@simulated
async def test_instances_that_may_be_taken_away_are_never_drained_and_go_first_when_idle() -> None:
    world = World()
    world.add_pool(zones=("a",), minimum=1, limits__maxIdleSeconds=60)
    async with runtime(world):
        await asyncio.sleep(60)
        for number in range(3):
            world.add_pod(f"p-{number}", cpu="3")
        await asyncio.sleep(60)
        before = world.bound()
        risky = max(world.cloud.instances)
        world.cloud.recommend_rebalance(risky)
        await asyncio.sleep(600)
        assert world.bound() == before
        assert not ended(world)
    async with runtime(world, "b"):
        await asyncio.sleep(5)
        for number in range(3):
            world.delete_pod(f"p-{number}")
        await asyncio.sleep(120)
        assert len(ended(world)) == 2
        assert risky in ended(world), "the others are as idle, and one of them stays"


@pytest.mark.parametrize("event", ["maintenance", "rebalance"])
def test_an_announcement_that_cannot_be_written_is_told_again_and_written_in_the_end(event: str) -> None:
    async def scenario() -> None:
        world = World()
        world.add_pool(zones=("a",))
        key = {"maintenance": keys.MAINTENANCE_AT, "rebalance": keys.REBALANCE_AT}[event]
        async with runtime(world):
            await asyncio.sleep(5)
            world.add_pod("work", cpu="3")
            await asyncio.sleep(60)
            (instance,) = world.cloud.instances
            refused = Matching(method="PATCH", path="/api/v1/nodes/")
            world.cluster.faults.add(Answer(code=403), refused, times=None)
            if event == "maintenance":
                world.cloud.announce_maintenance(instance, DAY)
            else:
                world.cloud.recommend_rebalance(instance)
            await asyncio.sleep(300)
        world.cluster.faults.clear()
        async with runtime(world, "b"):
            await asyncio.sleep(30)
            (node,) = [node for node in world.nodes() if node["metadata"]["name"] == f"ip-{instance}"]
            assert key in node["metadata"]["annotations"]

    virtual_time.run(scenario())


@simulated
async def test_maintenance_that_is_announced_while_the_account_does_not_answer_is_written() -> None:
    world = World()
    world.add_pool(zones=("a",), limits__maxIdleSeconds=36_000)
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("job", cpu="3")
        await asyncio.sleep(60)
    (instance,) = world.cloud.instances
    world.cloud.faults.add(cloud_faults.Effect.REFUSE, cloud_faults.Call.GROUPS, times=None)
    async with runtime(world, "b"):  # it knows the instance by its node alone
        await asyncio.sleep(20)
        due = virtual_time.clock().now() + DAY
        world.cloud.news.tell(cloud.MaintenanceScheduled(instances=(instance,), at=due))
        await asyncio.sleep(60)
        (node,) = world.nodes()
        assert node["metadata"]["annotations"][keys.MAINTENANCE_AT] == str(int(due))


@simulated
async def test_maintenance_that_is_put_off_is_written_anew() -> None:
    world = World()
    world.add_pool(zones=("a",), limits__maxIdleSeconds=36_000)
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("job", cpu="3")
        await asyncio.sleep(60)
        (instance,) = world.cloud.instances
        for at in (DAY, 2 * DAY):
            due = virtual_time.clock().now() + at
            world.cloud.news.tell(cloud.MaintenanceScheduled(instances=(instance,), at=due))
            await asyncio.sleep(10)
            node = next(node for node in world.all(kinds.NODES) if node["metadata"]["name"] == f"ip-{instance}")
            assert node["metadata"]["annotations"][keys.MAINTENANCE_AT] == str(int(due))


@simulated
async def test_maintenance_that_somebody_takes_off_the_node_disrupts_nobody() -> None:
    world = World()
    world.add_pool(zones=("a",), limits__maxIdleSeconds=36_000)
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("job", cpu="3")
        await asyncio.sleep(60)
        (instance,) = world.cloud.instances
        due = virtual_time.clock().now() + 7200
        world.cloud.news.tell(cloud.MaintenanceScheduled(instances=(instance,), at=due))
        await asyncio.sleep(60)
        world.patch(kinds.NODES, f"ip-{instance}", {"metadata": {"annotations": {keys.MAINTENANCE_AT: None}}})
        await asyncio.sleep(7200)
        assert world.bound() == {"job": f"ip-{instance}"}
        assert marks(world)[f"ip-{instance}"] is None
