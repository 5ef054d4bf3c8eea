"""Leaving in virtual time: gates are opened, suspended jobs are told, and nothing hangs on a finalizer of ours."""

import asyncio
from collections import Counter

import pytest

from autoscaler.api import keys, names
from autoscaler.kube import kinds, port
from autoscaler.simulation.cluster import faults
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.admission_world import (
    CLUSTER_QUEUES,
    FLAVORS,
    LOCAL_QUEUES,
    NAMESPACE,
    RUNTIME,
    WORKLOADS,
    World,
    runtime,
)

OWN_PART = keys.part_finalizer("admission")
HELD = (WORKLOADS, CLUSTER_QUEUES, LOCAL_QUEUES, FLAVORS)


def add_drain_object(world: World) -> None:
    confirmed = {keys.CONFIRM_LEAVING: "true"}
    metadata = {"name": names.DRAIN_OBJECT, "namespace": NAMESPACE, "annotations": confirmed}
    world.cluster.create(kinds.CONFIG_MAPS, {"metadata": metadata})


def drain_objects(world: World) -> list[str]:
    return [name for each in world.all(kinds.CONFIG_MAPS) if (name := each["metadata"]["name"]) == names.DRAIN_OBJECT]


def finalizers(world: World) -> set[str]:
    found = [each for resource in HELD for each in world.all(resource)]
    assert found
    return {name for each in found for name in each["metadata"].get("finalizers") or ()}


async def _ready(world: World) -> None:
    """One job that runs and has grown beyond its quota, and one that waits."""
    world.add_job("running", pods=2, completions=10)
    await asyncio.sleep(20)
    world.resize("running", 3)
    world.add_job("waiting", pods=2)
    await asyncio.sleep(20)
    assert (world.running("running"), world.gated("running")) == (2, 1)


def world_with_drain_object() -> World:
    world = World(is_audited=False)  # gates are opened without quota
    world.add_queue("team", cpu=2)
    add_drain_object(world)
    return world


@pytest.mark.accept("S12", part="queued jobs")
@simulated
async def test_the_stack_leaves_and_nothing_of_ours_hangs() -> None:
    world = world_with_drain_object()
    async with runtime(world):
        await _ready(world)
        assert world._get(kinds.CONFIG_MAPS, names.DRAIN_OBJECT)["metadata"]["finalizers"] == [OWN_PART]
        world.delete(kinds.CONFIG_MAPS, names.DRAIN_OBJECT)
        await asyncio.sleep(60)
        assert drain_objects(world) == []
        assert finalizers(world) == set()
        assert (world.running("running"), world.gated("running")) == (3, 0)
        assert world.job("waiting")["spec"]["suspend"] is True
        told = world.events("waiting")["StaysSuspended"]
        assert [(each["type"], each.get("count", 1)) for each in told] == [("Warning", 1)]
        assert "make it anew without the label" in told[0]["message"]
        assert "StaysSuspended" not in world.events("running")


@simulated
async def test_pods_that_are_made_while_the_rest_of_the_stack_leaves_are_let_through() -> None:
    world, made = world_with_drain_object(), list[Counted]()
    async with runtime(world, wrap=lambda api: _kept(made, Counted(api))):
        await _ready(world)
        world.delete(kinds.CONFIG_MAPS, names.DRAIN_OBJECT)
        await asyncio.sleep(60)
        made[0].sent.clear()
        world.delete(kinds.PODS, world.pods("running")[0]["metadata"]["name"])
        await asyncio.sleep(60)
        assert (world.running("running"), world.gated("running")) == (3, 0)
        assert made[0].sent["GET", "pods"] == 0  # watches tell of them


@simulated
async def test_nothing_is_admitted_while_the_stack_leaves() -> None:
    world = world_with_drain_object()
    async with runtime(world):
        await asyncio.sleep(20)
        world.delete(kinds.CONFIG_MAPS, names.DRAIN_OBJECT)
        await asyncio.sleep(20)
        world.add_job("late")
        await asyncio.sleep(60)
        assert world.find_workload("late") is None
        assert world.job("late")["spec"]["suspend"] is True


@simulated
async def test_what_cannot_be_freed_keeps_the_drain_object_and_is_tried_again_less_and_less_often() -> None:
    world, made = world_with_drain_object(), list[Counted]()
    async with runtime(world, wrap=lambda api: _kept(made, Counted(api))):
        await _ready(world)
        made[0].sent.clear()
        about = faults.Matching(method="PATCH", path="/pods/", username=RUNTIME.user)
        world.cluster.faults.add(faults.Answer(code=500), about, times=None)
        world.delete(kinds.CONFIG_MAPS, names.DRAIN_OBJECT)
        for number in range(60):  # something changes all the time
            await asyncio.sleep(5)
            world.patch(CLUSTER_QUEUES, "team", {"metadata": {"labels": {"at": f"t{number}"}}})
        assert drain_objects(world) == [names.DRAIN_OBJECT]
        await asyncio.sleep(1)
        assert made[0].sent["PATCH", "pod"] < 25
        world.cluster.faults.clear()
        await asyncio.sleep(120)
        assert drain_objects(world) == []
        assert world.gated("running") == 0


@simulated
async def test_suspended_jobs_are_told_once_however_often_it_takes_to_leave() -> None:
    world = world_with_drain_object()
    async with runtime(world):
        await _ready(world)
        about = faults.Matching(method="PATCH", path="/workloads/", username=RUNTIME.user)
        world.cluster.faults.add(faults.Answer(code=500), about, times=None)
        world.delete(kinds.CONFIG_MAPS, names.DRAIN_OBJECT)
        await asyncio.sleep(300)
        assert [each.get("count", 1) for each in world.events("waiting")["StaysSuspended"]] == [1]


@simulated
async def test_a_stack_that_comes_back_may_leave_again() -> None:
    world = world_with_drain_object()
    async with runtime(world):
        await _ready(world)
        for times in (1, 2):
            world.delete(kinds.CONFIG_MAPS, names.DRAIN_OBJECT)
            await asyncio.sleep(60)
            assert (drain_objects(world), finalizers(world)) == ([], set())
            assert sum(each.get("count", 1) for each in world.events("waiting")["StaysSuspended"]) == times
            add_drain_object(world)
            await asyncio.sleep(60)
            assert finalizers(world) != set()


@simulated
async def test_gates_of_others_stay() -> None:
    world = world_with_drain_object()
    gated = {"schedulingGates": [{"name": "example.com/other"}], "containers": [{"name": "main", "image": "main:1"}]}
    async with runtime(world):
        world.add_job(template={"spec": {**gated, "restartPolicy": "Never"}}, queue="missing")
        await asyncio.sleep(20)
        world.delete(kinds.CONFIG_MAPS, names.DRAIN_OBJECT)
        await asyncio.sleep(60)
        world.patch(kinds.JOBS, "job", {"spec": {"suspend": False}})
        await asyncio.sleep(60)
        assert [each["spec"]["schedulingGates"] for each in world.pods()] == [[{"name": "example.com/other"}]]


class Counted:
    """A connection that counts calls: a list by its plural, all else by the kind of object, in singular."""

    def __init__(self, api: port.Api) -> None:
        self.sent: Counter[tuple[str, str]] = Counter()
        self._api = api
        self.watch = api.watch

    async def send(self, request: port.Request) -> port.Response:
        parts = request.path.split("/")
        self.sent[request.method, parts[-1] if parts[-1].endswith("s") else parts[-2].removesuffix("s")] += 1
        return await self._api.send(request)


def _kept(made: list[Counted], one: Counted) -> Counted:
    made.append(one)
    return one
