"""Bad days in virtual time: many spot instances are taken at once, and a provider whose clock is not ours."""

import asyncio
from dataclasses import dataclass

import pytest

from autoscaler import clock
from autoscaler.api import resources
from autoscaler.cloud import port as cloud
from autoscaler.kube import kinds
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cloud import SimulatedCloud, faults
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.capacity_services import Service
from tests.scenarios.capacity_world import World, runtime


@simulated
async def test_a_storm_of_interruptions_moves_all_work_and_leaves_nothing_behind() -> None:
    world = World()
    world.add_pool(limits__maxIdleSeconds=300, maximum=30)
    service = Service(world, "web")
    async with runtime(world):
        await asyncio.sleep(5)
        service.start(30)
        await asyncio.sleep(120)
        first = set(world.cloud.instances)
        assert len(first) == 30
        for instance in first:
            world.cloud.interrupt(instance)
        await asyncio.sleep(300)
        running = service.running()
        assert len(running) == 30
        assert not {f"ip-{instance}" for instance in first} & set(running.values())
        assert sum(world.desired().values()) == 30
        assert len(world.cloud.instances) == 60  # one for one
        await asyncio.sleep(600)
        assert len(world.nodes()) == 30


@simulated
async def test_an_account_says_whether_it_answers() -> None:
    world = World()
    world.add_pool()

    def said() -> tuple[str, str]:
        (account,) = world.all(kinds.custom(resources.ProviderAccount))
        (ready,) = account["status"]["conditions"]
        return ready["status"], ready["reason"]

    async with runtime(world):
        await asyncio.sleep(5)
        assert said() == ("True", "Answers")
        world.cloud.faults.add(faults.Effect.REFUSE, times=None)
        await asyncio.sleep(240)
        assert said() == ("False", "NotUsable")
        writes = world.cluster.server.store.version
        await asyncio.sleep(600)
        assert world.cluster.server.store.version - writes < 600 + 60  # Leases, and hardly anything else
        world.cloud.faults.clear()
        await asyncio.sleep(240)
        assert said() == ("True", "Answers")


@simulated
async def test_an_answer_that_nobody_foresaw_is_told_and_asked_for_seldom() -> None:
    world = World()
    world.add_pool()
    asked = 0

    async def garbage(*_: object) -> None:
        nonlocal asked
        asked += 1
        raise ValueError("no such answer is documented")

    async with runtime(world):
        await asyncio.sleep(5)
        client = world.clients["aws"]
        client.groups = garbage  # type: ignore[method-assign, assignment]
        await asyncio.sleep(600)
        assert 3 < asked < 30
        (account,) = world.all(kinds.custom(resources.ProviderAccount))
        assert "ValueError" in account["status"]["conditions"][0]["message"]
        del client.groups
        world.add_pod("one")
        await asyncio.sleep(240)
        assert set(world.bound()) == {"one"}


@simulated
async def test_a_control_plane_that_loses_sight_of_most_nodes_ends_none_of_their_instances() -> None:
    world = World()
    world.add_pool()
    async with runtime(world):
        await asyncio.sleep(5)
        for number in range(10):
            world.add_pod(f"p-{number}", cpu="3")
        await asyncio.sleep(100)
        first = sorted(world.cloud.instances)
        for node in world.nodes()[:6]:
            world.kubelets.fail(node["metadata"]["name"])
        await asyncio.sleep(3600)
        assert not [instance for instance in first if world.cloud.instances[instance].is_over]
        for node in world.nodes()[:4]:
            world.kubelets.recover(node["metadata"]["name"])
        await asyncio.sleep(1200)
        assert len([instance for instance in first if world.cloud.instances[instance].is_over]) == 2


def test_news_of_other_peoples_instances_and_groups_ask_the_provider_nothing() -> None:
    async def calls(*, of: str | None) -> int:
        world = World()
        world.add_pool(zones=("a",))
        async with runtime(world):
            await asyncio.sleep(5)
            world.add_pod("one", cpu="3")
            await asyncio.sleep(60)
            (own,) = world.cloud.instances
            before = world.clients["aws"].calls.total()
            for number in range(100 if of else 0):
                instance = own if of == "ours" else cloud.InstanceId(f"i-{number:017x}-elsewhere")
                world.cloud.news.tell(cloud.InstancesChanged(instances=(instance,)))
                world.cloud.news.tell(cloud.SpotInterruption(instance=cloud.InstanceId(f"i-{number:017x}-elsewhere")))
                world.cloud.news.tell(cloud.GroupChanged(group=cloud.GroupName("somebody-elses")))
                await asyncio.sleep(6)
            await asyncio.sleep(0 if of else 600)
            assert set(world.bound()) == {"one"}
            return world.clients["aws"].calls.total() - before

    quiet = virtual_time.run(calls(of=None))
    assert quiet <= 11
    assert virtual_time.run(calls(of="others")) == quiet
    assert virtual_time.run(calls(of="ours")) > 5 * quiet


@dataclass(frozen=True, kw_only=True)
class Skewed:
    """A clock that is wrong."""

    true: clock.Clock
    ahead_seconds: float

    def now(self) -> float:
        return self.true.now() + self.ahead_seconds

    def monotonic(self) -> float:
        return self.true.monotonic()


def skewed_world(ahead_seconds: float) -> World:
    """A world whose provider tells other times than its cluster."""
    return World(provider=SimulatedCloud(Skewed(true=virtual_time.clock(), ahead_seconds=ahead_seconds)))


async def live_and_go(world: World) -> None:
    """Let instances come, work, fail to join, and go."""
    world.add_pool(limits__maxIdleSeconds=300, registrationTimeoutSeconds=120)
    async with runtime(world):
        await asyncio.sleep(5)
        for number in range(6):
            world.add_pod(f"p-{number}", cpu="3")
        await asyncio.sleep(100)
        assert len(world.bound()) == 6
        await asyncio.sleep(3600)
        assert len(world.cloud.instances) == 6  # nobody was taken for one that never joined, or for lost
        assert len(world.bound()) == 6
        world.silent = {"a", "b", "c"}
        world.add_pod("lost", cpu="3")
        await asyncio.sleep(30)
        assert len(world.cloud.instances) == 7
        world.silent = set()
        await asyncio.sleep(1800)
        assert "lost" in world.bound()  # the one that did not join was given up in bounded time
        for pod in list(world.bound()):
            world.delete_pod(pod)
        await asyncio.sleep(600)
        assert world.nodes() == []
        assert world.desired() == {}


@pytest.mark.parametrize("ahead_seconds", [-600.0, -45.0, 45.0, 600.0])
def test_a_provider_whose_clock_is_wrong_costs_no_instance_and_no_work(ahead_seconds: float) -> None:
    async def run() -> None:
        world = skewed_world(ahead_seconds)
        await live_and_go(world)
        lived = sum(instance.seconds(world.cloud.clock.now()) for instance in world.cloud.instances.values())
        months = [usage for each in world.instances() for usage in each["status"]["months"].values()]
        counted = sum(usage["seconds"] for usage in months)
        assert all(usage["seconds"] >= 0 for usage in months)
        assert abs(counted - lived) <= len(world.cloud.instances) * (1 + abs(ahead_seconds))
        assert not [pod for pod in world.all(kinds.PODS) if pod["status"]["phase"] == "Failed"]

    virtual_time.run(run())
