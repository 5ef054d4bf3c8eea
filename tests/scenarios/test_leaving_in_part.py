"""Leaving in part, in virtual time: a pool loses node groups, these are emptied first, and the rest goes on."""

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from autoscaler.api import keys, names
from autoscaler.api.settings import group_list
from autoscaler.api.settings.node_groups import NodeGroupKey
from autoscaler.cloud import port as cloud
from autoscaler.kube import kinds, port
from autoscaler.simulation import virtual_time
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.capacity_services import Service
from tests.scenarios.capacity_world import NAMESPACE, Body, runtime
from tests.scenarios.test_capacity_measures import shown
from tests.scenarios.test_leaving import POOLS, Stack, _through
from tests.scenarios.worker_world import Mortal

CLUSTER = "bench"
SMALL, LARGE = "m5.xlarge", "m5.2xlarge"


def key(zone: str, kind: str = SMALL, pool: str = "workers") -> NodeGroupKey:
    return NodeGroupKey(pool=pool, zone=zone, instance_type=kind)


def group_name(one: NodeGroupKey) -> cloud.GroupName:
    name = names.node_group(CLUSTER, pool=one.pool, zone=one.zone, instance_type=one.instance_type)
    return cloud.GroupName(name)


class Site(Stack):
    """A world whose groups a stack made, with their lists."""

    def add_site(self, *groups: NodeGroupKey, minimum: int = 0, **options: Any) -> None:
        self.add_pool(zones=(), **options)
        for each in groups:
            self.add_group(each, minimum=minimum, name=group_name(each))
        self.add_list("list-1", groups)

    def add_list(self, name: str, groups: Iterable[NodeGroupKey], pool: str = "workers") -> None:
        listed = group_list.GroupList(cluster=CLUSTER, pool=pool, groups=tuple(groups))
        metadata = {"name": name, "namespace": NAMESPACE, "labels": {keys.GROUP_LIST: pool}}
        data = {group_list.FIELD: listed.to_json()}
        self.cluster.create(kinds.CONFIG_MAPS, {"metadata": metadata, "data": data, "immutable": True})

    def change_groups(self, *groups: NodeGroupKey, old: str = "list-1", new: str = "list-2") -> None:
        """Do as the stack does: the new list is made, then the old one is deleted."""
        self.add_list(new, groups)
        self.delete(kinds.CONFIG_MAPS, old)

    def lists(self) -> dict[str, list[str]]:
        """Return the lists that are there, and their finalizers."""
        found = [each["metadata"] for each in self.all(kinds.CONFIG_MAPS)]
        return {each["name"]: each.get("finalizers", []) for each in found if keys.GROUP_LIST in each.get("labels", {})}

    def on(self, one: NodeGroupKey) -> list[Body]:
        """Return the nodes of a group."""
        want = {keys.INSTANCE_POOL: one.pool, keys.ZONE: one.zone, keys.INSTANCE_TYPE: one.instance_type}
        return [node for node in self.nodes() if want.items() <= node["metadata"]["labels"].items()]

    def marks_on(self, one: NodeGroupKey) -> list[str]:
        taints = [taint for node in self.on(one) for taint in node["spec"].get("taints", ())]
        return [taint["value"] for taint in taints if taint["key"] == keys.REMOVING]

    def conditions(self) -> dict[str, Body]:
        return {each["type"]: each for each in (self.pool() or {})["status"]["conditions"]}

    def add_work(self, name: str, zone: str, **spec: Any) -> None:
        """Add a pod that ends by itself, in a zone."""
        self.add_pod(name, owners=[self.owner()], nodeSelector={keys.ZONE: zone}, **spec)


@pytest.mark.accept("S17")
@simulated
async def test_a_group_waits_for_its_work_while_the_rest_of_the_pool_goes_on() -> None:
    world = Site()
    world.add_site(key("a"), key("b"), limits__maxIdleSeconds=600, drainSeconds=300)
    async with runtime(world) as replica:
        await asyncio.sleep(5)
        assert world.lists() == {"list-1": [keys.FINALIZER]}
        world.add_work("on-a", "a")
        world.add_work("on-b", "b")
        await asyncio.sleep(60)
        assert set(world.bound()) == {"on-a", "on-b"}
        world.change_groups(key("a"))
        await asyncio.sleep(2)
        assert (world.marks_on(key("a")), world.marks_on(key("b"))) == ([], ["Emptied"])
        assert (world.draining()["reason"], world.conditions()["Ready"]["reason"]) == ("WorkRunning", "Usable")
        want = "1 pod still run: default/on-b; 1 node group (m5.xlarge in b) has been leaving since 20"
        assert want in world.draining()["message"]
        world.add_work("late-a", "a", cpu="3")
        world.add_work("late-b", "b", cpu="3")
        await asyncio.sleep(3600)
        assert set(world.bound()) == {"on-a", "on-b", "late-a"}  # nobody was killed, and the rest grows
        assert "the group is being removed" in world.events("NotTriggerScaleUp")[-1]["message"]
        assert world.draining()["reason"] == "DrainOverdue"
        assert shown(replica, "sluice_pool_drain_overdue", pool="workers") == 1
        assert world.lists() == {"list-1": [keys.FINALIZER], "list-2": [keys.FINALIZER]}
        world.send_status("on-b", "Succeeded")
        await asyncio.sleep(20)
        assert world.lists() == {"list-2": [keys.FINALIZER]}
        assert "Draining" not in world.conditions()
        assert set(world.bound()) >= {"on-a", "late-a"}
        await asyncio.sleep(60)
        assert world.on(key("b")) == []
        assert len(world.on(key("a"))) == 2


@pytest.mark.accept("S17")
@simulated
async def test_services_move_to_the_groups_that_stay_as_their_budgets_allow() -> None:
    world = Site()
    world.add_site(key("a"), key("b"))
    world.add_pool("other", zones=())
    async with runtime(world):
        await asyncio.sleep(5)
        service = Service(world, "web")
        service.guard(available=2)
        service.start(3)
        await asyncio.sleep(60)
        gone = "a" if world.on(key("a")) else "b"
        stays = key("b" if gone == "a" else "a")
        world.change_groups(stays)
        lowest = 3
        for _ in range(300):
            await asyncio.sleep(1)
            ready = [pod for pod in world.all(kinds.PODS) if pod["status"].get("phase") == "Running"]
            lowest = min(lowest, len([pod for pod in ready if "deletionTimestamp" not in pod["metadata"]]))
        assert lowest == 2
        assert set(world.lists()) == {"list-2"}
        there = {node["metadata"]["name"] for node in world.on(stays)}
        assert set(service.running().values()) <= there
        assert len(service.running()) == 3


@pytest.mark.accept("S17")
@simulated
async def test_groups_that_are_only_added_let_the_old_list_go_at_once() -> None:
    world = Site()
    world.add_site(key("a"))
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_work("on-a", "a")
        await asyncio.sleep(60)
        world.add_group(key("b"), name=group_name(key("b")))
        world.change_groups(key("a"), key("b"))
        await asyncio.sleep(2)
        assert world.lists() == {"list-2": [keys.FINALIZER]}
        assert world.marks() == []
        world.add_work("on-b", "b")
        await asyncio.sleep(120)
        assert set(world.bound()) == {"on-a", "on-b"}


@simulated
async def test_a_group_that_comes_back_while_it_is_drained_takes_pods_again() -> None:
    world = Site()
    world.add_site(key("a"), key("b"))
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_work("on-b", "b")
        await asyncio.sleep(60)
        world.change_groups(key("a"))
        await asyncio.sleep(10)
        assert world.marks_on(key("b")) == ["Emptied"]
        world.change_groups(key("a"), key("b"), old="list-2", new="list-3")
        await asyncio.sleep(10)
        assert world.lists() == {"list-3": [keys.FINALIZER]}
        assert world.marks() == []
        world.add_work("more-b", "b", cpu="1")
        await asyncio.sleep(60)
        assert set(world.bound()) == {"on-b", "more-b"}


@pytest.mark.accept("S17")
@simulated
async def test_a_group_that_was_let_go_stays_closed_until_it_is_deleted() -> None:
    world = Site()
    world.add_site(key("a"), key("b"), minimum=1)
    async with runtime(world):
        await asyncio.sleep(60)
        world.change_groups(key("a"))
        await asyncio.sleep(60)
        assert world.lists() == {"list-2": [keys.FINALIZER]}
    async with runtime(world, "b"):  # whoever leads next knows it, too
        await asyncio.sleep(120)
        assert world.marks_on(key("b")) == ["Emptied"]
        assert "Draining" not in world.conditions()
        world.add_work("late", "b")
        await asyncio.sleep(120)
        assert world.bound() == {}
        assert len(world.on(key("b"))) == 1
        world.cloud.remove(group_name(key("b")))
        await asyncio.sleep(60)
        assert world.on(key("b")) == []


@simulated
async def test_groups_that_no_stack_made_are_left_alone() -> None:
    world = Site()
    world.add_site(key("a"))
    world.add_group(key("c"))
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_work("on-c", "c")
        await asyncio.sleep(60)
        world.change_groups(key("a"))
        await asyncio.sleep(30)
        assert set(world.bound()) == {"on-c"}
        assert world.marks() == []


@pytest.mark.accept("S12")
@simulated
async def test_a_pool_that_leaves_with_its_list_holds_both_until_it_is_empty() -> None:
    world = Site()
    world.add_site(key("a"))
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_work("on-a", "a")
        await asyncio.sleep(60)
        world.delete(kinds.CONFIG_MAPS, "list-1")
        world.delete(POOLS, "workers")
        await asyncio.sleep(60)
        assert (set(world.lists()), set(world.bound())) == ({"list-1"}, {"on-a"})
        assert "the pool has been leaving" in world.draining()["message"]
        world.send_status("on-a", "Succeeded")
        await asyncio.sleep(30)
        assert (world.pool(), world.lists()) == (None, {})


@simulated
async def test_a_list_whose_pool_is_gone_waits_for_the_work_all_the_same() -> None:
    world = Site()
    world.add_site(key("a"))
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_work("on-a", "a")
        await asyncio.sleep(60)
        world.patch(POOLS, "workers", {"metadata": {"finalizers": None}})
        world.delete(POOLS, "workers")
        world.delete(kinds.CONFIG_MAPS, "list-1")
        await asyncio.sleep(60)
        assert (world.pool(), set(world.lists())) == (None, {"list-1"})
        world.send_status("on-a", "Succeeded")
        await asyncio.sleep(30)
        assert world.lists() == {}


@simulated
async def test_a_list_that_makes_no_sense_holds_nobody() -> None:
    world = Site()
    world.add_site(key("a"))
    metadata = {"namespace": NAMESPACE, "labels": {keys.GROUP_LIST: "workers"}}
    for name, finalizers in (("odd", [keys.FINALIZER]), ("even", [])):
        named = metadata | {"name": name, "finalizers": finalizers}
        world.cluster.create(kinds.CONFIG_MAPS, {"metadata": named, "data": {group_list.FIELD: "{}"}})
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_work("on-a", "a")
        await asyncio.sleep(60)
        world.delete(kinds.CONFIG_MAPS, "odd")
        await asyncio.sleep(5)
        assert world.lists() == {"list-1": [keys.FINALIZER], "even": []}
        assert set(world.bound()) == {"on-a"}


@simulated
async def test_a_list_is_not_let_go_while_the_api_server_knows_of_work_that_was_not_seen() -> None:
    world = Site()
    world.add_site(key("a"), key("b"))
    unseen = _Unseen(world.cluster.client("a"))
    async with runtime(_through(world, unseen)):
        await asyncio.sleep(5)
        world.add_work("on-b", "b")
        await asyncio.sleep(60)
        unseen.pods = [each for each in world.all(kinds.PODS) if each["metadata"]["name"] == "on-b"]
        world.change_groups(key("a"))
        world.delete_pod("on-b")
        await asyncio.sleep(60)
        assert set(world.lists()) == {"list-1", "list-2"}
        unseen.pods = []
        await asyncio.sleep(10)
        assert set(world.lists()) == {"list-2"}


class _Unseen:
    """An API server whose watches are late: some pods are there that nobody was told of."""

    def __init__(self, api: port.Api) -> None:
        self.pods: list[Body] = []
        self._api = api
        self.watch = api.watch

    async def send(self, request: port.Request) -> port.Response:
        if self.pods and "spec.nodeName" in request.query.get("fieldSelector", ""):
            body = {"metadata": {"resourceVersion": "1"}, "items": self.pods}
            return port.Response(status=200, body=msgspec.json.encode(body))
        return await self._api.send(request)


@simulated
async def test_a_list_is_let_go_although_the_drain_object_went_without_us() -> None:
    world = Site()
    world.add_site(key("a"))
    world.add_drain_object()
    async with runtime(world):
        await asyncio.sleep(20)
        world.patch(kinds.CONFIG_MAPS, names.DRAIN_OBJECT, {"metadata": {"finalizers": None}})
        world.delete(kinds.CONFIG_MAPS, names.DRAIN_OBJECT)
        world.patch(POOLS, "workers", {"metadata": {"finalizers": None}})
        world.delete(POOLS, "workers")
        assert world.lists() == {"list-1": [keys.FINALIZER]}
        await asyncio.sleep(60)
        assert world.lists() == {"list-1": []}


@pytest.mark.accept("S1")
@simulated
async def test_a_stack_that_leaves_lets_its_lists_go() -> None:
    world = Site()
    world.add_site(key("a"))
    world.add_drain_object()
    async with runtime(world):
        await asyncio.sleep(20)
        assert world.lists() == {"list-1": [keys.FINALIZER]}
        world.delete(kinds.CONFIG_MAPS, names.DRAIN_OBJECT)
        await asyncio.sleep(60)
        assert (world.drain_object(), world.lists()) == (None, {"list-1": []})
        await asyncio.sleep(60)  # and nobody puts anything back
        assert world.lists() == {"list-1": []}


@pytest.mark.accept("S17")
def test_a_kill_at_any_write_ends_as_if_nobody_had_been_killed() -> None:
    """A group leaves, with a replica killed just before and just after each of its writes; a second one takes over."""
    want, writes = _story(at=0, after=False)
    assert want == {"killed": [], "early": False, "lists": {"list-2": [keys.FINALIZER]}, "marks": []}
    assert writes > 10
    for at in range(1, writes + 1):
        for after in (False, True):
            assert _story(at=at, after=after)[0] == want, f"killed {'after' if after else 'before'} write {at}"


def _story(*, at: int, after: bool) -> tuple[dict[str, Any], int]:
    async def act() -> tuple[dict[str, Any], int]:
        world = Site()
        world.add_site(key("a"), key("b"))
        mortal = Mortal(world.cluster.client("a"), at=at, after=after)
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(runtime(_through(world, mortal)))
            await asyncio.sleep(1)  # it leads
            await stack.enter_async_context(runtime(world, "b"))
            await asyncio.sleep(15)
            for zone in ("a", "b"):
                world.add_work(f"on-{zone}", zone)
            await asyncio.sleep(80)
            world.change_groups(key("a"))
            await asyncio.sleep(60)
            killed = [name for name in ("on-a", "on-b") if name not in world.bound()]
            early = "list-1" not in world.lists()
            world.send_status("on-b", "Succeeded")
            await asyncio.sleep(90)
            killed += [name for name in ("on-a",) if name not in world.bound()]
        return {"killed": killed, "early": early, "lists": world.lists(), "marks": world.marks()}, mortal.writes

    return virtual_time.run(act())


@simulated
async def test_a_list_that_lost_its_label_is_a_list_all_the_same() -> None:
    world = Site()
    world.add_site(key("a"))
    world.add_list("list-2", [key("a")])
    world.add_drain_object()
    async with runtime(world):
        await asyncio.sleep(20)
        world.add_work("on-a", "a")
        await asyncio.sleep(60)
        for name in ("list-1", "list-2"):
            world.patch(kinds.CONFIG_MAPS, name, {"metadata": {"labels": None}})
        world.delete(kinds.CONFIG_MAPS, "list-1")
        await asyncio.sleep(10)
        there = {each["metadata"]["name"]: each["metadata"].get("finalizers") for each in world.all(kinds.CONFIG_MAPS)}
        assert "list-1" not in there  # the other one has all of its groups
        assert world.marks() == []
        world.delete(kinds.CONFIG_MAPS, "list-2")
        await asyncio.sleep(10)
        assert world.marks() == ["Emptied"]
        assert len(world.all(kinds.CONFIG_MAPS)) == 2  # it waits for the work
        world.delete(kinds.CONFIG_MAPS, names.DRAIN_OBJECT)
        world.send_status("on-a", "Succeeded")
        await asyncio.sleep(60)
        assert world.all(kinds.CONFIG_MAPS) == []
