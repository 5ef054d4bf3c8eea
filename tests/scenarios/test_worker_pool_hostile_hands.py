"""Worker pools in careless hands: what is changed all the time, and what goes wrong beside what goes well."""

import asyncio
import random
from typing import Any

import pytest
from structlog import testing

from autoscaler.api import keys
from autoscaler.kube import kinds, port
from autoscaler.simulation.kubelet import Run
from autoscaler.workers import worker_pods
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.test_worker_pool_hostility import Between, Next
from tests.scenarios.worker_world import POOLS, Body, World, runtime

pytestmark = pytest.mark.simulated
SLOW_SECONDS = 45.0


class SlowWorld(World):
    """A world in which workers start slowly, and take no job before they run."""

    def _work(self, pod: Body) -> Run:
        del pod
        return Run(start_seconds=SLOW_SECONDS, run_seconds=self.job_seconds)


def running(world: World) -> int:
    return sum(pod["status"].get("phase") == "Running" for pod in world.pods())


@simulated
async def test_a_pool_that_is_changed_faster_than_its_queue_answers_follows_it_all_the_same() -> None:
    world = World(job_seconds=7200)
    world.line.length, world.line.seconds = 3, 1.5
    world.add(poolCapacity=10)
    async with runtime(world):
        for second in range(60):
            world.change(poolCapacity=10 + second % 2)
            await asyncio.sleep(1)
        assert running(world) >= 3
        assert world.status()["queueSize"] == world.line.length == 0


@simulated
async def test_workers_get_time_to_start_although_their_template_changes_all_the_time() -> None:
    world = SlowWorld(job_seconds=7200)
    world.line.length = 3
    world.add(poolCapacity=3)
    async with runtime(world):
        for turn in range(60):
            annotations = {"deployed-at": str(turn)}
            world.patch(kinds.DEPLOYMENTS, "worker", {"spec": {"template": {"metadata": {"annotations": annotations}}}})
            await asyncio.sleep(10)
        assert running(world) == 3
        assert world.made["pool"] <= 9


@simulated
async def test_a_bad_template_is_held_back_although_workers_of_the_one_before_do_well() -> None:
    world = World(job_seconds=7200)
    world.line.length = 1
    world.add(poolCapacity=100, queue__interval="00:00:01")
    async with runtime(world):
        await asyncio.sleep(120)
        assert running(world) == 1
        world.exit_code = 1
        containers = [{"name": "worker", "image": "worker:2"}]
        world.patch(kinds.DEPLOYMENTS, "worker", {"spec": {"template": {"spec": {"containers": containers}}}})
        world.line.length = 99
        await asyncio.sleep(600)
        assert world.made["pool"] <= 1000  # 10,000 without a pause
        world.exit_code = 0
        await asyncio.sleep(310)
        assert running(world) > 1


@pytest.mark.parametrize("turns", [121, 129, 137])
def test_a_shutdown_is_told_although_the_pool_was_full_and_had_room_by_turns(turns: int) -> None:
    @simulated
    async def test() -> None:
        world = World(job_seconds=7200)
        world.line.length = 5
        world.add(poolCapacity=2, queue__interval="00:00:01")
        async with runtime(world):
            await asyncio.sleep(60)
            for turn in range(turns):
                world.line.length = 0 if turn % 2 else 10 + turn
                await asyncio.sleep(1)
            world.change(status="Shutdown")
            await asyncio.sleep(120)
            (event,) = world.events()["Shutdown"]
            assert event["count"] == 1

    test()


@simulated
async def test_two_operators_do_not_fight_over_a_pool_whose_new_one_may_not_say_so() -> None:
    writes: list[str] = []

    async def refuse(request: port.Request, send: Next) -> port.Response:
        if request.path.endswith("/workerpools/pool/status"):
            return port.Response(status=403, body=b'{"reason":"Forbidden","message":"no right"}')
        return await listen(request, send)

    async def listen(request: port.Request, send: Next) -> port.Response:
        if request.method == "PATCH" and request.path.endswith("/workerpools/pool"):
            writes.append(request.path)
        return await send(request)

    world = World(job_seconds=7200)
    world.line.length = 2
    world.add()
    old = runtime(world, wrap=lambda api: Between(api, listen))
    new = runtime(world, "other", class_name="b", pod="b", wrap=lambda api: Between(api, refuse))
    async with old, new:
        await asyncio.sleep(30)
        writes.clear()
        world.change(workerPoolClassName="b")
        await asyncio.sleep(600)
        assert len(writes) == 2  # one lets go, the other holds
        assert world.pool()["metadata"]["finalizers"] == [keys.FINALIZER]
        world.change(workerPoolClassName=None)
        await asyncio.sleep(60)
        world.delete(POOLS, "pool")
        await asyncio.sleep(60)
        assert not world.has_pool()
        assert world.pods() == []


@simulated
async def test_workers_that_are_gone_are_forgotten_although_their_removal_was_refused() -> None:
    pods = list[worker_pods.WorkerPods]()

    class Kept(worker_pods.WorkerPods):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            pods.append(self)

    async def refuse(request: port.Request, send: Next) -> port.Response:
        if request.method == "DELETE" and "/pods/" in request.path:
            return port.Response(status=403, body=b'{"reason":"Forbidden","message":"no right"}')
        return await send(request)

    world = World(job_seconds=10)
    world.add(poolCapacity=5, workerSpec__idleTimeoutMinutes=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker_pods, "WorkerPods", Kept)
        async with runtime(world, wrap=lambda api: Between(api, refuse)):
            for _ in range(20):
                world.line.length = 2
                await asyncio.sleep(120)
                for pod in world.pods():
                    world.patch(kinds.PODS, pod["metadata"]["name"], {"metadata": {"finalizers": None}})
                    world.delete(kinds.PODS, pod["metadata"]["name"])
            await asyncio.sleep(5)
            assert world.made["pool"] >= 20
            (workers,) = pods
            assert len(workers._refused) <= 2


@simulated
async def test_workers_that_change_while_they_are_let_go_keep_a_deleted_pool_for_seconds_and_not_for_an_hour() -> None:
    chance = random.Random(1)  # noqa: S311  # the same each time

    async def overtake(request: port.Request, send: Next) -> port.Response:
        if request.method == "PATCH" and "/pods/" in request.path and chance.random() < 0.2:
            return port.Response(status=409, body=b'{"reason":"Conflict","message":"changed"}')
        return await send(request)

    world = World(job_seconds=7200)
    world.line.length = 300
    world.add(poolCapacity=300)
    async with runtime(world, wrap=lambda api: Between(api, overtake)):
        await asyncio.sleep(60)
        assert len(world.pods()) == 300
        world.delete(POOLS, "pool")
        await asyncio.sleep(60)
        assert not world.has_pool()


@simulated
async def test_workers_that_could_not_be_let_go_do_not_hang_when_their_pool_is_torn_away() -> None:
    is_open: list[bool] = []

    async def refuse(request: port.Request, send: Next) -> port.Response:
        if request.method == "PATCH" and "/pods/" in request.path and not is_open:
            return port.Response(status=403, body=b'{"reason":"Forbidden","message":"no right"}')
        return await send(request)

    world = World(job_seconds=7200)
    world.line.length = 3
    world.add()
    async with runtime(world, wrap=lambda api: Between(api, refuse)):
        await asyncio.sleep(30)
        world.delete(POOLS, "pool")
        await asyncio.sleep(100)
        world.patch(POOLS, "pool", {"metadata": {"finalizers": None}})
        await asyncio.sleep(30)
        assert (world.has_pool(), len(world.pods())) == (False, 3)
        is_open.append(True)
        await asyncio.sleep(310)
        assert world.pods() == []


@simulated
async def test_workers_of_another_operator_do_not_hang_when_their_pool_is_torn_away() -> None:
    world = World(job_seconds=7200)
    world.line.length = 3
    world.add(workerPoolClassName="b")
    async with runtime(world):
        async with runtime(world, "other", class_name="b", pod="b"):
            await asyncio.sleep(30)
        for pod in world.pods():
            world.delete(kinds.PODS, pod["metadata"]["name"])
        await asyncio.sleep(5)
        world.patch(POOLS, "pool", {"metadata": {"finalizers": None}})
        world.delete(POOLS, "pool")
        await asyncio.sleep(60)
        assert world.pods() == []


@simulated
async def test_a_pool_whose_status_cannot_even_be_put_together_does_not_stop_the_others() -> None:
    world = World(job_seconds=7200)
    world.add("strange", poolCapacity=1, queue__source__endpoint="https://strange/")
    world.lines["https://strange/"].length = 2**40  # more than a status can hold
    world.add()
    with testing.capture_logs():  # tracebacks take long to write
        await _watch_both(world)


async def _watch_both(world: World) -> None:
    async with runtime(world):
        await asyncio.sleep(30)
        for _ in range(2):
            world.line.asked_at.clear()
            world.line.length = 1
            await asyncio.sleep(60)
            assert 5 <= len(world.line.asked_at) <= 7  # on schedule: nobody began anew
        assert len(world.pods()) == 2
        assert world.made["strange"] == 1
        assert "InternalError" not in world.condition("Ready")["reason"]
        assert any("FailedToReconcile" in reason for reason in world.events("strange"))
