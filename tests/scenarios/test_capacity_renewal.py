"""Instances of an old launch template, in virtual time: working ones are replaced, and no pod is without a place."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import structlog

from autoscaler.api import keys, resources
from autoscaler.api.settings.scaling import Scaling
from autoscaler.capacity import disruption_taint
from autoscaler.cloud import port as cloud
from autoscaler.kube import kinds
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cloud import faults
from autoscaler.simulation.cloud.model import INITIAL_TEMPLATE
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.capacity_replicas import Death, replica
from tests.scenarios.capacity_services import Service
from tests.scenarios.capacity_world import Body, World, runtime

POOLS = kinds.custom(resources.InstancePool)
NEW = cloud.Template(image_id="ami-2", user_data_sha256="1" * 64)
JOB: Body = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "job", "controller": True}


def renew(world: World, template: cloud.Template = NEW) -> None:
    """Give all groups another launch template."""
    for name in world.cloud.groups:
        world.cloud.retemplate(name, template)


def old(world: World) -> set[str]:
    """Return the nodes whose instances are not of their group's template."""
    groups, said = world.cloud.groups, world.cloud.templates
    there = [one for one in world.cloud.instances.values() if one.counts and one.group in groups]
    return {f"ip-{one.id}" for one in there if said[one.template] != said[groups[one.group].template]}


def drained(world: World) -> dict[str, str]:
    """Return the groups of the nodes that are drained for a newer one."""
    found = {}
    for node in world.nodes():
        taints = node["spec"].get("taints", [])
        if any(
            (each["key"], each.get("value")) == (keys.REMOVING, disruption_taint.Reason.REPLACED) for each in taints
        ):
            labels = node["metadata"]["labels"]
            found[node["metadata"]["name"]] = labels[keys.INSTANCE_POOL] + labels[keys.ZONE]
    return found


def conditions(world: World) -> dict[str, tuple[str, str]]:
    (pool,) = world.all(POOLS)
    return {each["type"]: (each["reason"], each["message"]) for each in pool["status"]["conditions"]}


async def watch(seconds: float, look: Callable[[], None]) -> None:
    """Look at the world twice a second."""
    for _ in range(int(seconds * 2)):
        await asyncio.sleep(0.5)
        look()


@contextlib.contextmanager
def logged() -> Iterator[Callable[[str], list[Body]]]:
    with structlog.testing.capture_logs() as entries:
        yield lambda event: [dict(each) for each in entries if each["event"] == event]


@pytest.mark.accept("G22")
@simulated
async def test_working_instances_are_replaced_one_by_one_and_each_only_when_another_is_ready() -> None:
    world = World()
    world.add_pool(zones=("a", "b"), minimum=2, maximum=5, limits__maxIdleSeconds=0)
    service = Service(world, "web")
    async with runtime(world):
        await asyncio.sleep(60)
        service.start(4)
        await asyncio.sleep(60)
        assert world.desired() == {"workers-a-m5.xlarge": 2, "workers-b-m5.xlarge": 2}
        began = set(service.running().values())
        renew(world)

        def look() -> None:
            drains = drained(world)
            assert len(drains) <= 1  # one group in a pool, one node in a group
            assert sum(world.desired().values()) <= 5
            ready = {node["metadata"]["name"] for node in world.nodes()} - old(world)
            assert not drains or ready, "nothing is drained before another instance is ready"
            assert len(service.running()) >= 3 or not drains

        await watch(900, look)
        assert old(world) == set()
        assert len(service.running()) == 4
        assert not began & set(service.running().values())
        assert world.desired() == {"workers-a-m5.xlarge": 2, "workers-b-m5.xlarge": 2}
        assert drained(world) == {}
        assert len(world.cloud.instances) == 8  # not one too many was ever started


@pytest.mark.accept("G22")
@simulated
async def test_idle_instances_at_a_groups_minimum_are_replaced_one_by_one_in_a_pool() -> None:
    world = World()
    world.add_pool(zones=("a", "b"), minimum=3, limits__maxIdleSeconds=0)
    async with runtime(world):
        await asyncio.sleep(60)
        assert len(world.nodes()) == 6
        renew(world)
        ready = set()

        def look() -> None:
            going = [one for one in world.nodes() if keys.REMOVING in str(one["spec"].get("taints"))]
            ready.add(len(world.nodes()) - len(going))

        await watch(900, look)
        assert ready == {5, 6}
        assert old(world) == set()
        assert len(world.cloud.instances) == 12
        assert world.desired() == {"workers-a-m5.xlarge": 3, "workers-b-m5.xlarge": 3}


@pytest.mark.accept("G22")
@pytest.mark.parametrize("seconds", [2.5, 6, 17, 40])
def test_a_group_never_has_more_than_one_instance_more_however_often_the_runtime_is_restarted(seconds: float) -> None:
    virtual_time.run(restart_every(seconds))


async def restart_every(seconds: float) -> None:
    """Renew a group under a disruption budget, with many runtimes after each other; it has three instances at most."""
    world = World()
    world.add_pool(zones=("a",), minimum=2, maximum=9, limits__maxIdleSeconds=0)
    service = Service(world, "web", cpu="1500m")
    service.guard(available=3)
    async with runtime(world):
        await asyncio.sleep(60)
        service.start(4)
        await asyncio.sleep(60)
    renew(world)
    sizes = set()

    def look() -> None:
        sizes.add(sum(world.desired().values()))
        assert len(drained(world)) <= 1

    for number in range(int(300 / seconds)):
        if number % 2:  # nobody can tell at first what the templates say
            world.cloud.faults.add(faults.Effect.THROTTLE, faults.Call.TEMPLATES)
        async with runtime(world, f"r{number}"):
            await watch(seconds + number % 3, look)
    async with runtime(world, "last"):
        await watch(300, look)
    assert sizes == {2, 3}
    assert old(world) == set()
    assert world.desired() == {"workers-a-m5.xlarge": 2}
    assert len(service.running()) == 4


@pytest.mark.accept("G22")
def test_a_kill_at_any_write_of_a_renewal_ends_as_if_nobody_had_been_killed() -> None:
    """One renewal, killed just before and just after each write to a node, a pod or a group; another takes over."""
    writes = virtual_time.run(renewal(at=0, after=False))
    assert writes == 5  # one instance more, mark, eviction, label for load balancers, end: nothing is spared again
    for at in range(1, writes + 1):
        for after in (False, True):
            virtual_time.run(renewal(at=at, after=after))


async def renewal(*, at: int, after: bool) -> int:
    world = World()
    world.add_pool(zones=("a",), minimum=1, maximum=9, limits__maxIdleSeconds=0)
    service = Service(world, "web")
    async with runtime(world):
        await asyncio.sleep(60)
        service.start()
        await asyncio.sleep(60)
    renew(world)
    death = Death(at=at, is_after=after, told=lambda what: "/instance" not in what and "/events" not in what)
    sizes = set()
    async with replica(world, "mortal", death=death):
        await asyncio.sleep(2)
        async with replica(world, "next"):
            await watch(300, lambda: sizes.add(sum(world.desired().values())))
    where = f"killed {'after' if after else 'before'} write {at}"
    assert sizes <= {1, 2}, where
    assert old(world) == set(), where
    assert world.desired() == {"workers-a-m5.xlarge": 1}, where
    assert (len(world.cloud.instances), len(service.running())) == (2, 1), where
    return death.writes


@pytest.mark.accept("G22")
@simulated
async def test_a_group_that_can_only_have_as_many_as_it_has_is_drained_without_one_more() -> None:
    world = World()
    world.add_pool(zones=("a",), minimum=2, maximum=2, limits__maxIdleSeconds=36_000)
    service = Service(world, "web")
    async with runtime(world):
        await asyncio.sleep(60)
        service.start(2)
        await asyncio.sleep(60)
        renew(world)
        sizes = set()

        def look() -> None:
            sizes.add(sum(world.desired().values()))
            assert len(drained(world)) <= 1

        await watch(600, look)
        assert sizes == {2}
        assert old(world) == set()
        assert len(service.running()) == 2


@simulated
async def test_at_the_most_instances_of_a_pool_one_is_drained_first_and_the_limit_holds() -> None:
    world = World()
    world.add_pool(zones=("a",), limits__maxIdleSeconds=36_000, limits__maxActiveInstances=2)
    service = Service(world, "web")
    async with runtime(world):
        service.start(2)
        await asyncio.sleep(120)
        renew(world)
        sizes = set()
        await watch(900, lambda: sizes.add(sum(world.desired().values())))
        assert max(sizes) == 2
        assert old(world) == set()
        assert len(service.running()) == 2


@pytest.mark.accept("G22", "G12")
@simulated
async def test_a_node_whose_pods_may_not_leave_keeps_them_and_does_not_hold_up_other_groups_for_ever() -> None:
    world = World()
    world.add_pool(zones=("a", "b"), limits__maxIdleSeconds=60)
    guarded = Service(world, "guarded", nodeSelector={keys.ZONE: "a"})
    free = Service(world, "free", nodeSelector={keys.ZONE: "b"})
    bound = Service(
        world,
        "bound",
        nodeSelector={keys.ZONE: "a"},
        annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
    )
    guarded.guard(available=1)
    async with runtime(world):
        for service in (guarded, free, bound):
            service.start()
        await asyncio.sleep(120)
        before = {**guarded.running(), **bound.running()}
        renew(world)
        with logged() as entries:
            await asyncio.sleep(600)
            assert free.running().items() <= world.bound().items()
            assert set(drained(world).values()) == {"workersa"}
            await asyncio.sleep(2400)
            assert {each["node"] for each in entries("renewal_postponed")} == set(before.values())
        assert {**guarded.running(), **bound.running()} == before
        assert old(world) == set(before.values())  # that of the free one was replaced
        assert drained(world) == {}
        request = {"spec": {"minAvailable": 0}}
        world.patch(kinds.DISRUPTION_BUDGETS, "guarded", request)
        await asyncio.sleep(5400)
        assert old(world) == set(bound.running().values())  # it came back to the one that could go by now


@pytest.mark.accept("G22")
@simulated
async def test_pods_that_end_by_themselves_are_left_to_end() -> None:
    world = World()
    world.add_pool(zones=("a",), limits__maxIdleSeconds=36_000)
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("bare", cpu="3")
        await asyncio.sleep(60)
        first = world.bound()["bare"]
        renew(world)
        await asyncio.sleep(3600)
        assert world.bound()["bare"] == first
        assert set(drained(world)) == {first}
        assert sum(world.desired().values()) == 2
        world.delete_pod("bare")
        await asyncio.sleep(60)
        assert old(world) == set()
        assert sum(world.desired().values()) == 1


@pytest.mark.accept("G22")
@simulated
async def test_a_template_that_is_taken_back_stops_what_had_begun() -> None:
    world = World()
    world.add_pool(zones=("a",), limits__maxIdleSeconds=60)
    service = Service(world, "web")
    service.guard(available=1)
    async with runtime(world):
        service.start()
        await asyncio.sleep(60)
        (node,) = service.running().values()
        renew(world)
        await asyncio.sleep(180)
        assert set(drained(world)) == {node}
        renew(world, INITIAL_TEMPLATE)
        await asyncio.sleep(300)
        assert drained(world) == {}
        assert set(service.running().values()) == {node}
        assert [each["metadata"]["name"] for each in world.nodes()] == [node]


@simulated
async def test_a_ceiling_that_holds_it_back_is_told_and_nothing_is_drained() -> None:
    world = World()
    world.add_pool(zones=("a",), limits__maxIdleSeconds=36_000)
    service = Service(world, "web")
    async with runtime(world, scaling=Scaling(nodes=2)):
        service.start(2)
        await asyncio.sleep(120)
        before = service.running()
        renew(world)
        await asyncio.sleep(600)
        assert service.running() == before
        assert conditions(world)["UpToDate"] == (
            "Outdated",
            "2 of 2 instances are of an older launch template; held by: the cluster has 2 of at most 2 nodes",
        )
    async with runtime(world, "b", scaling=Scaling(nodes=3)):
        await asyncio.sleep(900)
        assert old(world) == set()
        assert conditions(world)["UpToDate"] == ("UpToDate", "")


@simulated
async def test_waiting_pods_come_before_renewal_and_use_what_was_started_for_it() -> None:
    world = World()
    world.add_pool(zones=("a",), maximum=4, limits__maxIdleSeconds=36_000)
    service = Service(world, "web")
    async with runtime(world):
        service.start(2)
        await asyncio.sleep(120)
        renew(world)
        await asyncio.sleep(8)
        for number in range(2):
            world.add_pod(f"more-{number}", cpu="3")
        await asyncio.sleep(900)
        assert {"more-0", "more-1"} <= set(world.bound())
        assert len(service.running()) == 2
        assert old(world) == set()
        assert sum(world.desired().values()) == 4


@simulated
async def test_a_group_that_always_takes_the_latest_version_of_its_template_is_looked_up_each_time() -> None:
    world = World()
    world.add_pool(zones=("a",), minimum=1, limits__maxIdleSeconds=36_000)
    async with runtime(world):
        await asyncio.sleep(60)
        (group,), (first,) = world.cloud.groups.values(), world.nodes()
        group.template = cloud.TemplateRef(id=group.template.id, version="$Latest")
        world.cloud.templates[group.template] = INITIAL_TEMPLATE
        await asyncio.sleep(130)
        assert [node["metadata"]["name"] for node in world.nodes()] == [first["metadata"]["name"]]
        world.cloud.templates[group.template] = NEW
        await asyncio.sleep(180)
        (second,) = world.nodes()
        assert second["metadata"]["name"] != first["metadata"]["name"]


@pytest.mark.accept("G22")
@simulated
async def test_a_new_image_behind_the_parameter_of_a_launch_template_makes_instances_outdated() -> None:
    world = World()
    world.add_pool(zones=("a", "b"), limits__maxIdleSeconds=36_000)
    by_parameter = cloud.Template(image_id="resolve:ssm:/images/builder", user_data_sha256="0" * 64)
    world.cloud.parameters[by_parameter.image_id] = "ami-1"
    for name in world.cloud.groups:
        world.cloud.retemplate(name, by_parameter)
    service = Service(world, "web")
    async with runtime(world):
        await asyncio.sleep(5)
        service.start(2)
        await asyncio.sleep(660)
        first = set(world.cloud.instances)
        assert len(first) == 2, "nothing has changed yet"
        calls = world.clients["aws"].calls
        before = calls[faults.Call.TEMPLATES]
        await asyncio.sleep(3600)
        assert calls[faults.Call.TEMPLATES] - before <= 6  # one for both groups, every ten minutes
        for name in world.cloud.groups:  # another name for the same image
            world.cloud.parameters["resolve:ssm:/images/new"] = "ami-1"
            world.cloud.retemplate(name, replace(by_parameter, image_id="resolve:ssm:/images/new"))
        await asyncio.sleep(1200)
        assert set(world.cloud.instances) == first
        world.cloud.parameters["resolve:ssm:/images/new"] = "ami-2"
        await asyncio.sleep(1800)
        assert all(not world.cloud.instances[one].counts for one in first)
        assert len(service.running()) == 2
        assert len(world.cloud.instances) == 4
