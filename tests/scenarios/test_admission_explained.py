"""`explain` on a live cluster, in virtual time: what a queued job, its Workload and its pods wait for."""

import asyncio
from collections.abc import Callable

import msgspec
import pytest

from autoscaler.kube import kinds, objects, port
from autoscaler.runtime.commands import explain
from autoscaler.simulation import virtual_time
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.admission_world import LOCAL_QUEUES, NAMESPACE, RUNTIME, WORKLOADS, World, runtime

SOON = 20.0


async def explained(world: World, kind: str, name: str) -> str:
    """Explain as a person does, and hold each line to 80 columns."""
    now = virtual_time.clock().now()
    text = "\n".join(await explain.lines(world.cluster.client(), kind, objects.Key(NAMESPACE, name), now=now))
    assert all(len(line) <= 80 for line in text.splitlines())
    return text


@pytest.mark.accept("E17", part="explained")
@simulated
async def test_a_waiting_job_is_explained_with_its_queue_its_place_and_what_is_missing() -> None:
    world = World()
    world.add_queue("team", cpu=4)
    async with runtime(world):
        world.add_job("first", pods=3)
        await asyncio.sleep(SOON)
        world.add_job("second", pods=3)
        await asyncio.sleep(SOON)
        name = world.workload("second")["metadata"]["name"]
        text = await explained(world, "job", "second")
        assert text == await explained(world, "workload", name)
    want = [
        f"Workload default/{name}, of Job second",
        "  queue        LocalQueue team, ClusterQueue team (BestEffortFIFO)",
        "  state        waits",
        "  position     1 of 1",
        "  estimate     none: too little was admitted so far",
        "  why not yet  needs 3 cpu of flavor standard, 1 are free: 2 missing",
        "quota of ClusterQueue team",
        "  FLAVOR    RESOURCE  USED  CLAIMED  QUOTA  FREE",
        "  standard  cpu       3     0        4      1",
    ]
    assert text.splitlines() == want


@simulated
async def test_a_job_that_grew_is_explained_with_what_its_growth_waits_for() -> None:
    world = World()
    world.add_queue("team", cpu=2)
    async with runtime(world):
        world.add_job("job", pods=2, completions=10)
        await asyncio.sleep(SOON)
        world.resize("job", 4)
        await asyncio.sleep(SOON)
        gated = next(each for each in world.pods("job") if each["spec"].get("schedulingGates"))
        text = await explained(world, "job", "job")
        of_pod = await explained(world, "pod", gated["metadata"]["name"])
    assert "  resize       main: 2 of 4 pods are granted, 2 wait for quota\n" in text
    assert "  slices       2 wait: needs 1 cpu of flavor standard, 0 are free: 1 missing\n" in text
    assert "2 pods of main on standard" in text
    assert set(text.splitlines()) <= set(of_pod.splitlines())
    passed = "quota is granted for 2 pods of main, and 2 of them have passed the gate"
    want = f"this pod {passed}: it waits until one of them ends, or more is granted"
    assert want in " ".join(of_pod.split())
    assert "it waits behind its scheduling gates" in of_pod


@simulated
async def test_a_job_behind_another_in_a_strict_queue_is_told_which() -> None:
    world = World()
    world.add_queue("team", cpu=2, queueingStrategy="StrictFIFO")
    async with runtime(world):
        world.add_job("first", pods=1)
        await asyncio.sleep(SOON)
        world.add_job("second", pods=2)
        await asyncio.sleep(SOON)
        world.add_job("third", pods=1)
        await asyncio.sleep(SOON)
        name = world.workload("second")["metadata"]["name"]
        text = await explained(world, "job", "third")
        told = world.condition("QuotaReserved", "third")
    assert f"why not yet  waits behind default/{name}" in text
    assert told is not None
    assert (told["reason"], told["message"]) == ("BehindAnother", f"waits behind default/{name} in ClusterQueue team")


class Changing:
    """A connection during whose first answer something changes."""

    def __init__(self, api: port.Api, change: Callable[[], object]) -> None:
        self.watch = api.watch
        self._api = api
        self._changes = [change]

    async def send(self, request: port.Request) -> port.Response:
        answer = await self._api.send(request)
        while self._changes:
            self._changes.pop()()
        return answer


@simulated
async def test_a_workload_that_changes_while_it_is_explained_is_explained_as_it_is_then() -> None:
    world = World()
    world.add_queue("team", cpu=1)
    async with runtime(world):
        world.add_job("first", pods=2)
        await asyncio.sleep(SOON)
        workload = world.workload("first")["metadata"]["name"]
    path, body = WORKLOADS.path(workload, NAMESPACE), msgspec.json.encode({"spec": {"priority": 10}})
    request = port.Request(method="PATCH", path=path, body=body, content_type=port.MERGE_PATCH)
    api = Changing(world.cluster.client(), lambda: port.required(world.cluster.server.handle(request, RUNTIME.user)))
    now = virtual_time.clock().now()
    lines = await explain.lines(api, "workload", objects.Key(NAMESPACE, workload), now=now)
    assert "  position     1 of 1" in lines


@simulated
async def test_jobs_that_are_not_queued_are_explained_too() -> None:
    world = World()
    async with runtime(world):
        world.add_job("free", queue=None)
        world.add_job("lost", queue="nowhere")
        await asyncio.sleep(SOON)
        assert "it has no label sluice.dev/queue-name" in await explained(world, "job", "free")
        text = await explained(world, "job", "lost")
        assert "LocalQueue nowhere (missing)" in text
        assert "LocalQueue nowhere does not exist" in text
        assert not world.all(LOCAL_QUEUES)
        with pytest.raises(port.NotFoundError, match="there is no Job or RayCluster default/gone"):
            await explained(world, "job", "gone")
        with pytest.raises(port.NotFoundError, match="there is no Workload default/gone"):
            await explained(world, "workload", "gone")
        pod = {"metadata": {"name": "alone", "namespace": NAMESPACE}}
        gates = [{"name": "sluice.dev/admission"}]
        spec = {"containers": [{"name": "main", "image": "main:1"}], "schedulingGates": gates}
        world.cluster.create(kinds.PODS, {**pod, "spec": spec})
        assert "so nobody opens its gate" in await explained(world, "pod", "alone")
