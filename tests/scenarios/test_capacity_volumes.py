"""Pods and their volumes in virtual time: whom no instance can help, and how many are started for whom."""

import asyncio
from typing import Any

import pytest

from autoscaler.cloud import port as cloud
from autoscaler.kube import kinds, objects, port
from autoscaler.runtime.commands import explain
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cloud.model import Obstacle
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.capacity_world import NAMESPACE, Body, World, runtime

TYPES = ("m5.large", "m5.xlarge", "m5.2xlarge")
EBS = "ebs.csi.aws.com"


def claiming(*claims: str) -> list[Body]:
    return [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]


def add_claim(world: World, name: str, *, phase: str = "Pending", **spec: Any) -> None:
    world.cluster.create(kinds.CLAIMS, {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})
    world.patch(kinds.CLAIMS, name, {"status": {"phase": phase}}, "status")


def add_class(world: World, name: str, mode: str = "WaitForFirstConsumer", **more: Any) -> None:
    body = {"metadata": {"name": name}, "provisioner": EBS, "volumeBindingMode": mode, **more}
    world.cluster.create(kinds.STORAGE_CLASSES, body)


def add_volume(world: World, name: str, key: str, value: str) -> None:
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}]
    spec = {"csi": {"driver": EBS, "volumeHandle": name}, "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}
    world.cluster.create(kinds.VOLUMES, {"metadata": {"name": name}, "spec": spec})


async def explained(world: World, pod: str) -> str:
    now, key = virtual_time.clock().now(), objects.Key(NAMESPACE, pod)
    return "\n".join(await explain.lines(world.cluster.client(), "pod", key, now=now))


def told(world: World, pod: str) -> list[str]:
    """Return why a pod was told that no instance is started for it, oldest first."""
    return [each["message"] for each in world.events("NotTriggerScaleUp") if each["involvedObject"]["name"] == pod]


@pytest.mark.accept("G26")
@simulated
async def test_pods_whose_claims_cannot_be_met_start_nothing_under_any_leader_and_are_told_why() -> None:
    world = World()
    world.add_pool(types=TYPES)
    add_class(world, "now", "Immediate")
    add_claim(world, "unbound", storageClassName="now")
    add_claim(world, "classless")
    add_claim(world, "unknown", storageClassName="typo")
    add_claim(world, "lost", phase="Lost", volumeName="gone")
    add_volume(world, "local", "kubernetes.io/hostname", "dead-node")
    add_claim(world, "local", phase="Bound", volumeName="local")
    want = {
        "missing": "its volume claim missing does not exist",
        "unbound": "its volume claim unbound has no volume yet",
        "classless": "its volume claim classless has no volume and no StorageClass",
        "unknown": "its volume claim unknown names StorageClass typo, which does not exist",
        "lost": "its volume claim lost has lost its volume",
        "local": "its volume is on node dead-node, which is gone",
    }
    async with runtime(world):
        await asyncio.sleep(5)
        for name in want:
            world.add_pod(name, volumes=claiming(name))
        await asyncio.sleep(1800)
    async with runtime(world, "b"):
        await asyncio.sleep(1800)
    assert len(world.cloud.instances) == 0
    for name, text in want.items():
        assert all(text in message for message in told(world, name)), told(world, name)
        assert told(world, name)


@pytest.mark.accept("G26")
@simulated
async def test_a_pod_is_told_again_when_its_claim_changes_and_served_when_it_can_be() -> None:
    world = World()
    world.add_pool(types=TYPES)
    add_class(world, "later")
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("p", volumes=claiming("data"))
        await asyncio.sleep(60)
        add_claim(world, "data", storageClassName="typo")
        await asyncio.sleep(60)
        assert ["does not exist" in text for text in told(world, "p")] == [True, True]
        assert "names StorageClass typo" in told(world, "p")[1]
        assert len(world.cloud.instances) == 0
        port.required(world.cluster.server.handle(port.Request(method="DELETE", path=_claim_path("data")), "admin"))
        allowed = [{"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": ["b"]}]}]
        add_class(world, "in-b", allowedTopologies=allowed)
        add_claim(world, "data", storageClassName="in-b")
        await asyncio.sleep(120)
        assert [instance.key.zone for instance in world.cloud.instances.values()] == ["b"]
        assert world.bound().keys() == {"p"}


@pytest.mark.accept("G26")
@simulated
async def test_what_plans_do_not_know_starts_one_instance_over_all_groups_and_leaders() -> None:
    world = World(schedules=False)
    world.add_pool(types=TYPES, limits__maxIdleSeconds=60)
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("refused")
        await asyncio.sleep(600)
        assert world.desired() == {}  # it was idle
    async with runtime(world, "b"):
        await asyncio.sleep(1800)
    said = await explained(world, "refused")
    assert "was started for such a pod, and its empty node had room and did not take it" in said
    assert "would take it" not in said
    assert len(world.cloud.instances) == 1
    assert "did not take such a pod although it had room" in told(world, "refused")[0]


@pytest.mark.accept("G26", part="the scheduler is away")
@simulated
async def test_while_the_scheduler_is_away_pods_start_what_they_need_once_and_run_when_it_is_back() -> None:
    world = World(schedules=False)
    world.add_pool(types=TYPES, limits__maxIdleSeconds=36_000)
    async with runtime(world):
        await asyncio.sleep(5)
        for number in range(5):
            world.add_pod(f"p-{number}", cpu=f"{number + 1}00m")
        await asyncio.sleep(600)
    async with runtime(world, "b"):
        await asyncio.sleep(600)
        assert len(world.cloud.instances) == 1
        (node,) = world.nodes()
        for number in range(5):
            world.bind(f"p-{number}", node["metadata"]["name"])
        await asyncio.sleep(60)
        world.add_pod("more", cpu="100m")  # like one that a node took: it is helped again, and there is room
        world.add_pod("large", cpu="1800m")
        await asyncio.sleep(120)
        assert len(world.cloud.instances) == 2


@pytest.mark.accept("G28")
@simulated
async def test_pods_with_volumes_start_as_many_instances_as_attach_them_and_all_run() -> None:
    world = World()
    world.attach_limits = {EBS: 25}
    world.add_pool(types=("m5.8xlarge",))
    add_class(world, "later")
    async with runtime(world):
        await asyncio.sleep(5)
        add_pods(world, 60)
        await asyncio.sleep(300)
        assert (len(world.bound()), len(world.cloud.instances)) == (60, 3)
        assert len(world.events("TriggeredScaleUp")) == 60
        add_pods(world, 15, "more")  # as much as is left
        await asyncio.sleep(300)
        assert (len(world.bound()), len(world.cloud.instances)) == (75, 3)
        add_pods(world, 1, "last")  # there is cpu for it, and no volume can be attached any more
        await asyncio.sleep(300)
        assert (len(world.bound()), len(world.cloud.instances)) == (76, 4)
        world.cloud.hinder(Obstacle(failure=cloud.LaunchFailure.INSUFFICIENT_CAPACITY))
        add_pods(world, 25, "late")
        await asyncio.sleep(300)
        waiting = next(each["metadata"]["name"] for each in world.all(kinds.PODS) if not each["spec"].get("nodeName"))
        said = await explained(world, waiting)
        assert "4 nodes have room for its requests and attach too few volumes more for it" in said
        assert "nodes with room" not in said


@pytest.mark.accept("G28")
@simulated
async def test_what_nodes_of_a_type_attach_is_learned_from_their_csi_nodes() -> None:
    world = World()
    world.attach_limits = {EBS: 6}
    world.add_pool(types=("m5.8xlarge",))
    add_class(world, "later")
    async with runtime(world):
        await asyncio.sleep(5)
        add_pods(world, 12)
        await asyncio.sleep(300)
        assert (len(world.bound()), len(world.cloud.instances)) == (12, 2)
        world.add_pod("greedy", volumes=claiming(*(f"c-{number}" for number in range(7))))
        await asyncio.sleep(300)
        assert "volumes of ebs.csi.aws.com on one node: wants 7, has 6" in told(world, "greedy")[0]
        assert len(world.cloud.instances) == 2


@pytest.mark.accept("G26", "G28")
@simulated
async def test_a_pod_with_more_volumes_than_any_node_attaches_starts_nothing() -> None:
    world = World()
    world.add_pool(types=("m5.8xlarge",))
    add_class(world, "later")
    for number in range(30):
        add_claim(world, f"c-{number}", storageClassName="later")
    async with runtime(world):
        await asyncio.sleep(5)
        world.add_pod("greedy", volumes=claiming(*(f"c-{number}" for number in range(30))))
        await asyncio.sleep(300)
        assert "volumes of ebs.csi.aws.com on one node: wants 30, has 25" in told(world, "greedy")[0]
        assert len(world.cloud.instances) == 0


def add_pods(world: World, count: int, name: str = "c") -> None:
    """Make small pods, each with a claim of its own."""
    for number in range(count):
        add_claim(world, f"{name}-{number}", storageClassName="later")
        world.add_pod(f"{name}-{number}", cpu="100m", volumes=claiming(f"{name}-{number}"))


def _claim_path(name: str) -> str:
    return kinds.CLAIMS.path(name, NAMESPACE)
