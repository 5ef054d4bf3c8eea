"""Pools that change hands, and pools that nobody handles: nothing hangs, and somebody says so."""

import asyncio

import pytest

from autoscaler.api import keys, names
from autoscaler.kube import kinds
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.test_worker_pool_leaving import Stack
from tests.scenarios.worker_world import POOLS, World, runtime

pytestmark = pytest.mark.simulated
THEIRS = "https://web-server/api/theirs"


def held(world: World, name: str = "pool") -> list[str]:
    there = [world.pool(name), *world.pods(name)]
    return [each["kind"] for each in there if keys.FINALIZER in each["metadata"].get("finalizers", ())]


@pytest.mark.accept("W20", part="a pool that goes to a class that nobody handles")
@simulated
async def test_a_pool_that_goes_to_a_class_nobody_handles_is_let_go_and_says_so() -> None:
    world = World(job_seconds=7200)
    world.line.length = 3
    world.add()
    async with runtime(world):
        await asyncio.sleep(30)
        assert sorted(held(world)) == ["Pod", "Pod", "Pod", "WorkerPool"]
        world.change(workerPoolClassName="gpu-wrokers")
        await asyncio.sleep(30)
        assert held(world) == []
        await asyncio.sleep(90)
        ready = world.condition("Ready")
        assert (ready["status"], ready["reason"]) == ("False", "NoOperator")
        assert "no operator of class gpu-wrokers is running for namespace default" in ready["message"]
        assert len(world.pods()) == 3  # nobody who works is killed
        version = world.pool()["metadata"]["resourceVersion"]
        await asyncio.sleep(3600)
        assert world.pool()["metadata"]["resourceVersion"] == version  # said once
        world.change(workerPoolClassName=None)
        await asyncio.sleep(30)
        assert world.condition("Ready")["status"] == "True"
        assert "WorkerPool" in held(world)


@pytest.mark.accept("W20", part="a pool whose operator is gone for good")
@simulated
async def test_a_pool_whose_operator_is_gone_for_good_can_be_deleted_with_its_workers() -> None:
    world = World(job_seconds=7200)
    world.line.length = 3
    world.add(workerPoolClassName="renamed")
    async with runtime(world, "old", class_name="renamed", pod="b"):
        await asyncio.sleep(30)
        assert sorted(held(world)) == ["Pod", "Pod", "Pod", "WorkerPool"]
    async with runtime(world, "new", class_name="another"):
        await asyncio.sleep(120)
        assert world.condition("Ready")["reason"] == "NoOperator"
        world.delete(kinds.PODS, world.pods()[0]["metadata"]["name"])
        await asyncio.sleep(30)
        assert len(world.pods()) == 2
        world.delete(POOLS, "pool")
        await asyncio.sleep(60)
        assert not world.has_pool()
        assert world.pods() == []


@pytest.mark.accept("W4")
@simulated
async def test_a_pool_whose_operator_lives_is_not_said_to_have_none() -> None:
    world = World(job_seconds=7200)
    world.lines[THEIRS].length = 2
    world.add("theirs", workerPoolClassName="theirs", queue__source__endpoint=THEIRS)
    async with runtime(world, "others", class_name="theirs", pod="b"), runtime(world):
        await asyncio.sleep(600)
        assert world.condition("Ready", "theirs")["status"] == "True"
        assert sorted(held(world, "theirs")) == ["Pod", "Pod", "WorkerPool"]
        assert world.status("theirs")["managedBy"] == "others"


@simulated
async def test_a_pool_that_goes_to_another_operator_keeps_its_workers_and_never_outgrows_its_capacity() -> None:
    world = World(job_seconds=7200)
    world.line.length = 4
    world.add(poolCapacity=4)
    async with runtime(world, "others", class_name="theirs", pod="b"), runtime(world):
        await asyncio.sleep(30)
        world.change(workerPoolClassName="theirs")
        await asyncio.sleep(120)
        assert world.status()["managedBy"] == "others"
        assert (world.made["pool"], world.most["pool"]) == (4, 4)
        assert "WorkerPool" in held(world)
        world.delete(POOLS, "pool")
        await asyncio.sleep(60)
        assert not world.has_pool()
        assert world.pods() == []


@pytest.mark.accept("W4", part="one operator that handles two classes keeps them apart")
@simulated
async def test_an_operator_of_two_classes_holds_the_pools_and_workers_of_both() -> None:
    world = World(job_seconds=7200)
    world.add("theirs", workerPoolClassName="theirs", queue__source__endpoint=THEIRS)
    world.add("pool")
    world.lines[THEIRS].length = world.line.length = 2
    want = ["Pod", "Pod", "WorkerPool"]
    for _ in range(2):  # also after a restart
        async with runtime(world, also=["theirs"]):
            await asyncio.sleep(120)
            assert (sorted(held(world)), sorted(held(world, "theirs"))) == (want, want)
            assert {world.condition("Ready", name)["status"] for name in ("pool", "theirs")} == {"True"}
    async with runtime(world, also=["theirs"]):
        world.change("pool", workerPoolClassName="theirs")
        await asyncio.sleep(60)
        assert sorted(held(world)) == want  # it stays with the same operator
        assert world.made["pool"] == 2


@pytest.mark.accept("S1", part="no class leaves before its own pools are let go")
@pytest.mark.parametrize("delay", [0.0, 0.75, 1.5, 2.75])
def test_each_class_holds_the_drain_object_until_its_own_pools_are_let_go(delay: float) -> None:
    @simulated
    async def play() -> None:
        world = Stack(job_seconds=7200)
        world.add("theirs", workerPoolClassName="theirs", queue__source__endpoint=THEIRS)
        world.add("pool")
        world.lines[THEIRS].length = world.line.length = 2
        world.add_drain_object()
        async with runtime(world, class_name="theirs", pod="b"):
            await asyncio.sleep(delay)
            async with runtime(world, pod="a"):
                await asyncio.sleep(60)
                drain = world.drain_object()
                assert drain is not None
                assert set(drain["metadata"]["finalizers"]) == {
                    keys.part_finalizer(names.worker_part(None)),
                    keys.part_finalizer(names.worker_part("theirs")),
                }
                world.leave()
                for _ in range(600):
                    await asyncio.sleep(0.05)
                    if world.drain_object() is None:
                        break
                assert world.drain_object() is None
                assert (world.held(), world.held("theirs")) == ([], [])

    play()


def test_a_class_name_of_any_length_makes_a_finalizer_of_its_own() -> None:
    parts = [names.worker_part(name) for name in (None, "a", "a" * 200, "a" * 201)]
    assert len(set(parts)) == 4
    assert all(len(keys.part_finalizer(part).partition("/")[2]) <= 63 for part in parts)
