"""Worker pools among people who mean harm, and servers that behave as if they did."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Any

import pytest

from autoscaler.api import keys, version
from autoscaler.kube import kinds, port
from autoscaler.simulation import virtual_time
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.worker_world import NAMESPACE, POOLS, World, deployment, runtime

Next = Callable[[port.Request], Awaitable[port.Response]]


class Between:
    """A connection with somebody in between."""

    def __init__(self, api: port.Api, meddle: Callable[[port.Request, Next], Awaitable[port.Response]]) -> None:
        self._api = api
        self._meddle = meddle

    async def send(self, request: port.Request) -> port.Response:
        return await self._meddle(request, self._api.send)

    def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[Sequence[bytes], None]:
        return self._api.watch(path, query)


def makes_pod(request: port.Request) -> bool:
    return request.method == "POST" and request.path.endswith("/pods")


@simulated
async def test_a_wall_clock_that_is_set_back_stops_nothing() -> None:
    world = World(job_seconds=7200)
    world.add()
    async with runtime(world):
        await asyncio.sleep(60)
        virtual_time.clock()._start -= 3600
        world.line.asked_at.clear()
        world.line.length = 5
        await asyncio.sleep(600)
        assert len(world.line.asked_at) >= 59
        assert len(world.pods()) == 5


@pytest.mark.accept("W5", "W8")
@pytest.mark.parametrize(
    "told",
    [{"status": "Shutdown"}, {"status": "Paused"}, {"poolCapacity": 0}, {"workerPoolClassName": "other"}, None],
    ids=str,
)
def test_a_pool_that_is_stopped_while_it_grows_stops_growing(told: dict[str, Any] | None) -> None:
    @simulated
    async def test() -> None:
        world = World(job_seconds=7200, latency_seconds=0.05)
        world.line.length = 2000
        world.add(poolCapacity=2000)
        async with runtime(world):
            await asyncio.sleep(3)
            made = world.made["pool"]
            assert 100 < made < 1500
            if told is None:
                world.delete(POOLS, "pool")
            else:
                world.change(**told)
            await asyncio.sleep(30)
            assert world.made["pool"] <= made + 16  # those that were under way

    test()


@simulated
async def test_a_pool_that_changes_hands_while_it_grows_never_outgrows_its_capacity() -> None:
    world = World(job_seconds=7200, latency_seconds=0.05)
    world.line.length = 500
    world.add(poolCapacity=500)
    async with runtime(world), runtime(world, "other", class_name="b", pod="b"):
        await asyncio.sleep(1.2)
        for name in ("b", None, "b", None, "b"):
            world.change(workerPoolClassName=name)
            await asyncio.sleep(0.7)
        await asyncio.sleep(120)
        assert world.most["pool"] == 500
        assert world.status()["managedBy"] == "other"


@pytest.mark.accept("W18")
@simulated
async def test_a_pause_while_creations_are_slow_makes_nobody_twice() -> None:
    async def slowly(request: port.Request, send: Next) -> port.Response:
        if makes_pod(request):
            await asyncio.sleep(8)
        return await send(request)

    world = World(job_seconds=7200)
    world.line.length = 10
    world.add(poolCapacity=10)
    async with runtime(world, wrap=lambda api: Between(api, slowly)):
        await asyncio.sleep(2.5)
        world.patch(kinds.NAMESPACES, NAMESPACE, {"metadata": {"annotations": {keys.PAUSED: "true"}}})
        await asyncio.sleep(2)
        world.patch(kinds.NAMESPACES, NAMESPACE, {"metadata": {"annotations": {keys.PAUSED: None}}})
        await asyncio.sleep(120)
        assert (world.most["pool"], world.made["pool"]) == (10, 10)


@simulated
async def test_pods_of_strangers_that_name_our_pool_are_not_its_workers() -> None:
    world = World(job_seconds=7200)
    world.line.length = 1
    world.add(poolCapacity=3)
    world.cluster.create(kinds.NAMESPACES, {"metadata": {"name": "evil"}})
    async with runtime(world, everywhere=True):
        await asyncio.sleep(30)
        (worker,) = world.pods()
        for name in (worker["metadata"]["name"], "one", "two"):
            world.cluster.create(kinds.PODS, _claiming(name, world.pool()["metadata"]["uid"], version.GROUP_VERSION))
        world.cluster.create(
            kinds.PODS, _claiming("fake", world.pool()["metadata"]["uid"], "nobody.example/v1", namespace=NAMESPACE)
        )
        await asyncio.sleep(60)
        (still,) = world.pods()
        assert (still["metadata"]["uid"], still["metadata"].get("deletionTimestamp")) == (
            worker["metadata"]["uid"],
            None,
        )
        assert (world.status()["workers"], world.status()["currentCapacity"]) == (1, 2)
        world.delete(POOLS, "pool")
        await asyncio.sleep(60)
        assert not world.has_pool()


@simulated
async def test_an_owner_whose_name_is_a_path_is_never_asked_for_and_its_pod_is_let_go() -> None:
    asked: list[str] = []

    async def listen(request: port.Request, send: Next) -> port.Response:
        asked.append(request.path)
        return await send(request)

    world = World()
    async with runtime(world, wrap=lambda api: Between(api, listen)):
        await asyncio.sleep(5)
        pod = _claiming("trap", "0" * 8, version.GROUP_VERSION, namespace=NAMESPACE)
        pod["metadata"]["ownerReferences"][0]["name"] = "../../../../../api/v1/secrets?limit=100"
        world.cluster.create(kinds.PODS, pod)
        await asyncio.sleep(60)
        assert not any("secrets" in path for path in asked)
        assert not any(pod["metadata"]["name"] == "trap" for pod in world.everything() if pod["kind"] == "Pod")


@simulated
async def test_a_worker_that_lost_its_owner_does_not_hang() -> None:
    world = World(job_seconds=7200)
    world.line.length = 2
    world.add()
    async with runtime(world):
        await asyncio.sleep(30)
        name = world.pods()[0]["metadata"]["name"]
        world.patch(kinds.PODS, name, {"metadata": {"ownerReferences": None}})
        world.delete(kinds.PODS, name)
        await asyncio.sleep(60)
        assert name not in {pod["metadata"]["name"] for pod in world.pods()}


@pytest.mark.parametrize("path", ["/pods", "/deployments/"])
def test_one_failed_call_does_not_lose_what_the_queue_said(path: str) -> None:
    failed: list[str] = []

    async def fail_once(request: port.Request, send: Next) -> port.Response:
        is_meant = path in request.path and (path != "/pods" or "labelSelector" in request.query)
        if request.method == "GET" and is_meant and not failed:
            failed.append(request.path)
            return port.Response(status=503, body=b'{"reason":"ServiceUnavailable","message":"no leader"}')
        return await send(request)

    @simulated
    async def test() -> None:
        world = World(job_seconds=7200)
        world.line.length = 7
        world.add(queue__interval="12:00:00")
        async with runtime(world, wrap=lambda api: Between(api, fail_once)):
            await asyncio.sleep(60)
            assert failed
            assert len(world.pods()) == 7
            assert world.condition("Ready")["status"] == "True"

    test()


@pytest.mark.accept("W19")
@pytest.mark.accept("W17", part="FailedToReconcile is counted, not repeated")
@simulated
async def test_refused_workers_are_tried_less_and_less_often_and_told_in_the_same_words() -> None:
    refused: list[str] = []
    is_open: list[bool] = []

    async def refuse(request: port.Request, send: Next) -> port.Response:
        if makes_pod(request) and not is_open:
            name = json.loads(request.body or b"")["metadata"]["name"]
            refused.append(name)
            message = f'pods "{name}" is forbidden: exceeded quota'
            return port.Response(status=403, body=json.dumps({"reason": "Forbidden", "message": message}).encode())
        return await send(request)

    world = World(job_seconds=7200)
    world.line.length = 50
    world.add(poolCapacity=50, queue__interval="00:00:01")
    async with runtime(world, wrap=lambda api: Between(api, refuse)):
        await asyncio.sleep(600)
        assert len(refused) < 16 + 10
        (event,) = world.events()["FailedToReconcile"]
        assert event["message"] == "created 0 of 50 workers: 403 Forbidden: pods is forbidden: exceeded quota"
        is_open.append(True)
        world.line.length = 0
        await asyncio.sleep(310)
        assert world.condition("Ready")["status"] == "True"
        world.line.length = 20
        await asyncio.sleep(310)
        assert len(world.pods()) == 20


@simulated
async def test_workers_that_all_fail_at_once_are_made_less_and_less_often() -> None:
    world = World(job_seconds=7200)
    world.exit_code = 1
    world.line.length = 100
    world.add(poolCapacity=100, queue__interval="00:00:01")
    async with runtime(world):
        await asyncio.sleep(1800)
        assert world.made["pool"] <= 1200  # 36,000 without a pause
        (event,) = [each for each in world.events()["FailedWorker"] if each["count"] > 1]
        assert event["message"] == "100 workers failed"
        world.exit_code = 0
        await asyncio.sleep(600)
        assert world.status()["runningWorkers"] > 0


@simulated
async def test_a_template_that_came_back_is_noticed_although_nobody_waits() -> None:
    world = World(job_seconds=7200)
    world.add()
    async with runtime(world):
        await asyncio.sleep(20)
        world.delete(kinds.DEPLOYMENTS, "worker")
        world.line.length = 1
        await asyncio.sleep(20)
        assert world.condition("Ready")["reason"] == "BadTemplate"
        world.cluster.create(kinds.DEPLOYMENTS, deployment("worker"))
        world.line.length = 0
        await asyncio.sleep(30)
        assert world.condition("Ready")["status"] == "True"


@simulated
async def test_a_server_error_that_was_answered_holds_no_places() -> None:
    is_up: list[bool] = []

    async def broken(request: port.Request, send: Next) -> port.Response:
        if makes_pod(request) and not is_up:
            return port.Response(status=500, body=b'{"reason":"InternalError","message":"failed calling webhook"}')
        return await send(request)

    world = World(job_seconds=7200)
    world.line.length = 40
    world.add(poolCapacity=50)
    async with runtime(world, wrap=lambda api: Between(api, broken)):
        await asyncio.sleep(60)
        assert world.status()["pendingWorkers"] == 0
        is_up.append(True)
        await asyncio.sleep(60)
        assert len(world.pods()) == 40


@pytest.mark.parametrize("amount", ["1e300", "1e18", "9223372036854775807E", "1e-300"])
def test_amounts_beyond_all_reason_are_counted_like_any_other_worker(amount: str) -> None:
    @simulated
    async def test() -> None:
        world = World(job_seconds=7200)
        world.line.length = 2
        world.add(poolCapacity=2)
        container = {"name": "worker", "image": "w", "resources": {"requests": {"cpu": amount}}}
        world.patch(kinds.DEPLOYMENTS, "worker", {"spec": {"template": {"spec": {"containers": [container]}}}})
        async with runtime(world):
            await asyncio.sleep(120)
            assert world.made["pool"] == 2
            world.delete(POOLS, "pool")
            await asyncio.sleep(30)
            assert world.pods() == []

    test()


def _claiming(name: str, uid: str, api_version: str, *, namespace: str = "evil") -> dict[str, Any]:
    """A pod that says it is a worker of a pool, has our finalizer, and goes as soon as its owner is missed."""
    owner = {"apiVersion": api_version, "kind": "WorkerPool", "name": "pool", "uid": uid, "controller": True}
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "finalizers": [keys.FINALIZER],
            "ownerReferences": [owner],
        },
        "spec": {"containers": [{"name": "worker", "image": "x"}], "schedulerName": "nobody"},
    }
