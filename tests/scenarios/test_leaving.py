"""Leaving in virtual time: a pool is emptied before it goes, the whole stack likewise, and nobody's work is killed."""

import asyncio
import contextlib
import copy
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from autoscaler.api import keys, names, resources
from autoscaler.kube import kinds, port
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cluster import SimulatedCluster
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.capacity_services import Service
from tests.scenarios.capacity_world import NAMESPACE, Body, World, runtime
from tests.scenarios.worker_world import Mortal

POOLS = kinds.custom(resources.InstancePool)
OWN_PART = keys.part_finalizer("capacity")


class Stack(World):
    """A world that somebody leaves."""

    def delete(self, resource: kinds.ResourceType, name: str) -> None:
        request = port.Request(method="DELETE", path=resource.path(name, NAMESPACE))
        port.required(self.cluster.server.handle(request, "admin"))

    def add_drain_object(self, *finalizers: str) -> None:
        metadata = {"name": names.DRAIN_OBJECT, "namespace": NAMESPACE, "finalizers": list(finalizers)}
        self.cluster.create(kinds.CONFIG_MAPS, {"metadata": metadata})

    def drain_object(self) -> Body | None:
        there = [each for each in self.all(kinds.CONFIG_MAPS) if each["metadata"]["name"] == names.DRAIN_OBJECT]
        return there[0] if there else None

    def pool(self, name: str = "workers") -> Body | None:
        return next((each for each in self.all(POOLS) if each["metadata"]["name"] == name), None)

    def finalizers(self, name: str = "workers") -> list[str]:
        found: list[str] = (self.pool(name) or {"metadata": {}})["metadata"].get("finalizers", [])
        return found

    def marks(self) -> list[str]:
        taints = [taint for node in self.nodes() for taint in node["spec"].get("taints", ())]
        return [taint["value"] for taint in taints if taint["key"] == keys.REMOVING]

    def draining(self, name: str = "workers") -> Body:
        conditions = (self.pool(name) or {})["status"]["conditions"]
        return next(each for each in conditions if each["type"] == "Draining")

    def owner(self, resource: kinds.ResourceType = kinds.JOBS) -> Body:
        """Make an owner of pods, and return the reference to it."""
        template = {
            "metadata": {"labels": {"app": "owned"}},
            "spec": {"containers": [{"name": "main", "image": "a:1"}]},
        }
        sizes = {"selector": {"matchLabels": {"app": "owned"}}, "replicas": 0}
        sizes = {"parallelism": 0} if resource is kinds.JOBS else sizes
        metadata = {"generateName": "owner-", "namespace": NAMESPACE}
        made = self.cluster.create(resource, {"metadata": metadata, "spec": {"template": template, **sizes}})
        reference = {"apiVersion": resource.api_version, "kind": resource.kind, "controller": True}
        return {**reference, "name": made["metadata"]["name"], "uid": made["metadata"]["uid"]}

    def send_status(self, pod: str, phase: str) -> None:
        self.patch(kinds.PODS, pod, {"status": {"phase": phase}}, "status")


@pytest.mark.accept("S12")
@simulated
async def test_a_pool_waits_for_a_jobs_pod_and_then_goes() -> None:
    world = Stack()
    world.add_pool(limits__maxIdleSeconds=600, drainSeconds=300)
    async with runtime(world):
        await asyncio.sleep(5)
        assert world.finalizers() == [keys.FINALIZER]
        world.add_pod("sums-1", owners=[world.owner()], labels={"job": "sums"})
        world.add_pod("bare")
        await asyncio.sleep(60)
        assert set(world.bound()) == {"sums-1", "bare"}
        world.delete(POOLS, "workers")
        await asyncio.sleep(2)
        assert set(world.marks()) == {"Emptied"}
        assert (world.draining()["reason"], world.draining()["status"]) == ("WorkRunning", "True")
        assert (
            "2 pods still run: default/bare, default/sums-1; the pool has been leaving since 20"
            in (world.draining()["message"])
        )
        world.add_pod("late", cpu="3")
        await asyncio.sleep(3600)
        assert set(world.bound()) == {"sums-1", "bare"}  # nobody was killed
        assert len(world.cloud.instances) == 1  # and nothing launched
        assert "the pool is being removed" in world.events("NotTriggerScaleUp")[-1]["message"]
        assert world.draining()["reason"] == "DrainOverdue"
        [warning] = world.events("DrainOverdue")
        assert warning["type"] == "Warning"
        world.send_status("sums-1", "Succeeded")
        await asyncio.sleep(60)
        assert "1 pod still run" in world.draining()["message"]
        world.send_status("bare", "Succeeded")
        await asyncio.sleep(2)
        assert world.pool() is not None  # what was on its way may still arrive
        await asyncio.sleep(10)
        assert world.pool() is None
        await asyncio.sleep(60)
        assert world.nodes() == []


@simulated
async def test_a_pool_without_nodes_goes_at_once_and_one_that_stays_is_left_alone() -> None:
    world = Stack()
    world.add_pool()
    world.add_pool("stays")
    async with runtime(world):
        await asyncio.sleep(5)
        world.delete(POOLS, "workers")
        await asyncio.sleep(2)
        assert world.pool() is None
        assert world.finalizers("stays") == [keys.FINALIZER]
        assert world.events("Drained")


@pytest.mark.accept("S12")
@simulated
async def test_services_move_to_other_pools_as_their_budgets_allow() -> None:
    world = Stack()
    world.add_pool(zones=("a",))
    async with runtime(world):
        await asyncio.sleep(5)
        service = Service(world, "web")
        service.guard(available=2)
        service.start(3)
        await asyncio.sleep(60)
        old = set(service.running().values())
        assert len(old) == 3
        world.add_pool("next", zones=("b",))
        await asyncio.sleep(5)
        world.delete(POOLS, "workers")
        lowest = 3
        await asyncio.sleep(10)
        ready = next(each for each in (world.pool() or {})["status"]["conditions"] if each["type"] == "Ready")
        assert (ready["status"], ready["reason"]) == ("False", "BeingRemoved")
        assert "a PodDisruptionBudget holds" in world.draining()["message"]
        for _ in range(300):
            await asyncio.sleep(1)
            ready = [pod for pod in world.all(kinds.PODS) if pod["status"].get("phase") == "Running"]
            lowest = min(lowest, len([pod for pod in ready if "deletionTimestamp" not in pod["metadata"]]))
        assert lowest == 2
        assert world.pool() is None
        assert len(service.running()) == 3
        assert not old & set(service.running().values())
        assert not old & {node["metadata"]["name"] for node in world.nodes()}


@simulated
async def test_nothing_is_launched_for_a_pool_that_leaves_and_minimums_are_not_replaced() -> None:
    world = Stack()
    world.add_pool(minimum=1, zones=("a",), registrationTimeoutSeconds=60)
    world.silent.add("a")
    async with runtime(world):
        await asyncio.sleep(20)
        world.add_pod("waits")
        await asyncio.sleep(2)
        launched = len(world.cloud.instances)
        world.delete(POOLS, "workers")
        await asyncio.sleep(2)
        assert "1 instance still starting" in world.draining()["message"] or launched > 1
        await asyncio.sleep(600)
        assert len(world.cloud.instances) == launched
        assert world.pool() is None
        assert "waits" not in world.bound()


@simulated
async def test_instances_at_the_minimum_stay_empty_and_marked_until_their_group_goes() -> None:
    world = Stack()
    world.add_pool(minimum=1, zones=("a",))
    async with runtime(world):
        await asyncio.sleep(60)
        world.delete(POOLS, "workers")
        await asyncio.sleep(60)
        assert world.pool() is None
        assert world.marks() == ["Emptied"]
        records = world.instances()
        assert [each["status"]["phase"] for each in records] == ["Draining"]
        used = records[0]["status"]["providerID"]
        instance = next(iter(world.cloud.instances.values()))
        assert used == instance.provider_id
        world.add_pool(zones=())
        await asyncio.sleep(60)
        assert world.marks() == []  # a pool of that name is there again, and stays


@simulated
async def test_books_go_on_for_a_pool_that_is_gone() -> None:
    world = Stack()
    world.add_pool(minimum=1, zones=("a",))
    async with runtime(world):
        await asyncio.sleep(60)
        world.delete(POOLS, "workers")
        await asyncio.sleep(600)
        assert world.pool() is None
        for group in list(world.cloud.groups):
            world.cloud.remove(group)
        await asyncio.sleep(300)
        [record] = world.instances()
        assert record["status"]["phase"] == "Terminated"
        [month] = record["status"]["months"].values()
        assert month["seconds"] >= 600


@simulated
async def test_the_runtimes_own_pods_and_those_of_kubernetes_are_not_waited_for() -> None:
    world = Stack()
    world.add_pool()
    async with runtime(world):
        await asyncio.sleep(5)
        replica_set = world.owner(kinds.DEPLOYMENTS)
        world.add_pod("runtime", labels={keys.VERSION: "1"}, owners=[replica_set])
        world.add_pod("coredns", namespace="kube-system")
        await asyncio.sleep(60)
        assert set(world.bound()) == {"runtime", "coredns"}
        world.delete(POOLS, "workers")
        await asyncio.sleep(30)
        assert world.pool() is None
        assert set(world.bound()) == {"runtime", "coredns"}


@pytest.mark.accept("S1")
@simulated
async def test_the_whole_stack_leaves_when_its_work_is_done_and_takes_everything_off() -> None:
    world = Stack()
    world.add_pool(minimum=1, zones=("a",))
    world.add_pool("more", zones=("b",))
    world.add_drain_object()
    async with runtime(world):
        await asyncio.sleep(20)
        held = world.drain_object()
        assert held is not None
        assert held["metadata"]["finalizers"] == [OWN_PART]
        service = Service(world, "web", cpu="500m")
        service.guard(available=1)
        service.start(1)
        world.add_pod("sums-1", cpu="2", owners=[world.owner()])
        gates = [{"name": keys.ADMISSION_GATE}, {"name": keys.PLACEMENT_GATE}, {"name": "example.com/theirs"}]
        world.add_pod("gated", schedulingGates=gates)
        await asyncio.sleep(90)
        assert {"web-1", "sums-1"} <= set(world.bound())
        world.delete(kinds.CONFIG_MAPS, names.DRAIN_OBJECT)
        await asyncio.sleep(16)  # it is looked at every fifteen seconds
        launched = len(world.cloud.instances)
        world.add_pod("late", cpu="3")
        await asyncio.sleep(600)
        assert world.drain_object() is not None
        assert world.draining()["reason"] == "WorkRunning"
        assert "web-1" in world.bound()  # the job may need it, and it has no other place
        assert len(world.cloud.instances) == launched
        world.send_status("sums-1", "Succeeded")
        await asyncio.sleep(90)
        assert "web-1" in world.bound()  # its budget held it
        assert world.drain_object() is None
        assert world.finalizers() == world.finalizers("more") == []
        assert world.marks() == []
        [gated] = [pod for pod in world.all(kinds.PODS) if pod["metadata"]["name"] == "gated"]
        assert gated["spec"]["schedulingGates"] == [{"name": "example.com/theirs"}]
        await asyncio.sleep(600)  # and nobody puts anything back
        world.delete(POOLS, "more")
        assert world.pool("more") is None
        assert world.finalizers() == []
        assert world.marks() == []
        assert len(world.cloud.instances) == launched


@simulated
async def test_services_leave_after_the_last_work_where_their_budgets_let_them() -> None:
    world = Stack()
    world.add_pool(zones=("a",))
    world.add_drain_object()
    async with runtime(world):
        await asyncio.sleep(5)
        service = Service(world, "web", cpu="500m")
        service.start(2)
        world.add_pod("sums-1", cpu="2", owners=[world.owner()])
        await asyncio.sleep(60)
        world.delete(kinds.CONFIG_MAPS, names.DRAIN_OBJECT)
        await asyncio.sleep(120)
        assert {"web-1", "web-2"} <= set(world.bound())
        world.send_status("sums-1", "Succeeded")
        await asyncio.sleep(50)
        assert not {"web-1", "web-2"} & set(world.bound())
        assert world.drain_object() is None  # nobody waited for longer than they took


@simulated
async def test_the_nodes_that_carry_the_runtime_take_pods_until_the_end() -> None:
    world = Stack()
    world.add_pool(zones=("a",))
    world.add_pool("services", zones=("b",), labels={"node.type": "k8s-services"})
    world.add_drain_object()
    async with runtime(world):
        await asyncio.sleep(5)
        replica_set = world.owner(kinds.DEPLOYMENTS)
        selector = {"node.type": "k8s-services"}
        world.add_pod("runtime", labels={keys.VERSION: "1"}, owners=[replica_set], nodeSelector=selector)
        world.add_pod("sums-1", owners=[world.owner()], nodeSelector={keys.INSTANCE_POOL: "workers"})
        await asyncio.sleep(60)
        world.delete(kinds.CONFIG_MAPS, names.DRAIN_OBJECT)
        await asyncio.sleep(60)
        marked = [node for node in world.nodes() if node["spec"].get("taints")]
        assert [node["metadata"]["labels"][keys.INSTANCE_POOL] for node in marked] == ["workers"]
        world.delete_pod("runtime")
        world.add_pod("again", labels={keys.VERSION: "1"}, owners=[replica_set], nodeSelector=selector)
        await asyncio.sleep(60)
        assert "again" in world.bound()
        world.send_status("sums-1", "Succeeded")
        await asyncio.sleep(60)
        assert world.drain_object() is None


@simulated
async def test_without_a_drain_object_the_runtime_stays_and_one_that_comes_back_is_held_again() -> None:
    world = Stack()
    world.add_pool()
    async with runtime(world):
        await asyncio.sleep(60)
        assert world.finalizers() == [keys.FINALIZER]
        world.add_drain_object()
        await asyncio.sleep(30)
        world.delete(kinds.CONFIG_MAPS, names.DRAIN_OBJECT)
        await asyncio.sleep(30)
        assert (world.drain_object(), world.finalizers()) == (None, [])
        world.add_drain_object()
        await asyncio.sleep(30)
        assert world.finalizers() == [keys.FINALIZER]


@simulated
async def test_a_part_that_has_left_does_nothing_more_while_another_still_leaves() -> None:
    world = Stack()
    world.add_pool(minimum=1, zones=("a",))
    world.add_drain_object("sluice.dev/leaving-somebody")
    async with runtime(world):
        await asyncio.sleep(60)
        world.delete(kinds.CONFIG_MAPS, names.DRAIN_OBJECT)
        await asyncio.sleep(60)
        held = world.drain_object()
        assert held is not None
        assert held["metadata"]["finalizers"] == ["sluice.dev/leaving-somebody"]
        world.add_pod("late")
        await asyncio.sleep(300)
        assert (world.marks(), world.finalizers()) == ([], [])
        assert "late" in world.bound()


@simulated
async def test_a_drain_object_that_nobody_held_lets_nobodys_work_be_killed_either() -> None:
    world = Stack()
    world.add_pool()
    world.add_drain_object()
    async with runtime(world):
        await asyncio.sleep(20)
        world.add_pod("sums-1", owners=[world.owner()])
        await asyncio.sleep(60)
        world.patch(kinds.CONFIG_MAPS, names.DRAIN_OBJECT, {"metadata": {"finalizers": None}})
        world.delete(kinds.CONFIG_MAPS, names.DRAIN_OBJECT)
        assert world.drain_object() is None
        await asyncio.sleep(60)
        world.delete(POOLS, "workers")  # as the stack would, next
        await asyncio.sleep(60)
        assert world.pool() is not None
        assert "sums-1" in world.bound()
        world.send_status("sums-1", "Succeeded")
        await asyncio.sleep(60)
        assert world.pool() is None


@simulated
async def test_one_pool_that_cannot_be_held_does_not_keep_others_from_going() -> None:
    world = Stack()
    world.add_pool("first")
    world.add_pool("workers")
    async with runtime(_through(world, _Refusing(world.cluster.client("a"), "PATCH", "/instancepools/first"))):
        await asyncio.sleep(10)
        assert (world.finalizers("first"), world.finalizers()) == ([], [keys.FINALIZER])
        world.delete(POOLS, "workers")
        await asyncio.sleep(10)
        assert world.pool() is None


@simulated
async def test_a_runtime_that_may_not_see_the_drain_object_works_all_the_same() -> None:
    world = Stack()
    world.add_pool()
    world.add_drain_object()
    async with runtime(_through(world, _Refusing(world.cluster.client("a"), "GET", names.DRAIN_OBJECT))):
        await asyncio.sleep(10)
        world.add_pod("one")
        await asyncio.sleep(60)
        assert "one" in world.bound()


@simulated
async def test_one_object_that_cannot_be_cleared_holds_the_drain_object_and_not_the_others() -> None:
    world = Stack()
    world.add_pool()
    world.add_drain_object()
    async with runtime(_through(world, _Refusing(world.cluster.client("a"), "PATCH", "/pods/stubborn"))):
        await asyncio.sleep(20)
        for name in ("stubborn", "willing"):
            world.add_pod(name, schedulingGates=[{"name": keys.MACHINE_GATE}])
        await asyncio.sleep(1)
        world.delete(kinds.CONFIG_MAPS, names.DRAIN_OBJECT)
        await asyncio.sleep(60)
        gated = {pod["metadata"]["name"]: pod["spec"].get("schedulingGates") for pod in world.all(kinds.PODS)}
        assert gated == {"stubborn": [{"name": keys.MACHINE_GATE}], "willing": None}
        assert world.drain_object() is not None


def _through(world: Stack, api: port.Api) -> Stack:
    """Return the same world, reached through this connection."""
    seen = copy.copy(world)
    seen.cluster = cast("SimulatedCluster", SimpleNamespace(client=lambda _: api))
    return seen


class _Refusing:
    """An API server that refuses to do one thing to one object."""

    def __init__(self, api: port.Api, method: str, path: str) -> None:
        self._api = api
        self._refused = (method, path)
        self.watch = api.watch

    async def send(self, request: port.Request) -> port.Response:
        method, path = self._refused
        if request.method == method and request.path.endswith(path):
            return port.Response(status=403, body=msgspec.json.encode({"reason": "Forbidden"}))
        return await self._api.send(request)


@pytest.mark.accept("S1", "S12")
def test_a_kill_at_any_write_ends_as_if_nobody_had_been_killed() -> None:
    """One farewell, killed just before and just after each of its writes; a second replica takes over."""
    want, writes = _story(at=0, after=False)
    assert want["killed"] == []
    assert (want["gone"], want["drain object"]) == (None, None)
    assert writes > 20
    for at in range(1, writes + 1):
        for after in (False, True):
            assert _story(at=at, after=after)[0] == want, f"killed {'after' if after else 'before'} write {at}"


def _story(*, at: int, after: bool) -> tuple[dict[str, Any], int]:
    """Remove one pool, then the whole stack, while jobs run; return the end."""

    async def act() -> tuple[dict[str, Any], int]:
        world = Stack()
        world.add_pool(zones=("a",), minimum=1)
        world.add_pool("goes", zones=("b",))
        world.add_drain_object()
        mortal = Mortal(world.cluster.client("a"), at=at, after=after)
        first = _through(world, mortal)
        killed: list[str] = []
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(runtime(first))
            await asyncio.sleep(1)  # it leads
            await stack.enter_async_context(runtime(world, "b"))
            await asyncio.sleep(15)
            for pool in ("workers", "goes"):
                world.add_pod(f"on-{pool}", owners=[world.owner()], nodeSelector={keys.INSTANCE_POOL: pool})
            await asyncio.sleep(80)
            world.delete(POOLS, "goes")
            await asyncio.sleep(60)
            killed += [name for name in ("on-workers", "on-goes") if name not in world.bound()]
            world.send_status("on-goes", "Succeeded")
            await asyncio.sleep(60)
            gone = world.pool("goes")
            world.delete(kinds.CONFIG_MAPS, names.DRAIN_OBJECT)
            await asyncio.sleep(60)
            killed += [] if "on-workers" in world.bound() else ["on-workers"]
            world.send_status("on-workers", "Succeeded")
            await asyncio.sleep(60)
        end = {
            "killed": killed,
            "gone": gone,
            "drain object": world.drain_object(),
            "finalizers": world.finalizers(),
            "marks": world.marks(),
        }
        return end, mortal.writes

    return virtual_time.run(act())
