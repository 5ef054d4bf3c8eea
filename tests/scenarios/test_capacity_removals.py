"""Instances that go, in virtual time: marked first, looked at again, and none that anybody needs or another scales."""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from autoscaler import clock
from autoscaler.api import keys, resources
from autoscaler.cloud import port as cloud
from autoscaler.kube import kinds, port
from autoscaler.simulation.cloud.faults import Call
from autoscaler.simulation.cloud.model import Obstacle
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.capacity_services import Service
from tests.scenarios.capacity_world import NAMESPACE, World, runtime

A, B, C = (f"workers-{zone}-m5.xlarge" for zone in "abc")
STALE = {"key": keys.REMOVING, "value": "Idle", "effect": "NoSchedule"}
THEIRS = {"key": "example.com/theirs", "value": "x", "effect": "NoSchedule"}
SYSTEM = "kube-system"


def taints(world: World) -> dict[str, set[str]]:
    """Return the keys of the taints of each node."""
    return {node["metadata"]["name"]: {each["key"] for each in _taints(node)} for node in world.nodes()}


def marked(world: World) -> set[str]:
    """Return the nodes that are marked for removal and whose instances were not ended yet."""
    living = {f"ip-{one.id}" for one in world.cloud.instances.values() if one.counts}
    return {name for name, found in taints(world).items() if keys.REMOVING in found} & living


def _taints(node: Mapping[str, Any]) -> list[dict[str, str]]:
    found: list[dict[str, str]] = node["spec"].get("taints") or []
    return found


def sent(world: World) -> list[port.Request]:
    """Return what the replica asks of the API server from now on."""
    found: list[port.Request] = []
    handle = world.cluster.server.handle

    def note(request: port.Request, user: str) -> port.Response:
        if user == "a":
            found.append(request)
        return handle(request, user)

    world.cluster.server.handle = note  # type: ignore[method-assign]
    return found


def bind(world: World, pod: str, node: str) -> None:
    """Do what a scheduler does."""
    body = {"metadata": {"name": pod}, "target": {"kind": "Node", "name": node}}
    request = port.Request(
        method="POST", path=kinds.PODS.path(pod, NAMESPACE, "binding"), body=msgspec.json.encode(body)
    )
    port.required(world.cluster.server.handle(request, "scheduler"))


async def until_marked(world: World, seconds: int) -> str:
    """Wait until the only node is marked, and return its name."""
    for _ in range(seconds * 10):
        await asyncio.sleep(0.1)
        if marked(world):
            (name,) = marked(world)
            return name
    raise AssertionError(f"no node was marked within {seconds} s")


@pytest.mark.accept("G11")
@simulated
async def test_empty_nodes_go_ten_at_a_time_down_to_the_smallest_size_and_none_that_works() -> None:
    world = World()
    world.add_pool(zones=("a",), minimum=2, maximum=20, limits__maxIdleSeconds=60)
    async with runtime(world):
        for number in range(14):
            world.add_pod(f"p-{number}", cpu="3")
        await asyncio.sleep(90)
        assert len(world.nodes()) == 14
        run_everywhere(world)
        works = world.bound()["p-0"]
        for number in range(1, 14):
            world.delete_pod(f"p-{number}")
        most, ended = 0, []
        for _ in range(300):
            await asyncio.sleep(0.5)
            most = max(most, len(marked(world)))
            ended.append(sum(not one.counts for one in world.cloud.instances.values()))
        assert most == 10
        assert 10 in ended, "those that are due together go together"
        assert len(world.nodes()) == 2
        assert world.bound()["p-0"] == works
        assert world.desired() == {A: 2}
        assert len(world.cloud.instances) == 14, "none was started for those that went"
        assert marked(world) == set()


def run_everywhere(world: World) -> None:
    """Run a pod on each node that keeps none of them."""
    template = {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [{"name": "a", "image": "a:1"}]}}
    spec = {"selector": {"matchLabels": {"app": "agent"}}, "template": template}
    made = world.cluster.create(
        kinds.DAEMON_SETS, {"metadata": {"name": "agent", "namespace": NAMESPACE}, "spec": spec}
    )
    uid = made["metadata"]["uid"]
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": uid, "controller": True}
    for node in world.nodes():
        name = node["metadata"]["name"]
        world.add_pod(f"agent-{name}", cpu="10m", owners=[owner], nodeName=name)


@pytest.mark.accept("G11")
@simulated
async def test_a_pod_that_nobody_was_told_of_yet_saves_its_node() -> None:
    """Watches are behind: only a list that is no moment old shows that a marked node has work."""
    world = World()
    world.add_pool(zones=("a",), limits__maxIdleSeconds=60)
    async with runtime(world):
        await asyncio.sleep(5)
        world.cluster.faults.watch_lag_seconds = 20.0
        world.cluster.faults.cut_watches("a")  # long before: it is no gap any more
        world.add_pod("one")
        await asyncio.sleep(120)
        requests = sent(world)
        world.delete_pod("one")
        node = await until_marked(world, 150)
        await asyncio.sleep(1.5)
        world.add_pod("two", nodeName=node)
        await asyncio.sleep(15)
        (instance,) = world.cloud.instances.values()
        assert instance.counts, "it was ended on what was true a moment ago"
        looks = [each for each in requests if "spec.nodeName" in each.query.get("fieldSelector", "")]
        assert looks
        assert not [each for each in looks if "resourceVersion" in each.query], "a cache may be a moment old"
        await asyncio.sleep(15)
        assert taints(world) == {node: set()}


@pytest.mark.accept("G11")
@simulated
async def test_an_idle_node_on_which_waiting_pods_are_expected_is_not_even_marked() -> None:
    world = World(schedules=False)
    world.add_pool(zones=("a",), limits__maxIdleSeconds=5)
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("one", cpu="3")
        await asyncio.sleep(35)
        (node,) = taints(world)
        for _ in range(40):
            await asyncio.sleep(0.5)
            assert not marked(world)
        bind(world, "one", node)
        await asyncio.sleep(60)
        assert list(taints(world)) == [node]
        assert len(world.cloud.instances) == 1


@pytest.mark.accept("G11")
@simulated
async def test_marks_that_a_dead_runtime_left_are_swept_at_the_start_and_those_of_others_stay() -> None:
    world = World()
    world.add_pool(zones=("a",), minimum=3)
    await asyncio.sleep(60)
    nodes = sorted(taints(world))
    for name, given in zip(nodes, ([STALE], [STALE, THEIRS], [THEIRS]), strict=True):
        world.patch(kinds.NODES, name, {"spec": {"taints": given}})
    async with runtime(world):
        await asyncio.sleep(5)
        assert [taints(world)[name] for name in nodes] == [set(), {THEIRS["key"]}, {THEIRS["key"]}]
        assert all(one.counts for one in world.cloud.instances.values())


# Another scaler


async def live_beside(world: World, seconds: int) -> None:
    """Let a cluster-autoscaler renew its Lease for a while."""
    path = kinds.LEASES.path("cluster-autoscaler", SYSTEM)
    for _ in range(seconds // 10):
        renewed = {"spec": {"renewTime": clock.to_rfc3339(world.cloud.clock.now())}}
        body = msgspec.json.encode(renewed)
        request = port.Request(method="PATCH", path=path, body=body, content_type=port.MERGE_PATCH)
        port.required(world.cluster.server.handle(request, "admin"))
        await asyncio.sleep(10)


@pytest.mark.accept("G23")
@simulated
async def test_beside_another_scaler_nothing_is_started_ended_marked_or_evicted_and_all_of_it_once_it_is_gone() -> None:
    """There is reason for all that we do: pods wait, launches fail, instances are idle, old, lost or doomed."""
    world = World()
    world.add_pool(limits__maxIdleSeconds=60, registrationTimeoutSeconds=60)
    service = Service(world, "web", nodeSelector={keys.ZONE: "a"})
    async with runtime(world):
        await asyncio.sleep(5)
        service.start()
        world.add_pod("idle", cpu="3", nodeSelector={keys.ZONE: "a"})
        await asyncio.sleep(50)
        before = service.running()
        lease = {"holderIdentity": "ca-0", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"}
        metadata = {"name": "cluster-autoscaler", "namespace": SYSTEM}
        world.cluster.create(kinds.LEASES, {"metadata": metadata, "spec": lease})
        await live_beside(world, 20)
        requests, calls = sent(world), world.clients["aws"].calls
        asked = (calls[Call.SET_DESIRED], calls[Call.TERMINATE])
        world.delete_pod("idle")
        world.add_pod("waits", cpu="3", nodeSelector={keys.ZONE: "b"})
        world.silent = {"c"}
        world.cloud.hinder(Obstacle(failure=cloud.LaunchFailure.INSUFFICIENT_CAPACITY, zone="b"))
        for group in list(world.cloud.groups.values()):
            world.cloud.retemplate(group.name, cloud.Template(image_id="ami-2", user_data_sha256="1" * 64))
            world.cloud.set_desired(group, group.desired + (group.spec.key.zone != "a"))
        (doomed,) = [one.id for one in world.cloud.instances.values() if f"ip-{one.id}" in before.values()]
        world.cloud.news.tell(cloud.SpotInterruption(instance=doomed))
        await live_beside(world, 600)
        assert (calls[Call.SET_DESIRED], calls[Call.TERMINATE]) == asked
        written = [
            each for each in requests if each.method != "GET" and ("/nodes" in each.path or "/pods" in each.path)
        ]
        assert [each.path for each in written] == [kinds.NODES.path(f"ip-{doomed}")]
        assert msgspec.json.decode(written[0].body or b"")["metadata"]["annotations"].keys() == {keys.INTERRUPTED_AT}
        assert world.desired() == {A: 2, B: 1, C: 1}
        assert service.running() == before
        told = "cluster-autoscaler (ca-0) scales this cluster's nodes"
        assert told in world.events("NotTriggerScaleUp")[0]["message"]
        (pool,) = world.all(kinds.custom(resources.InstancePool))
        assert all(told in group["reason"] for group in pool["status"]["nodeGroups"])
        world.cloud.relieve()
        world.silent = set()
        await asyncio.sleep(900)
        assert "waits" in world.bound()
        assert service.running().keys() != before.keys()
        assert world.desired() == {A: 1, B: 1}
