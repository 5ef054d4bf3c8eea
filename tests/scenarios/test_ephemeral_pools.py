"""Ephemeral pools in virtual time: every instance serves one pod, and then it goes."""

import asyncio
import contextlib
import copy
from collections import defaultdict
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from autoscaler.api import keys
from autoscaler.kube import kinds, port
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cluster import SimulatedCluster, faults
from autoscaler.simulation.cluster.store import Change, Key
from autoscaler.simulation.cluster.verbs.writes import Manner
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.capacity_world import NAMESPACE, Body, World, runtime
from tests.scenarios.worker_world import Mortal, deployment

FREE = {"key": keys.RESERVED_FOR, "value": keys.RESERVED_FOR_NONE, "effect": "NoSchedule"}


class Served(World):
    """A world with an ephemeral pool that remembers which pods ever were on which node."""

    def __init__(self, *, schedules: bool = True, run_seconds: float | None = 60.0, **pool: Any) -> None:
        super().__init__(schedules=schedules)
        self.run_seconds = run_seconds
        self.served: defaultdict[str, set[str]] = defaultdict(set)
        self.done: set[str] = set()
        """The names of pods that ended well."""
        self.most = 0
        """The most instances that there ever were at once."""
        self.cluster.server.store.collection(kinds.PODS).listeners.append(self._note)
        self.cluster.server.store.collection(kinds.NODES).listeners.append(self._count)
        self.add_pool(ephemeral=True, taints=(FREE,), **{"zones": ("a",), **pool})

    def kept_for(self) -> list[str]:
        """Return what the nodes' taints say, by node."""
        nodes = sorted(self.nodes(), key=lambda node: node["metadata"]["name"])
        return [_kept_for(node) for node in nodes]

    def kept_by_node(self) -> dict[str, str]:
        return {node["metadata"]["name"]: _kept_for(node) for node in self.nodes()}

    def uid(self, name: str) -> str:
        uid: str = next(pod["metadata"]["uid"] for pod in self.all(kinds.PODS) if pod["metadata"]["name"] == name)
        return uid

    def bind(self, pod: str, node: str) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"metadata": {"name": pod}, "target": target}
        self.cluster.server.bind(Key(NAMESPACE, pod), body, Manner(user="system:kube-scheduler"))

    def kill_pod(self, name: str) -> None:
        """Delete a pod at once, wherever it is."""
        path = kinds.PODS.path(name, NAMESPACE)
        request = port.Request(method="DELETE", path=path, body=b'{"gracePeriodSeconds":0}')
        port.required(self.cluster.server.handle(request, "admin"))

    def _note(self, change: Change) -> None:
        body = change.after.object if change.after is not None else {}
        if body.get("spec", {}).get("nodeName") and not body["metadata"].get("ownerReferences"):
            self.served[body["spec"]["nodeName"]].add(body["metadata"]["uid"])
        if body.get("status", {}).get("phase") == "Succeeded":
            self.done.add(body["metadata"]["name"])

    def _count(self, change: Change) -> None:
        del change
        self.most = max(self.most, len(self.nodes()))


@pytest.mark.accept("P15")
@simulated
async def test_ten_pods_get_ten_instances_one_each_and_all_of_them_go_afterwards() -> None:
    world = Served(limits__maxIdleSeconds=3600)
    async with runtime(world):
        await asyncio.sleep(5)
        for number in range(10):
            world.add_pod(f"p-{number}", cpu="100m")
        await asyncio.sleep(60)
        assert len(world.cloud.instances) == 10
        assert len(set(world.bound().values())) == 10
        assert sorted(world.kept_for()) == sorted(world.uid(f"p-{number}") for number in range(10))
        await asyncio.sleep(240)
        assert len(world.done) == 10
        assert (world.nodes(), world.desired()) == ([], {})
        assert len(world.cloud.instances) == 10  # not one too many was ever started
        assert {len(pods) for pods in world.served.values()} == {1}


@pytest.mark.accept("P15")
@simulated
async def test_pods_that_race_for_one_instance_get_one_each_though_the_group_is_at_its_minimum() -> None:
    world = Served(minimum=1, maximum=1)
    async with runtime(world):
        await asyncio.sleep(60)
        assert world.kept_for() == [keys.RESERVED_FOR_NONE]
        for number in range(4):
            world.add_pod(f"p-{number}", cpu="100m")
        await asyncio.sleep(30)
        assert len(world.bound()) == 1
        assert world.bound().keys() == {"p-0"}  # all are equally old: by name
        await asyncio.sleep(1200)
        assert len(world.done) == 4
        assert {len(pods) for pods in world.served.values()} == {1}
        assert len(world.cloud.instances) == 5  # the last one waits
        assert (world.most, world.desired()) == (1, {"workers-a-m5.xlarge": 1})
        assert world.kept_for() == [keys.RESERVED_FOR_NONE]


@simulated
async def test_limits_hold_while_instances_are_spent_and_replaced() -> None:
    world = Served(limits__maxActiveInstances=2)
    async with runtime(world):
        for number in range(7):
            world.add_pod(f"p-{number}")
        await asyncio.sleep(30)
        assert "the pool has 2 of at most 2 instances" in world.events("NotTriggerScaleUp")[0]["message"]
        await asyncio.sleep(2400)
        assert len(world.done) == 7
        assert world.most == 2
        assert len(world.cloud.instances) == 7


@simulated
async def test_taints_of_others_keep_their_times_when_an_instance_is_claimed() -> None:
    world = Served(schedules=False, minimum=1)
    theirs = {"key": "example.com/theirs", "effect": "PreferNoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}
    async with runtime(world):
        await asyncio.sleep(60)
        (node,) = world.nodes()
        body = msgspec.json.encode({"spec": {"taints": [*node["spec"]["taints"], theirs]}})
        path = kinds.NODES.path(node["metadata"]["name"])
        request = port.Request(method="PATCH", path=path, body=body, content_type=port.MERGE_PATCH)
        port.required(world.cluster.server.handle(request, "admin"))
        world.add_pod("one")
        await asyncio.sleep(2)
        assert world.kept_for() == [world.uid("one")]
        assert theirs in world.nodes()[0]["spec"]["taints"]


@simulated
async def test_an_instance_whose_pod_vanished_before_it_came_is_free_again() -> None:
    world = Served(schedules=False, minimum=1)
    async with runtime(world):
        await asyncio.sleep(60)
        world.add_pod("one")
        await asyncio.sleep(2)
        assert world.kept_for() == [world.uid("one")]
        world.delete_pod("one")
        await asyncio.sleep(20)
        assert world.kept_for() == [keys.RESERVED_FOR_NONE]
        world.add_pod("two")
        await asyncio.sleep(2)
        assert world.kept_for() == [world.uid("two")]
        assert len(world.cloud.instances) == 1


@simulated
async def test_an_instance_whose_pod_went_elsewhere_is_free_again() -> None:
    world = Served(schedules=False, minimum=1)
    world.cluster.create(kinds.NODES, {"metadata": {"name": "static"}, "status": {}})
    async with runtime(world):
        await asyncio.sleep(60)
        world.add_pod("one")
        await asyncio.sleep(2)
        assert world.uid("one") in world.kept_for()
        world.bind("one", "static")
        await asyncio.sleep(2)
        assert keys.RESERVED_FOR_NONE in world.kept_for()
        assert len(world.cloud.instances) == 1


@simulated
async def test_an_instance_that_a_pod_had_for_a_moment_only_is_spent() -> None:
    world = Served(schedules=False, minimum=1)
    async with runtime(world):
        await asyncio.sleep(60)
        world.add_pod("one")
        await asyncio.sleep(2)
        (node,) = world.nodes()
        world.bind("one", node["metadata"]["name"])
        world.kill_pod("one")  # at the same moment: no plan ever sees it there
        await asyncio.sleep(120)
        (other,) = world.nodes()
        assert other["metadata"]["name"] != node["metadata"]["name"]
        assert world.kept_for() == [keys.RESERVED_FOR_NONE]


@simulated
async def test_an_instance_whose_pod_vanished_while_nobody_watched_is_spent() -> None:
    world = Served(schedules=False, minimum=1)
    async with runtime(world):
        await asyncio.sleep(60)
        world.add_pod("one")
        await asyncio.sleep(2)
        (node,) = world.nodes()
    world.delete_pod("one")
    async with runtime(world, "b"):
        await asyncio.sleep(120)
        (other,) = world.nodes()
        assert other["metadata"]["name"] != node["metadata"]["name"]


@simulated
async def test_a_pod_that_could_not_be_let_on_keeps_its_instance_and_gets_no_other() -> None:
    world = Served(minimum=1)
    async with runtime(world):
        await asyncio.sleep(60)
        patch = faults.Matching(method="PATCH", path="/pods/one")
        world.cluster.faults.add(faults.Answer(code=403), patch, times=None)
        world.add_pod("one")
        await asyncio.sleep(30)
        assert world.kept_for() == [world.uid("one")]
        assert not world.bound()
        world.cluster.faults.clear()
        await asyncio.sleep(45)  # what is refused is tried twice a minute at last
        assert world.bound().keys() == {"one"}
        assert len(world.cloud.instances) == 1


@pytest.mark.accept("P15")
@simulated
async def test_a_pod_may_go_to_an_instance_only_once_that_is_kept_for_it() -> None:
    """What a pod tolerates cannot be taken back: so the node's taint is always there first."""
    world = Served(minimum=1)
    early: list[str] = []

    def look(change: Change) -> None:
        before, after = (_let_on(each.object) if each else set() for each in (change.before, change.after))
        early.extend(after - before - set(world.kept_for()))

    world.cluster.server.store.collection(kinds.PODS).listeners.append(look)
    async with runtime(world):
        await asyncio.sleep(60)
        patch = faults.Matching(method="PATCH", path="/nodes/")
        world.cluster.faults.add(faults.Answer(code=403), patch, times=None)
        world.add_pod("one")
        await asyncio.sleep(60)  # so long that a node which takes nobody would have taught something
        assert keys.RESERVED_FOR not in str(_pod(world, "one")["spec"].get("tolerations"))
        world.cluster.faults.clear()
        world.add_pod("two")
        await asyncio.sleep(240)
        assert world.done == {"one", "two"}
        assert early == []


@simulated
async def test_an_instance_that_a_pod_took_by_naming_it_is_spent_afterwards() -> None:
    world = Served(minimum=1)
    async with runtime(world):
        await asyncio.sleep(60)
        (node,) = world.nodes()
        world.add_pod("bold", nodeName=node["metadata"]["name"])
        await asyncio.sleep(2)
        assert world.kept_for() == [world.uid("bold")]
        world.add_pod("waits")
        await asyncio.sleep(240)
        assert world.done == {"bold", "waits"}
        assert {len(pods) for pods in world.served.values()} == {1}


@simulated
async def test_what_runs_on_every_node_uses_no_instance_up() -> None:
    world = Served(minimum=1, run_seconds=None)
    async with runtime(world):
        await asyncio.sleep(60)
        (node,) = world.nodes()
        everywhere = [{"operator": "Exists"}]
        world.add_pod("system", tolerations=everywhere)
        await asyncio.sleep(30)
        assert world.bound() == {"system": node["metadata"]["name"]}
        assert world.kept_for() == [keys.RESERVED_FOR_NONE]
        world.add_pod("work")
        await asyncio.sleep(30)
        assert world.bound()["work"] == node["metadata"]["name"]
        assert len(world.cloud.instances) == 1


@simulated
async def test_what_runs_on_every_node_keeps_no_instance_that_is_spent() -> None:
    world = Served(minimum=1, run_seconds=None)
    async with runtime(world):
        await asyncio.sleep(60)
        uid = world.cluster.create(kinds.DEPLOYMENTS, deployment("agent"))["metadata"]["uid"]
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "agent", "uid": uid, "controller": True}
        world.add_pod("system", tolerations=[{"operator": "Exists"}], owners=[owner])
        world.add_pod("work")
        await asyncio.sleep(30)
        (node,) = world.nodes()
        assert set(world.bound().values()) == {node["metadata"]["name"]}
        world.delete_pod("work")
        await asyncio.sleep(60)
        (other,) = world.nodes()
        assert other["metadata"]["name"] != node["metadata"]["name"]
        assert world.bound() == {}  # the one was asked to leave, and nobody makes it anew here


@simulated
async def test_what_pods_tolerated_before_is_left_as_it_was() -> None:
    world = Served(minimum=1)
    async with runtime(world):
        await asyncio.sleep(60)
        own = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
        world.add_pod("one", tolerations=[{**own, "tolerationSeconds": 7}])
        before = _pod(world, "one")["spec"]["tolerations"]
        await asyncio.sleep(30)
        given = {"key": keys.RESERVED_FOR, "operator": "Equal", "value": world.uid("one"), "effect": "NoSchedule"}
        assert _pod(world, "one")["spec"]["tolerations"] == [*before, given]


@simulated
async def test_instances_that_refuse_the_pod_they_are_kept_for_are_given_up_after_one() -> None:
    world = Served(schedules=False, limits__maxIdleSeconds=36_000)
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("unwanted")
        await asyncio.sleep(3600)
        assert len(world.cloud.instances) == 1
        assert "did not take such a pod" in world.events("NotTriggerScaleUp")[-1]["message"]


class Telling(Mortal):
    """One that tells what it wrote."""

    def __init__(self, api: port.Api, *, at: int, after: bool) -> None:
        super().__init__(api, at=at, after=after)
        self.paths: list[str] = []

    async def send(self, request: port.Request) -> port.Response:
        if request.method != "GET" and "/leases" not in request.path:
            self.paths.append(request.path)
        return await super().send(request)


@pytest.mark.accept("P15")
def test_a_kill_at_any_write_leaves_one_pod_to_each_instance() -> None:
    """One scenario, killed just before and just after each write to a node or pod; a second replica takes over."""
    want, paths = _story(at=0, after=False)
    kills = [at for at, path in enumerate(paths, start=1) if "/nodes/" in path or "/pods/" in path]
    assert len(kills) > 10
    for at in kills:
        for after in (False, True):
            assert _story(at=at, after=after)[0] == want, f"killed {'after' if after else 'before'} {paths[at - 1]}"


def _story(*, at: int, after: bool) -> tuple[dict[str, Any], list[str]]:
    """Serve pods with one instance that waits and others that do not; delete a pod; return the end and the writes."""

    async def act() -> tuple[dict[str, Any], list[str]]:
        world = Served(minimum=1, maximum=3, run_seconds=30.0)
        mortal = Telling(world.cluster.client("a"), at=at, after=after)
        first = copy.copy(world)
        first.cluster = cast("SimulatedCluster", SimpleNamespace(client=lambda _: mortal))
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(runtime(first))
            await asyncio.sleep(1)  # it leads
            await stack.enter_async_context(runtime(world, "b"))
            await asyncio.sleep(30)
            for name in ("p-0", "p-1", "p-2", "leaves"):
                world.add_pod(name)
            await asyncio.sleep(3)
            world.delete_pod("leaves")
            await asyncio.sleep(300)
        end = {
            "done": world.done,
            "served": {len(pods) for pods in world.served.values()},
            "kept_for": world.kept_for(),
            "desired": world.desired(),
            "too many": world.most > 3,
        }
        return end, mortal.paths

    return virtual_time.run(act())


def _kept_for(node: Body) -> str:
    value: str = next((t["value"] for t in node["spec"].get("taints", ()) if t["key"] == keys.RESERVED_FOR), "")
    return value


def _let_on(pod: Body) -> set[str]:
    """Return whose instances a pod may go to."""
    return {each["value"] for each in pod["spec"].get("tolerations", ()) if each.get("key") == keys.RESERVED_FOR}


def _pod(world: World, name: str) -> Body:
    return next(pod for pod in world.all(kinds.PODS) if pod["metadata"]["name"] == name)
