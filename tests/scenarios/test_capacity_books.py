"""What capacity promises about who is served by which pool, and about the books that are kept of it."""

import asyncio
import math
from datetime import UTC, datetime

import pytest

from autoscaler.api import keys, resources
from autoscaler.api.manifests import Manifest
from autoscaler.api.settings.node_groups import NodeGroupKey
from autoscaler.kube import kinds
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cloud.model import SimulatedInstance
from tests import builders
from tests.autoscaler.capacity.builders import node_affinity
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.capacity_replicas import Death, replica
from tests.scenarios.capacity_world import NAMESPACE, World, runtime

POOLS = kinds.custom(resources.InstancePool)
SCOPES = kinds.custom(resources.Scope)
SPEED = keys.tag_label("speed")
DAY = 86_400.0


def grown(world: World) -> dict[str, int]:
    """Return how many instances each pool was asked for."""
    found: dict[str, int] = {}
    for name, size in world.desired().items():
        pool = name.partition("-")[0]
        found[pool] = found.get(pool, 0) + size
    return found


def in_scope(world: World, scope: str = "research") -> None:
    """Put the tests' namespace into a scope."""
    world.cluster.create(SCOPES, builders.resource("Scope", name=scope, pools=[{"name": "workers"}]))
    world.patch(kinds.NAMESPACES, NAMESPACE, {"metadata": {"labels": {keys.SCOPE: scope}}})


# Who is served


@pytest.mark.accept("P16")
@simulated
async def test_only_pods_that_need_what_a_pool_has_start_instances_in_it() -> None:
    world = World()
    world.add_pool("plain", zones=("a",))
    world.add_pool("fast", zones=("a",), labels={SPEED: "9"})
    world.add_pool("arm", zones=("a",), types=("m6g.xlarge",), labels={keys.ARCHITECTURE: "arm64"})
    async with runtime(world):
        await asyncio.sleep(5)
        for number in range(2):
            world.add_pod(f"fast-{number}", cpu="3", nodeSelector={SPEED: "9"})
        for number in range(3):
            world.add_pod(f"arm-{number}", cpu="3", nodeSelector={keys.ARCHITECTURE: "arm64"})
        world.add_pod("nobodys", cpu="3", nodeSelector={SPEED: "7"})
        await asyncio.sleep(1)
        assert grown(world) == {"fast": 2, "arm": 3}
        (told,) = world.events("NotTriggerScaleUp")
        assert told["involvedObject"]["name"] == "nobodys"


@pytest.mark.accept("P16")
@simulated
async def test_of_a_surplus_the_instances_go_first_that_can_do_what_nobody_asks_for() -> None:
    world = World()
    world.add_pool("plain", zones=("a",), types=("m5.xlarge", "m6g.xlarge"), limits__maxIdleSeconds=36_000)
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("intel", cpu="3", nodeSelector={keys.INSTANCE_TYPE: "m5.xlarge"})
        await asyncio.sleep(60)
        world.add_pod("arm", cpu="3", nodeSelector={keys.INSTANCE_TYPE: "m6g.xlarge"})
        await asyncio.sleep(60)
        (arm,) = [node for node in world.nodes() if node["metadata"]["labels"][keys.INSTANCE_TYPE] == "m6g.xlarge"]
        world.patch(kinds.NODES, arm["metadata"]["name"], {"metadata": {"labels": {keys.ARCHITECTURE: "arm64"}}})
        world.delete_pod("arm")
        await asyncio.sleep(30)
        world.delete_pod("intel")  # idle for less long
        world.add_pod("asks", cpu="99", nodeSelector={keys.ARCHITECTURE: "arm64"})
        await asyncio.sleep(5)
        world.patch(POOLS, "plain", {"spec": {"limits": {"maxActiveInstances": 1}}})
        await asyncio.sleep(60)
        assert [node["metadata"]["name"] for node in world.nodes()] == [arm["metadata"]["name"]]


@pytest.mark.accept("P16")
@pytest.mark.parametrize(("asks", "want"), [(None, "plain"), ("7", "plain"), ("9", "fast")])
def test_of_a_surplus_the_instances_go_first_whose_tags_nobody_asks_for(asks: str | None, want: str) -> None:
    """Both are idle, the plain one for longer: it stays all the same unless somebody asks for the other's tag."""

    async def scenario() -> None:
        world = World()
        world.add_pool("mixed", zones=("a",), labels={"kind": "plain"}, limits__maxIdleSeconds=36_000)
        fast = NodeGroupKey(pool="mixed", zone="b", instance_type="m5.xlarge")
        world.add_group(fast, labels={"kind": "fast", SPEED: "9"})
        async with runtime(world):
            await asyncio.sleep(5)
            for kind in ("plain", "fast"):
                world.add_pod(kind, cpu="3", nodeSelector={"kind": kind})
            await asyncio.sleep(60)
            world.delete_pod("plain")
            await asyncio.sleep(30)
            world.delete_pod("fast")
            if asks:
                world.add_pod("asks", cpu="99", nodeSelector={SPEED: asks})
            await asyncio.sleep(5)
            world.patch(POOLS, "mixed", {"spec": {"limits": {"maxActiveInstances": 1}}})
            await asyncio.sleep(60)
            assert [node["metadata"]["labels"]["kind"] for node in world.nodes()] == [want]

    virtual_time.run(scenario())


@pytest.mark.accept("P17")
@simulated
async def test_pods_may_ask_for_a_minimum_of_a_tag_with_a_number() -> None:
    world = World()
    for speed in ("8", "16", "100"):
        world.add_pool(f"s{speed}", zones=("a",), labels={SPEED: speed})
    async with runtime(world):
        await asyncio.sleep(5)
        at_least = node_affinity({"key": SPEED, "operator": "Gt", "values": ["16"]})
        world.add_pod("hungry", cpu="3", affinity=at_least)
        world.add_pod("greedy", cpu="3", affinity=node_affinity({"key": SPEED, "operator": "Gt", "values": ["100"]}))
        await asyncio.sleep(1)
        assert grown(world) == {"s100": 1}  # as numbers: as text, 8 would be more
        (told,) = world.events("NotTriggerScaleUp")
        assert told["involvedObject"]["name"] == "greedy"
        await asyncio.sleep(60)
        assert set(world.bound()) == {"hungry"}


# What was learned


@pytest.mark.accept("G21")
@simulated
async def test_what_nodes_really_offer_is_known_to_the_next_leader_although_they_are_gone() -> None:
    world = World()
    world.allocatable = {"cpu": "2"}
    world.add_pool(zones=("a",), limits__maxIdleSeconds=60)
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("small")
        await asyncio.sleep(90)
        world.delete_pod("small")
        await asyncio.sleep(180)
        assert world.nodes() == []
    async with runtime(world, "b"):
        await asyncio.sleep(5)
        world.add_pod("large", cpu="3")
        await asyncio.sleep(300)  # one node is tried again after ten minutes
        assert len(world.cloud.instances) == 1
        assert "cpu: wants 3, has 2 " in world.events("NotTriggerScaleUp")[0]["message"]
        (name,) = world.cloud.groups
        world.allocatable = {}
        world.cloud.retemplate(name, world.cloud.templates[world.cloud.groups[name].template])
        await asyncio.sleep(200)
        assert "large" in world.bound()  # another template may offer more


# The books


def record(world: World) -> Manifest:
    (one,) = world.instances()
    status: Manifest = one["status"]
    return status


@pytest.mark.accept("P12")
@simulated
async def test_a_life_counts_the_work_of_scopes_that_ended_or_was_broken_off_and_the_next_begins_at_zero() -> None:
    world = World()
    world.add_pool(zones=("a",), limits__maxIdleSeconds=120)
    in_scope(world)
    async with runtime(world):
        world.run_seconds = 300
        world.add_pod("ends", cpu="3920m")
        await asyncio.sleep(400)
        first = record(world)
        assert first["durationsByScope"] == {"research": 300}
        world.run_seconds = None
        world.add_pod("broken-off", cpu="3920m")
        await asyncio.sleep(101)
        world.delete_pod("broken-off")
        await asyncio.sleep(10)
        assert 395 <= record(world)["durationsByScope"]["research"] <= 402
        await asyncio.sleep(200)
        assert record(world)["phase"] == "Terminated"
        world.add_pod("again")
        await asyncio.sleep(90)
        second = record(world)
        assert second["phase"] == "Ready"
        assert second.get("durationsByScope", {}) == {}
        assert second["registeredAt"] == first["registeredAt"]
        instance = list(world.cloud.instances.values())[-1]
        created = datetime.fromisoformat(second["instanceCreatedAt"])
        assert created == datetime.fromtimestamp(math.ceil(instance.launched_at), UTC)
        assert second["instanceCreatedAt"] != first["instanceCreatedAt"]


@pytest.mark.accept("P13")
def test_a_life_over_midnight_of_the_first_is_split_and_idle_time_is_charged_to_no_scope() -> None:
    february = datetime(2028, 2, 29, 22, 30, tzinfo=UTC).timestamp()  # a leap year
    virtual_time.run(over_midnight(), start=february)


async def over_midnight() -> None:
    world = World()
    world.add_pool(zones=("a",), limits__maxIdleSeconds=3600)
    in_scope(world)
    async with runtime(world):
        world.run_seconds = 3600
        world.add_pod("late", cpu="3920m")  # from about half past ten to half past eleven
        await asyncio.sleep(4500)
        assert set(record(world)["months"].get("2028-02", {}).get("scopes", {})) <= {"research"}
        world.run_seconds = 1800
        world.add_pod("later", cpu="3920m")  # over midnight
        await asyncio.sleep(2 * 3600)
    (instance,) = world.cloud.instances.values()
    assert instance.ended_at is not None
    midnight = datetime(2028, 3, 1, tzinfo=UTC).timestamp()
    months = record(world)["months"]
    assert abs(months["2028-02"]["seconds"] - (midnight - instance.launched_at)) <= 1
    assert abs(months["2028-03"]["seconds"] - (instance.ended_at - midnight)) <= 1
    worked = {month: used["scopes"] for month, used in months.items()}
    assert sum(each["research"] for each in worked.values()) == 3600 + 1800
    assert 890 < worked["2028-03"]["research"] < 910
    assert set(worked["2028-02"]) == set(worked["2028-03"]) == {"research"}


def assert_ended(world: World, instance: SimulatedInstance) -> None:
    """Assert that the books know the end of an instance, to the second, from its group."""
    (said,) = [each["status"] for each in world.instances() if each["status"]["providerID"] == instance.provider_id]
    assert [each["reason"] for each in said["conditions"]] == ["ScalingActivity"]
    assert abs(said["months"]["2026-01"]["seconds"] - instance.seconds(world.cloud.clock.now())) <= 1


@simulated
async def test_the_end_of_an_instance_that_the_provider_took_is_known_from_its_group() -> None:
    world = World()
    world.add_pool(zones=("a",), limits__maxIdleSeconds=36_000)
    async with runtime(world):
        world.add_pod("one", cpu="3")
        await asyncio.sleep(1000)
        (instance,) = world.cloud.instances.values()
        world.cloud.break_down(instance.id)  # without a word of when
        await asyncio.sleep(200)
        assert_ended(world, instance)


@simulated
async def test_an_instance_that_ended_while_nobody_watched_and_was_forgotten_is_charged_until_its_end() -> None:
    world = World()
    world.add_pool(zones=("a",), limits__maxIdleSeconds=36_000)
    async with runtime(world):
        world.add_pod("one", cpu="3")
        await asyncio.sleep(1000)
    await asyncio.sleep(1800)
    (instance,) = world.cloud.instances.values()
    world.cloud.break_down(instance.id)
    await asyncio.sleep(3 * 3600)  # the provider remembers for an hour
    async with runtime(world, "b"):
        await asyncio.sleep(120)
        assert_ended(world, instance)


@simulated
async def test_the_last_instance_of_a_pool_that_ended_while_nobody_watched_is_closed_soon() -> None:
    world = World()
    world.add_pool(zones=("a",), limits__maxIdleSeconds=36_000)
    async with runtime(world):
        world.add_pod("one", cpu="3")
        await asyncio.sleep(1000)
        world.delete_pod("one")
        await asyncio.sleep(60)
    (instance,), (group,) = world.cloud.instances.values(), world.cloud.groups.values()
    world.cloud.terminate(group, instance.id, decrement=True)
    await asyncio.sleep(3 * 3600)
    async with runtime(world, "b"):
        await asyncio.sleep(30)
        assert record(world)["phase"] == "Terminated"


@pytest.mark.accept("P14", "P21")
def test_a_kill_at_any_write_to_the_books_neither_loses_nor_doubles_anything() -> None:
    """One scenario, killed just before and just after each write to Instances; a second replica takes over."""
    writes = virtual_time.run(keep_books(at=0, is_after=False))
    assert writes >= 10
    for at in range(1, writes + 1):
        for is_after in (False, True):
            virtual_time.run(keep_books(at=at, is_after=is_after))


@pytest.mark.accept("P14")
@pytest.mark.parametrize("late_seconds", [60, 120])
def test_a_write_to_the_books_that_arrives_when_another_leads_changes_nothing(late_seconds: float) -> None:
    """The same, killed at each write, which stays in the wire until the second replica has written itself."""
    for at in range(1, virtual_time.run(keep_books(at=0, is_after=False)) + 1):
        virtual_time.run(keep_books(at=at, is_after=False, late_seconds=late_seconds))


async def keep_books(*, at: int, is_after: bool, late_seconds: float | None = None) -> int:
    """Run pods on instances that come and go, and compare the books with what the cloud and the pods say."""
    world = World()
    world.add_pool(zones=("a",), limits__maxIdleSeconds=20)
    in_scope(world)
    death = Death(at=at, is_after=is_after, told=lambda what: "/instances" in what, late_seconds=late_seconds)
    async with replica(world, death=death):
        await asyncio.sleep(2)
        async with replica(world, "b"):
            world.run_seconds = 50
            world.add_pod("one", cpu="3920m")
            await asyncio.sleep(170)
            world.add_pod("two", cpu="3920m")
            await asyncio.sleep(300)
    lives = [(instance.launched_at, instance.ended_at or 0.0) for instance in world.cloud.instances.values()]
    months = [each["status"]["months"]["2026-01"] for each in world.instances()]
    where = f"killed {'after' if is_after else 'before'} write {at}, late by {late_seconds}"
    want = sum(math.floor(ended) - math.ceil(began) for began, ended in lives)  # whole seconds
    assert sum(month["seconds"] for month in months) == want, where
    assert sum(month["scopes"].get("research", 0) for month in months) == 100, where
    assert world.nodes() == [], where
    assert {each["status"]["phase"] for each in world.instances()} == {"Terminated"}, where
    return death.writes


@pytest.mark.accept("P21")
@simulated
async def test_an_instance_of_which_nobody_wrote_anything_down_is_found_and_used() -> None:
    world = World()
    world.add_pool(zones=("a",), limits__maxIdleSeconds=600)
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("one", cpu="3")
        await asyncio.sleep(0.4)
        assert sum(world.desired().values()) == 1
        assert world.instances() == []
    await asyncio.sleep(120)
    async with runtime(world, "b"):
        await asyncio.sleep(60)
        (instance,) = world.cloud.instances.values()
        assert record(world)["providerID"] == instance.provider_id
        assert set(world.bound()) == {"one"}


@simulated
async def test_records_go_thirteen_months_after_their_instance_ended() -> None:
    world = World()
    world.add_pool(zones=("a",), limits__maxIdleSeconds=60)
    async with runtime(world):
        await asyncio.sleep(5)
        for number in range(3):
            world.add_pod(f"p-{number}", cpu="3")
        await asyncio.sleep(60)
        for number in range(3):
            world.delete_pod(f"p-{number}")
        await asyncio.sleep(120)
    ended = {"workers-001": "2024-11-30T23:59:00Z", "workers-002": "2024-12-01T00:00:00Z"}
    assert [each["metadata"]["name"] for each in world.instances()][:2] == list(ended)
    for each in world.instances()[:2]:
        condition = {**each["status"]["conditions"][0], "lastTransitionTime": ended[each["metadata"]["name"]]}
        changes = {"status": {"conditions": [condition]}}
        world.patch(kinds.custom(resources.Instance), each["metadata"]["name"], changes, "status")
    async with runtime(world, "b"):
        await asyncio.sleep(700)
        assert [each["metadata"]["name"] for each in world.instances()] == ["workers-002", "workers-003"]
        world.add_pod("one", cpu="3")
        await asyncio.sleep(60)
        (living,) = [each for each in world.instances() if each["status"]["phase"] != "Terminated"]
        assert living["metadata"]["name"] == "workers-001"
