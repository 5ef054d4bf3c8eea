"""Worker pools when something goes wrong: queues, templates, the API server, the runtime itself."""

import asyncio
import base64
from typing import Any

import pytest

from autoscaler.api import keys
from autoscaler.kube import kinds, port
from autoscaler.queues import port as queues
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cluster import faults
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.worker_world import NAMESPACE, POOLS, Mortal, World, deployment, runtime, smallest_gap

DOWN = queues.QueueError(queues.Reason.UNREACHABLE, "GET https://web-server/ got no answer")


@pytest.mark.accept("W19")
@simulated
async def test_a_queue_that_cannot_be_read_is_not_an_empty_queue() -> None:
    world = World(job_seconds=7200)
    world.line.length = 3
    world.add()
    async with runtime(world):
        await asyncio.sleep(2.5)
        assert world.status()["queueSize"] == 3
        world.line.error = DOWN
        world.line.asked_at.clear()
        await asyncio.sleep(3600)
        assert (len(world.pods()), world.status()["queueSize"]) == (3, 3)
        ready = world.condition("Ready")
        assert (ready["status"], ready["reason"], ready["message"]) == ("False", "Unreachable", DOWN.message)
        (event,) = world.events()["FailedToReconcile"]
        assert event["count"] > 5
        assert len(world.line.asked_at) < 25  # 360 in peace
        world.line.error = None
        world.line.length = 2
        await asyncio.sleep(320)
        assert len(world.pods()) == 5
        assert world.condition("Ready")["status"] == "True"


@pytest.mark.accept("W19")
@simulated
async def test_correcting_a_pool_ends_its_backoff_at_once() -> None:
    world = World()
    world.line.error = DOWN
    world.lines["https://other/"].length = 2
    world.add()
    async with runtime(world):
        await asyncio.sleep(3600)
        world.change(queue__source__endpoint="https://other/")
        await asyncio.sleep(1)
        assert len(world.pods()) == 2


@pytest.mark.accept("W19")
@simulated
async def test_bad_pools_do_not_slow_the_others() -> None:
    world = World(job_seconds=7200)
    slow, broken, well = (world.lines[f"https://{name}/"] for name in ("slow", "broken", "well"))
    slow.seconds, broken.error = 10_000.0, DOWN
    for number in range(50):
        world.add(f"slow-{number}", queue__interval="00:00:01", queue__source__endpoint="https://slow/")
        world.add(f"broken-{number}", queue__interval="00:00:01", queue__source__endpoint="https://broken/")
    world.add("well", queue__interval="00:00:01", queue__source__endpoint="https://well/")
    async with runtime(world):
        await asyncio.sleep(120)
        assert len(well.asked_at) >= 119
        assert smallest_gap(well.asked_at[1:]) > 0.99
        assert max(after - before for before, after in zip(well.asked_at, well.asked_at[1:], strict=False)) < 1.2
        assert world.condition("Ready", "slow-7")["reason"] == "Timeout"


@pytest.mark.accept("W9")
@simulated
async def test_a_template_that_cannot_be_used_is_told_before_a_job_comes_and_mended_without_a_restart() -> None:
    world = World(job_seconds=7200)
    world.add("wrong", workerSpec__podTemplate__containerName="nobody")
    world.add("absent", workerSpec__podTemplate__source__name="later")
    async with runtime(world):
        await asyncio.sleep(15)
        wrong, absent = world.condition("Ready", "wrong"), world.condition("Ready", "absent")
        assert (wrong["reason"], absent["reason"]) == ("BadTemplate", "BadTemplate")
        assert "no container nobody; it has worker" in wrong["message"]
        assert "Deployment later" in absent["message"]
        assert "FailedToReconcile" in world.events("wrong")
        world.change("wrong", workerSpec__podTemplate__containerName="worker")
        world.cluster.create(kinds.DEPLOYMENTS, deployment("later"))
        world.line.length = 1
        await asyncio.sleep(30)
        assert [world.condition("Ready", name)["status"] for name in ("wrong", "absent")] == ["True", "True"]
        assert world.made["wrong"] + world.made["absent"] >= 1


@pytest.mark.accept("W7")
@simulated
async def test_the_key_comes_from_the_secret_and_a_missing_one_is_told() -> None:
    world = World()
    world.add(queue__source__secretName="key")
    async with runtime(world):
        await asyncio.sleep(15)
        assert world.condition("Ready")["reason"] == "MissingSecret"
        assert "create it with key ApiKey" in world.events()["FailedToReconcile"][0]["message"]
        assert world.line.asked_at == []
        world.cluster.create(kinds.SECRETS, secret(b"hunter1"))
        await asyncio.sleep(60)
        assert world.line.secrets[-1] == {"ApiKey": b"hunter1"}
        world.patch(kinds.SECRETS, "key", secret(b"hunter2"))
        await asyncio.sleep(60)
        assert world.line.secrets[-1] == {"ApiKey": b"hunter2"}
        assert not [each for each in world.everything() if "hunter" in str(each) and each["kind"] != "Secret"]


@simulated
async def test_workers_that_may_not_be_made_are_told_with_the_numbers_and_tried_again() -> None:
    world = World(job_seconds=7200)
    world.line.length = 10
    world.add()
    post = faults.Matching(method="POST", path="/pods")
    world.cluster.faults.add(faults.Answer(code=403), post, times=3)
    async with runtime(world):
        await asyncio.sleep(2)
        assert world.condition("Ready")["reason"] == "CreationFailed"
        assert "created 0 of 10 workers: 403" in world.condition("Ready")["message"]
        await asyncio.sleep(60)
        assert world.made["pool"] == 10
        assert world.condition("Ready")["status"] == "True"


@pytest.mark.accept("W17", part="FailedCleanup")
@simulated
async def test_a_pool_whose_workers_cannot_be_removed_says_so_and_stays_until_they_can() -> None:
    world = World(job_seconds=7200)
    world.line.length = 3
    world.add()
    async with runtime(world):
        await asyncio.sleep(15)
        world.cluster.faults.add(faults.Answer(code=403), faults.Matching(method="DELETE", path="/pods"), times=None)
        world.delete(POOLS, "pool")
        await asyncio.sleep(60)
        assert world.has_pool()
        assert "3 of 3 workers could not be removed" in world.events()["FailedCleanup"][0]["message"]
        world.cluster.faults.clear()
        await asyncio.sleep(70)
        assert not world.has_pool()
        assert world.pods() == []


@pytest.mark.accept("W18")
@pytest.mark.parametrize("lag", [0.0, 5.0, 45.0])
def test_a_watch_that_lags_never_makes_a_worker_twice(lag: float) -> None:
    async def act() -> None:
        world = World(job_seconds=7200)
        world.cluster.faults.watch_lag_seconds = lag
        world.add(poolCapacity=20, queue__interval="00:00:01")
        async with runtime(world):
            await asyncio.sleep(lag + 60)
            world.line.length = 12
            await asyncio.sleep(lag + 60)
            assert world.made["pool"] == 12

    virtual_time.run(act())


@pytest.mark.accept("W18")
@simulated
async def test_a_worker_whose_creation_was_not_answered_is_counted_and_not_made_again() -> None:
    world = World(job_seconds=7200)
    world.cluster.faults.watch_lag_seconds = 40.0
    world.add(poolCapacity=20, queue__interval="00:00:05")
    async with runtime(world):
        await asyncio.sleep(120)
        lost = faults.Matching(method="POST", path="/pods")
        world.cluster.faults.add(faults.LoseAnswer(), lost, times=200)
        world.line.length = 12
        await asyncio.sleep(30)
        world.cluster.faults.clear()
        await asyncio.sleep(600)
        assert world.most["pool"] <= 20
        assert world.made["pool"] == 12


@simulated
async def test_a_pool_with_a_strange_fault_in_it_does_not_stop_the_others() -> None:
    world = World()
    world.line.error = RuntimeError("a bug")  # type: ignore[assignment]
    world.lines["https://well/"].length = 2
    world.add("bad")
    world.add("well", queue__source__endpoint="https://well/")
    async with runtime(world):
        await asyncio.sleep(60)
        assert world.made["well"] == 2
        assert world.condition("Ready", "bad")["reason"] == "InternalError"
        world.line.error = None
        await asyncio.sleep(120)
        assert world.condition("Ready", "bad")["status"] == "True"


@pytest.mark.accept("R9")
@simulated
async def test_who_observes_asks_the_queue_and_writes_nothing() -> None:
    world = World()
    world.line.length = 3
    world.add()
    async with runtime(world, observe=True) as running:
        await asyncio.sleep(60)
        assert len(world.line.asked_at) >= 6
        assert b"sluice_worker_pool_queue_size" in running.metrics.render()
    assert (world.pods(), world.status(), world.events()) == ([], {}, {})
    assert "finalizers" not in world.pool()["metadata"]


@pytest.mark.accept("R9")
@simulated
async def test_the_pause_annotation_stops_polls_and_workers_within_seconds() -> None:
    world = World(job_seconds=7200)
    world.add(queue__interval="00:00:01")
    async with runtime(world):
        await asyncio.sleep(30)
        world.patch(kinds.NAMESPACES, NAMESPACE, {"metadata": {"annotations": {keys.PAUSED: "true"}}})
        world.line.length = 5
        await asyncio.sleep(2)
        asked = len(world.line.asked_at)
        await asyncio.sleep(60)
        assert (world.made["pool"], len(world.line.asked_at)) == (0, asked)
        world.patch(kinds.NAMESPACES, NAMESPACE, {"metadata": {"annotations": {keys.PAUSED: None}}})
        await asyncio.sleep(5)
        assert world.made["pool"] == 5


@simulated
async def test_a_leader_that_is_cut_off_is_replaced_and_nothing_is_made_twice() -> None:
    world = World(job_seconds=7200)
    world.line.length = 8
    world.add(poolCapacity=20, queue__interval="00:00:02")
    async with runtime(world, pod="a"), runtime(world, pod="b"):
        await asyncio.sleep(30)
        for leader in ("a", "b", "a", "b"):
            world.cluster.faults.partition(leader)
            world.line.length = 3
            await asyncio.sleep(60)
            world.cluster.faults.clear()
            await asyncio.sleep(60)
    assert world.most["pool"] <= 20
    assert world.made["pool"] == 8 + 4 * 3


@pytest.mark.accept("R1", part="worker pools, killed before and after each write, in simulation")
def test_a_kill_at_any_write_ends_as_if_nobody_had_been_killed() -> None:
    """One scenario, killed just before and just after each of its writes; a second replica takes over."""
    want, writes = _story(at=0, after=False)
    assert writes > 40
    for at in range(1, writes + 1):
        for after in (False, True):
            assert _story(at=at, after=after)[0] == want, f"killed {'after' if after else 'before'} write {at}"


def _story(*, at: int, after: bool) -> tuple[dict[str, Any], int]:
    """Scale up, fail, clean up, shut one pool down and delete another; return the end and how much was written."""

    async def act() -> tuple[dict[str, Any], int]:
        world = World(job_seconds=7200)
        mortals: list[Mortal] = []

        def wrap(api: port.Api) -> port.Api:
            mortals.append(Mortal(api, at=at, after=after))
            return mortals[-1]

        for name in ("grows", "shuts", "goes"):
            world.add(name, poolCapacity=6, queue__interval="00:00:02", queue__source__endpoint=f"https://{name}/")
            world.lines[f"https://{name}/"].length = 3
        async with runtime(world, pod="a", wrap=wrap), runtime(world, pod="b"):
            await asyncio.sleep(60)
            world.lines["https://grows/"].length = 9
            world.change("shuts", status="Shutdown")
            world.delete(POOLS, "goes")
            await asyncio.sleep(90)
        return _end(world), mortals[0].writes

    return virtual_time.run(act())


def _end(world: World) -> dict[str, Any]:
    pools = {name: world.status(name) for name in ("grows", "shuts")}
    numbers = ("runningWorkers", "pendingWorkers", "failedWorkers", "currentCapacity", "managedBy", "queueSize")
    return {
        "status": {name: {key: status[key] for key in numbers} for name, status in pools.items()},
        "pods": {name: len(world.pods(name)) for name in ("grows", "shuts", "goes")},
        "made": dict(world.made),
        "over": [name for name, most in world.most.items() if most > 6],
        "gone": not world.has_pool("goes"),
    }


def secret(value: bytes) -> dict[str, Any]:
    metadata = {"name": "key", "namespace": NAMESPACE}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "data": {"ApiKey": base64.b64encode(value).decode()},
    }


@pytest.mark.accept("R9", part="numbers of pools while paused")
@simulated
async def test_numbers_of_pools_are_shown_while_the_runtime_is_paused_also_after_a_restart() -> None:
    world = World(job_seconds=7200)
    world.line.length = 3
    world.add()
    world.add("other", workerPoolClassName="another")
    async with runtime(world):
        await asyncio.sleep(60)
        world.patch(kinds.NAMESPACES, NAMESPACE, {"metadata": {"annotations": {keys.PAUSED: "true"}}})
        await asyncio.sleep(60)
    async with runtime(world, pod="b") as running:
        await asyncio.sleep(60)
        told = running.metrics.render().decode()
    assert 'sluice_worker_pool_workers{phase="Running",pool="pool",pool_namespace="default"} 3.0' in told
    assert 'sluice_worker_pool_queue_size{pool="pool",pool_namespace="default"} 0.0' in told
    assert 'pool="other"' not in told
