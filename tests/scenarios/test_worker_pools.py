"""Worker pools in virtual time: a queue becomes pods, and pods nothing again, whatever the pool is told meanwhile."""

import asyncio

import pytest

from autoscaler.kube import kinds
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.worker_world import POOLS, World, runtime, smallest_gap


@pytest.mark.accept("W10")
@pytest.mark.accept("W17", part="Adopted and CreatedWorkers; the source is the identity")
@simulated
async def test_a_queue_becomes_workers_and_the_status_tells_of_it() -> None:
    world = World()
    world.line.length = 3
    world.add()
    async with runtime(world, "prod-us"):
        await asyncio.sleep(2)
        assert world.status()["pendingWorkers"] == 3
        await asyncio.sleep(30)
        want = {
            "currentCapacity": 27,
            "failedWorkers": 0,
            "managedBy": "prod-us",
            "pendingWorkers": 0,
            "queueEndpoint": world.pool()["spec"]["queue"]["source"]["endpoint"],
            "queueSize": 0,
            "runningWorkers": 3,
        }
        assert {key: world.status()[key] for key in want} == want
        assert world.events().keys() == {"Adopted", "CreatedWorkers"}
        (created,) = world.events()["CreatedWorkers"]
        assert (created["message"], created["source"]["component"]) == ("created 3 workers", "prod-us")


@pytest.mark.accept("W14")
@simulated
async def test_workers_that_ended_are_removed_at_the_next_poll() -> None:
    world = World(job_seconds=5.0)
    world.line.length = 3
    world.add(workerSpec__idleTimeoutMinutes=1)
    async with runtime(world):
        await asyncio.sleep(60)
        assert len(world.pods()) == 3
        await asyncio.sleep(25)
        assert world.pods() == []
        assert world.events()["CleanUp"][0]["message"].startswith("removed ")
        assert world.status()["currentCapacity"] == 30


@pytest.mark.accept("W14", "W12")
@simulated
async def test_failed_workers_are_removed_unless_retained_and_then_they_take_places() -> None:
    world = World()
    world.exit_code = 1
    world.line.length = 2
    world.add("kept", poolCapacity=5, workerSpec__retainFailedWorkers=True)
    world.add("cleared", poolCapacity=5)
    async with runtime(world):
        await asyncio.sleep(60)
        assert world.status("kept")["failedWorkers"] == 5
        assert world.status("kept")["currentCapacity"] == 0
        assert world.made["kept"] == 5
        assert world.made["cleared"] > 5
        assert world.most["cleared"] <= 5
        assert sum(event["count"] for event in world.events("kept")["FailedWorker"]) <= 5


@pytest.mark.accept("W11")
@simulated
async def test_polls_keep_their_phase_and_a_change_of_the_pool_is_acted_on_at_once_beside_it() -> None:
    world = World()
    world.add()
    async with runtime(world):
        await asyncio.sleep(95)
        before = list(world.line.asked_at)
        world.change(poolCapacity=7)
        await asyncio.sleep(0.5)
        (extra,) = world.line.asked_at[len(before) :]
        assert extra - 95 < 0.2
        assert world.status()["currentCapacity"] == 7
        await asyncio.sleep(100)
    async with runtime(world, pod="b"):
        await asyncio.sleep(50)
    in_rhythm = [at for at in world.line.asked_at if abs((at - before[1] + 5) % 10 - 5) < 0.01]
    assert len(world.line.asked_at) - len(in_rhythm) == 3  # but for the change, and the first poll of each replica
    assert len(in_rhythm) >= 23
    assert smallest_gap(in_rhythm) > 9.99


@pytest.mark.accept("W5")
@simulated
async def test_a_pool_whose_capacity_is_cut_is_full_and_kills_nobody() -> None:
    world = World(job_seconds=3600)
    world.line.length = 20
    world.add(poolCapacity=20)
    async with runtime(world):
        await asyncio.sleep(30)
        world.line.length = 8
        world.change(poolCapacity=5)
        await asyncio.sleep(120)
        assert len(world.pods()) == 20
        assert (world.status()["currentCapacity"], world.made["pool"]) == (0, 20)
        assert world.condition("AtCapacity")["status"] == "True"
        (event,) = world.events()["CapacityReached"]
        assert event["message"] == "the pool may have 5 workers, and 8 jobs have no worker"
        world.change(poolCapacity=0)
        await asyncio.sleep(30)
        assert len(world.pods()) == 20


@pytest.mark.accept("W8")
@simulated
async def test_a_paused_pool_reads_its_queue_and_makes_nobody_and_goes_on_when_it_is_active_again() -> None:
    world = World(job_seconds=3600)
    world.line.length = 2
    world.add()
    async with runtime(world):
        await asyncio.sleep(30)
        world.change(status="Paused")
        world.line.length = 9
        await asyncio.sleep(60)
        assert (len(world.pods()), world.status()["queueSize"]) == (2, 9)
        assert world.condition("Active")["reason"] == "Paused"
        (event,) = world.events()["Paused"]
        assert event["count"] == 1
        world.change(status="Active")
        await asyncio.sleep(2)
        assert len(world.pods()) == 11


@pytest.mark.accept("W8")
@pytest.mark.accept("W20", part="Shutdown")
@simulated
async def test_a_pool_that_is_shut_down_asks_nothing_and_loses_its_workers() -> None:
    world = World(job_seconds=3600)
    world.line.length = 4
    world.add(workerSpec__retainFailedWorkers=True)
    async with runtime(world):
        await asyncio.sleep(30)
        world.line.length = 9
        world.change(status="Shutdown")
        await asyncio.sleep(5)
        assert world.pods() == []
        asked = len(world.line.asked_at)
        await asyncio.sleep(300)
        assert len(world.line.asked_at) == asked
        assert [event["count"] for event in world.events()["Shutdown"]] == [1]
        assert world.status()["runningWorkers"] == 0
    async with runtime(world, pod="b"):
        await asyncio.sleep(60)
        assert [event["count"] for event in world.events()["Shutdown"]] == [1]
        world.change(status="Active")
        await asyncio.sleep(2)
        assert len(world.pods()) == 9


@pytest.mark.accept("W20", part="deletion")
@simulated
async def test_a_deleted_pool_takes_its_workers_with_it() -> None:
    world = World(job_seconds=3600)
    world.line.length = 4
    world.add()
    async with runtime(world) as running:
        await asyncio.sleep(30)
        assert b'pool="pool"' in running.metrics.render()
        world.delete(POOLS, "pool")
        await asyncio.sleep(5)
        assert not world.has_pool()
        assert world.pods() == []
        assert b'pool="pool"' not in running.metrics.render()
        asked = len(world.line.asked_at)
        await asyncio.sleep(60)
        assert len(world.line.asked_at) == asked


@pytest.mark.accept("W20", part="what was asked for while nobody was there")
@pytest.mark.parametrize("wanted", ["deleted", "shut down"])
def test_what_a_pool_was_told_while_nobody_was_there_is_done_when_somebody_is(wanted: str) -> None:
    @simulated
    async def test() -> None:
        world = World(job_seconds=3600)
        world.line.length = 4
        world.add()
        async with runtime(world):
            await asyncio.sleep(30)
        if wanted == "deleted":
            world.delete(POOLS, "pool")
        else:
            world.change(status="Shutdown")
        await asyncio.sleep(3600)
        assert len(world.pods()) == 4
        async with runtime(world, pod="b"):
            await asyncio.sleep(30)
            assert world.pods() == []
            assert world.has_pool() == (wanted == "shut down")

    test()


@pytest.mark.accept("W20", part="a pool whose finalizer was taken off by hand")
@simulated
async def test_workers_of_a_pool_that_was_torn_away_do_not_hang() -> None:
    world = World(job_seconds=3600)
    world.line.length = 4
    world.add()
    async with runtime(world):
        await asyncio.sleep(30)
    world.patch(POOLS, "pool", {"metadata": {"finalizers": None}})
    world.delete(POOLS, "pool")
    await asyncio.sleep(60)
    assert not world.has_pool()
    assert len(world.pods()) == 4  # the garbage collector has asked for their deletion, and they wait for us
    async with runtime(world, pod="b"):
        await asyncio.sleep(30)
        assert world.pods() == []


@simulated
async def test_a_pool_made_anew_under_its_old_name_begins_anew() -> None:
    world = World(job_seconds=3600)
    world.line.length = 4
    world.add()
    async with runtime(world):
        await asyncio.sleep(30)
        world.delete(POOLS, "pool")
        await asyncio.sleep(0.5)
        if not world.has_pool():
            world.line.length = 2
            world.add()
        await asyncio.sleep(30)
        assert len(world.pods()) == 2
        uid = world.pool()["metadata"]["uid"]
        assert {pod["metadata"]["ownerReferences"][0]["uid"] for pod in world.pods()} == {uid}


@pytest.mark.accept("W13")
@simulated
async def test_a_day_with_bursts() -> None:
    """Every hour a burst of 40 jobs of ten minutes, in a pool of 25: all done, never a worker too many."""
    world = World(job_seconds=600)
    world.add(poolCapacity=25, queue__interval="00:00:30")
    jobs = 0
    async with runtime(world):
        for _hour in range(24):
            world.line.length += 40
            jobs += 40
            await asyncio.sleep(3600)
        assert world.line.length == 0
    assert world.most["pool"] <= 25
    assert world.made["pool"] == jobs
    assert len(world.pods()) == 0


@simulated
async def test_a_worker_that_somebody_deletes_goes_and_the_pool_goes_on() -> None:
    world = World(job_seconds=3600)
    world.line.length = 3
    world.add()
    async with runtime(world):
        await asyncio.sleep(30)
        world.delete(kinds.PODS, world.pods()[0]["metadata"]["name"])
        await asyncio.sleep(3)
        assert len(world.pods()) == 2
        assert world.status()["runningWorkers"] == 2


@pytest.mark.accept("W15", part="the template at creation time; editing the source leaves running workers alone")
@simulated
async def test_workers_follow_the_template_as_it_is_when_they_are_made() -> None:
    world = World(job_seconds=3600)
    world.line.length = 1
    world.add()
    async with runtime(world):
        await asyncio.sleep(15)
        world.patch(
            kinds.DEPLOYMENTS,
            "worker",
            {"spec": {"template": {"spec": {"containers": [{"name": "worker", "image": "worker:2"}]}}}},
        )
        world.line.length = 1
        await asyncio.sleep(15)
        images = sorted(pod["spec"]["containers"][0]["image"] for pod in world.pods())
        assert images == ["worker:1", "worker:2"]


@pytest.mark.accept("W4")
@simulated
async def test_each_operator_handles_its_class_and_no_other() -> None:
    world = World(job_seconds=3600)
    for name, line in (("plain", None), ("blue", "blue"), ("red", "red")):
        changes = {} if line is None else {"workerPoolClassName": line}
        world.add(name, queue__source__endpoint=f"https://{name}/", **changes)
        world.lines[f"https://{name}/"].length = 2
    async with runtime(world, "default"), runtime(world, "blue", class_name="blue", pod="b"):
        await asyncio.sleep(30)
        assert [len(world.pods(name)) for name in ("plain", "blue", "red")] == [2, 2, 0]
        managers = [world.status(name).get("managedBy") for name in ("plain", "blue", "red")]
        assert managers == ["default", "blue", None]
        world.change("plain", workerPoolClassName="blue")
        await asyncio.sleep(5)
        assert world.status("plain")["managedBy"] == "blue"
        assert [event["message"] for event in world.events("plain")["Adopted"]] == [
            "adopted by default",
            "adopted by blue",
        ]


@pytest.mark.accept("W4")
@simulated
async def test_a_second_default_operator_says_so_instead_of_competing() -> None:
    world = World(job_seconds=3600)
    world.line.length = 2
    world.add()
    async with runtime(world, "first") as first, runtime(world, "second", pod="b") as second:
        await asyncio.sleep(60)
        assert (len(world.pods()), world.made["pool"]) == (2, 2)
        assert world.status()["managedBy"] == "first"
        assert b'sluice_rival_operator{holder="first_a_0",lease="sluice-workers"} 1.0' in second.metrics.render()
        assert b"sluice_rival_operator{" not in first.metrics.render()


@simulated
async def test_replicas_of_one_operator_are_no_rivals_and_one_takes_over() -> None:
    world = World(job_seconds=3600)
    world.add()
    async with runtime(world, pod="a") as first, runtime(world, pod="b") as second:
        await asyncio.sleep(60)
        for running in (first, second):
            assert b"sluice_rival_operator{" not in running.metrics.render()
    assert smallest_gap(world.line.asked_at[1:]) > 9.99  # one of them asks
