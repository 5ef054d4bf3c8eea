"""Zone co-location in virtual time: the pods of a job that asks for one zone go to one, all of them or none."""

import asyncio
import contextlib
import copy
from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import pytest

from autoscaler.api import keys
from autoscaler.api.settings.node_groups import NodeGroupKey
from autoscaler.cloud import port as cloud
from autoscaler.kube import kinds, port
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cloud.model import Obstacle
from autoscaler.simulation.cluster import SimulatedCluster, faults, served
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.capacity_world import NAMESPACE, Body, World, runtime
from tests.scenarios.worker_world import Mortal

WHOLE = Obstacle(failure=cloud.LaunchFailure.INSUFFICIENT_CAPACITY, zone="a")
TRIGGERED, NOT_TRIGGERED = "TriggeredScaleUp", "NotTriggerScaleUp"


def add_job(world: World, name: str = "train") -> Body:
    """Make a Job; its pods are made by the test."""
    template = {"spec": {"containers": [{"name": "main", "image": "app:1"}], "restartPolicy": "Never"}}
    spec = {"template": template, "parallelism": 0}
    return world.cluster.create(kinds.JOBS, {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})


def add_members(world: World, job: Body, *numbers: int, cpu: str = "1", **spec: Any) -> None:
    """Make pods of a job that asks for one zone, as the Job controller would."""
    meta = job["metadata"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"], "controller": True}
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    for number in numbers:
        metadata = {
            "name": f"{meta['name']}-{number}",
            "namespace": NAMESPACE,
            "annotations": {keys.SAME_ZONE: "true"},
            "ownerReferences": [owner],
        }
        body = {"metadata": metadata, "spec": {"restartPolicy": "Never", "containers": [container], **spec}}
        world.cluster.create(kinds.PODS, body)


def gated(world: World) -> set[str]:
    return {pod["metadata"]["name"] for pod in world.all(kinds.PODS) if pod["spec"].get("schedulingGates")}


def selected(world: World) -> dict[str, str]:
    """Return the zone that each pod selects."""
    pods = world.all(kinds.PODS)
    chosen = {pod["metadata"]["name"]: pod["spec"].get("nodeSelector", {}).get(keys.ZONE) for pod in pods}
    return {name: zone for name, zone in chosen.items() if zone}


def zones(world: World, prefix: str = "train") -> Counter[str]:
    """Count the job's pods by the zone of their node."""
    by_node = {node["metadata"]["name"]: node["metadata"]["labels"][keys.ZONE] for node in world.nodes()}
    return Counter(by_node[node] for pod, node in world.bound().items() if pod.startswith(f"{prefix}-"))


@pytest.mark.accept("G10")
@simulated
async def test_a_job_from_zero_goes_to_one_zone_when_all_its_nodes_are_there() -> None:
    world = World()
    world.add_pool()
    async with runtime(world):
        await asyncio.sleep(5)
        add_members(world, add_job(world), *range(6))
        want = {f"train-{number}" for number in range(6)}
        await asyncio.sleep(4)
        assert world.desired() == {"workers-a-m5.xlarge": 2}
        assert {event["involvedObject"]["name"] for event in world.events(TRIGGERED)} == want
        while len(world.nodes()) < 2:
            assert gated(world) == want
            await asyncio.sleep(0.5)
        await asyncio.sleep(60)
        assert gated(world) == set()
        assert selected(world) == dict.fromkeys(want, "a")
        assert zones(world) == {"a": 6}
        assert len(world.cloud.instances) == 2


@pytest.mark.accept("G10")
@simulated
async def test_a_job_moves_as_a_whole_when_its_zone_has_no_capacity() -> None:
    world = World()
    world.add_pool(limits__maxIdleSeconds=120)
    world.cloud.hinder(WHOLE)
    async with runtime(world):
        await asyncio.sleep(5)
        add_members(world, add_job(world), *range(6))
        await asyncio.sleep(180)
        assert zones(world) == {"b": 6}
        assert world.desired() == {"workers-b-m5.xlarge": 2}


@pytest.mark.accept("G10")
@simulated
async def test_what_was_started_in_a_zone_that_then_runs_short_goes_and_the_job_moves() -> None:
    world = World()
    world.add_pool(limits__maxIdleSeconds=120)
    async with runtime(world):
        await asyncio.sleep(5)
        job = add_job(world)
        add_members(world, job, *range(3))
        await asyncio.sleep(4)
        assert world.desired() == {"workers-a-m5.xlarge": 1}
        world.cloud.hinder(WHOLE)
        add_members(world, job, *range(3, 9))
        await asyncio.sleep(120)
        assert zones(world) == {"b": 9}
        await asyncio.sleep(300)
        assert world.desired() == {"workers-b-m5.xlarge": 3}
        assert {node["metadata"]["labels"][keys.ZONE] for node in world.nodes()} == {"b"}


@pytest.mark.accept("G10")
@simulated
async def test_where_no_zone_takes_all_nothing_is_started_and_every_pod_is_told_why() -> None:
    world = World()
    world.add_pool(maximum=1)
    async with runtime(world):
        await asyncio.sleep(5)
        add_members(world, add_job(world), *range(6))
        await asyncio.sleep(60)
        assert world.desired() == {}
        told = {event["involvedObject"]["name"]: event["message"] for event in world.events(NOT_TRIGGERED)}
        assert set(told) == {f"train-{number}" for number in range(6)}
        assert (
            "no zone takes all 6 pods of Job train: at most 3, with what would be started; the group has 1 of at most 1"
            in told["train-0"]
        )
        world.add_group(NodeGroupKey(pool="workers", zone="d", instance_type="m5.xlarge"), maximum=2)
        await asyncio.sleep(180)
        assert zones(world) == {"d": 6}


@pytest.mark.accept("G10")
@simulated
async def test_a_runtime_that_is_killed_half_way_leaves_a_job_that_the_next_one_completes() -> None:
    """The rest must not go elsewhere, although by then there is more room in another zone."""
    world = World()
    world.add_pool(limits__maxIdleSeconds=3600)
    for number in range(3, 6):
        late = faults.Matching(method="PATCH", path=f"/pods/train-{number}", username="a")
        world.cluster.faults.add(faults.Delay(seconds=2.0), late)
    async with runtime(world, "a"):
        await asyncio.sleep(5)
        add_members(world, add_job(world), *range(6))
        for _ in range(1000):
            await asyncio.sleep(0 if len(gated(world)) == 3 else 0.1)
        world.cluster.faults.freeze("a")
        assert selected(world) == {f"train-{number}": "a" for number in range(3)}
        for number in range(3):  # they take what is left in the job's zone
            world.add_pod(f"thief-{number}", nodeSelector={keys.ZONE: "a"})
        world.add_pool("spare", zones=("b",), minimum=2)
        await asyncio.sleep(60)
        assert len(gated(world)) == 3
        async with runtime(world, "b"):
            await asyncio.sleep(120)
            assert zones(world) == {"a": 6}
            assert gated(world) == set()
            world.cluster.faults.thaw("a")
            await asyncio.sleep(60)
            assert zones(world) == {"a": 6}


@pytest.mark.accept("G10")
def test_a_kill_at_any_write_to_a_pod_ends_as_if_nobody_had_been_killed() -> None:
    """Two jobs, killed just before and just after each of their pods is opened; a second replica takes over."""
    want, writes = _story(at=0, after=False)
    assert want == {"first": {"a": 6}, "second": {"a": 6}, "instances": 4}
    assert writes == 12
    for at in range(1, writes + 1):
        for after in (False, True):
            assert _story(at=at, after=after)[0] == want, f"killed {'after' if after else 'before'} write {at}"


class Opening(Mortal):
    """One that counts pods that are opened, and no other writes."""

    async def send(self, request: port.Request) -> port.Response:
        if request.method == "PATCH" and "/pods/" in request.path:
            return await super().send(request)
        await self._hang_if_dead()
        answer = await self._api.send(request)
        await self._hang_if_dead()
        return answer


def _story(*, at: int, after: bool) -> tuple[Body, int]:
    """Serve two jobs; return where they went, and how many pods the first replica opened or was about to."""

    async def act() -> tuple[Body, int]:
        world = World()
        world.add_pool()
        mortal = Opening(world.cluster.client("a"), at=at, after=after)
        first = copy.copy(world)
        first.cluster = cast("SimulatedCluster", SimpleNamespace(client=lambda _: mortal))
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(runtime(first))
            await asyncio.sleep(1)  # it leads
            await stack.enter_async_context(runtime(world, "b"))
            await asyncio.sleep(5)
            for name in ("first", "second"):
                add_members(world, add_job(world, name), *range(6))
            await asyncio.sleep(180)
            assert gated(world) == set()
        found = {name: dict(zones(world, name)) for name in ("first", "second")}
        return {**found, "instances": len(world.cloud.instances)}, mortal.writes

    return virtual_time.run(act())


@pytest.mark.accept("G10")
@simulated
async def test_members_that_come_later_join_those_that_are_there() -> None:
    world = World()
    world.add_pool()
    world.cloud.hinder(WHOLE)
    async with runtime(world):
        await asyncio.sleep(5)
        job = add_job(world)
        add_members(world, job, *range(6))
        await asyncio.sleep(120)
        assert zones(world) == {"b": 6}
        world.cloud.relieve()
        world.delete_pod("train-0")
        add_members(world, job, 6, 7, 8)
        await asyncio.sleep(120)
        assert zones(world) == {"b": 8}


@simulated
async def test_two_jobs_that_cannot_both_go_are_served_one_after_the_other() -> None:
    world = World()
    world.add_pool(limits__maxActiveInstances=2)
    world.run_seconds = 300.0
    async with runtime(world):
        await asyncio.sleep(5)
        add_members(world, add_job(world, "first"), *range(6))
        add_members(world, add_job(world, "second"), *range(6))
        await asyncio.sleep(120)
        assert zones(world, "first") == {"a": 6}
        assert len(gated(world)) == 6
        await asyncio.sleep(600)
        assert zones(world, "second") == {"a": 6}


@simulated
async def test_room_that_is_there_is_used_and_pods_of_low_priority_get_nothing_else() -> None:
    world = World()
    world.add_pool(minimum=1)
    low = {"metadata": {"name": "low"}, "value": -100}
    world.cluster.create(served.PRIORITY_CLASSES, low)
    async with runtime(world):
        await asyncio.sleep(60)
        add_members(world, add_job(world), *range(3), priorityClassName="low")
        await asyncio.sleep(10)
        assert zones(world) == {"a": 3}
        add_members(world, add_job(world, "huge"), *range(6), priorityClassName="low")
        await asyncio.sleep(60)
        assert len(world.nodes()) == 3
        told = {event["involvedObject"]["name"]: event["message"] for event in world.events(NOT_TRIGGERED)}
        assert "no instance is started for priority -100, below -10" in told["huge-0"]


@simulated
async def test_pods_that_could_not_be_opened_are_tried_again() -> None:
    world = World()
    world.add_pool()
    async with runtime(world):
        await asyncio.sleep(5)
        world.cluster.faults.add(faults.Answer(code=403), faults.Matching(method="PATCH", path="/pods/"), times=6)
        add_members(world, add_job(world), *range(6))
        for _ in range(1000):
            await asyncio.sleep(0.1 if len(world.nodes()) < 2 else 0)
        await asyncio.sleep(0.5)
        assert len(gated(world)) == 6
        await asyncio.sleep(5)
        assert gated(world) == set()


@simulated
async def test_a_job_whose_pods_have_instances_of_their_own_goes_to_one_zone_too() -> None:
    world = World()
    free = {"key": keys.RESERVED_FOR, "value": keys.RESERVED_FOR_NONE, "effect": "NoSchedule"}
    world.add_pool(ephemeral=True, taints=(free,), limits__maxIdleSeconds=3600)
    world.cloud.hinder(WHOLE)
    async with runtime(world):
        await asyncio.sleep(5)
        add_members(world, add_job(world), *range(4))
        await asyncio.sleep(180)
        assert zones(world) == {"b": 4}
        assert len(set(world.bound().values())) == len(world.cloud.instances) == 4


@simulated
async def test_other_pods_beside_a_job_are_planned_as_ever() -> None:
    world = World()
    world.add_pool()
    async with runtime(world):
        await asyncio.sleep(5)
        add_members(world, add_job(world), *range(6))
        for number in range(12):
            world.add_pod(f"plain-{number}")
        await asyncio.sleep(120)
        assert len(world.bound()) == 18
        assert len(zones(world)) == 1
        assert len(world.cloud.instances) <= 7


@pytest.mark.accept("G10")
@simulated
async def test_pods_that_want_one_another_in_one_zone_get_it_without_a_gate() -> None:
    world = World()
    world.add_pool()
    world.cloud.hinder(WHOLE)
    term = {"topologyKey": keys.ZONE, "labelSelector": {"matchLabels": {"app": "ring"}}}
    together = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    async with runtime(world):
        await asyncio.sleep(5)
        for number in range(6):
            world.add_pod(f"ring-{number}", labels={"app": "ring"}, affinity=together)
        await asyncio.sleep(180)
        assert zones(world, "ring") == {"b": 6}
        assert len(world.cloud.instances) == 2
