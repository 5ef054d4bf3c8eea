"""Queues, cohorts, priorities and preemption, played in virtual time.

That quota is kept, and borrowing limits are, is seen at every change (`admission_audit`).
"""

import asyncio
import contextlib
from collections import Counter

import pytest

from autoscaler.kube import kinds, port
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cluster.store import Change
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.admission_world import CLUSTER_QUEUES, WORKLOADS, Body, World, runtime
from tests.scenarios.worker_world import Doomed

pytestmark = pytest.mark.simulated
PREEMPTS = {"withinClusterQueue": "LowerPriority"}
RECLAIMS = {"reclaimWithinCohort": "Any"}


def ranked() -> World:
    """A world with priorities low and high."""
    world = World()
    world.add_priority("low", -10)
    world.add_priority("high", 10)
    return world


# Order


@pytest.mark.accept("E11", part="StrictFIFO")
@simulated
async def test_the_head_of_a_strict_queue_blocks_those_behind_it() -> None:
    world = World()
    world.add_queue(cpu=3, queueingStrategy="StrictFIFO")
    async with runtime(world):
        await _fill(world)
        assert (world.running("large"), world.running("small")) == (0, 0)
        world.delete(kinds.JOBS, "job")
        await asyncio.sleep(10)
        assert (world.running("large"), world.running("small")) == (3, 0)


@pytest.mark.accept("E11", part="BestEffortFIFO")
@simulated
async def test_small_ones_pass_the_head_of_a_best_effort_queue() -> None:
    world = World()
    world.add_queue(cpu=3, queueingStrategy="BestEffortFIFO")
    async with runtime(world):
        await _fill(world)
        assert (world.running("large"), world.running("small")) == (0, 1)


@simulated
async def test_jobs_that_come_together_wait_for_no_other_to_be_written() -> None:
    world = World(latency_seconds=0.1)
    world.add_queue(cpu=0)
    async with runtime(world):
        await asyncio.sleep(10)
        for number in range(64):
            world.add_job(f"job-{number}")
        await asyncio.sleep(1)
        assert len(world.all(WORKLOADS)) == 64


async def _fill(world: World) -> None:
    """Two of three cpus are used; one job wants three, and a younger one wants one."""
    for name, pods in (("job", 2), ("large", 3), ("small", 1)):
        world.add_job(name, pods=pods, completions=None)
        await asyncio.sleep(10)


@pytest.mark.accept("E11", part="growth in a strict queue")
@simulated
async def test_growth_that_does_not_fit_blocks_nobody_and_growth_behind_a_head_waits() -> None:
    world = World()
    world.add_queue(cpu=4, queueingStrategy="StrictFIFO")
    async with runtime(world):
        world.add_job(pods=3, completions=None)
        await asyncio.sleep(10)
        world.resize("job", 6)  # one of them is admitted
        await asyncio.sleep(10)
        assert world.granted() == 4
        world.set_quota(standard=5)
        await asyncio.sleep(10)
        assert world.granted() == 5
        world.add_job("head", pods=3)
        await asyncio.sleep(10)
        world.set_quota(standard=8)
        await asyncio.sleep(10)
        assert (world.running("head"), world.granted()) == (3, 5)  # Workloads come before slices


@pytest.mark.accept("E11", part="priority")
@simulated
async def test_those_of_higher_priority_come_first() -> None:
    world = ranked()
    world.add_queue(cpu=2)
    async with runtime(world):
        world.add_job("first", pods=2, completions=None)
        await asyncio.sleep(5)
        for name in ("low", "high"):
            world.add_job(name, pods=2, completions=None, priority=name)
            await asyncio.sleep(5)
        world.delete(kinds.JOBS, "first")
        await asyncio.sleep(10)
        assert (world.running("high"), world.running("low")) == (2, 0)


# Cohorts


@pytest.mark.accept("E11", part="cohorts and borrowingLimit")
@simulated
async def test_queues_of_a_cohort_borrow_up_to_their_limit() -> None:
    world = ranked()
    world.add_queue("one", cpu=2, cohort="all", borrowing_limit=1)
    world.add_queue("two", cpu=4, cohort="all")
    async with runtime(world):
        world.add_job(pods=1, queue="one", completions=None)
        await asyncio.sleep(10)
        world.resize("job", 9)
        await asyncio.sleep(10)
        assert (world.running(), world.used("one")) == (3, 3)
        world.add_job("other", pods=4, queue="two", completions=None, priority="high")
        await asyncio.sleep(10)
        assert world.running("other") == 0  # what is lent is not taken back: nobody said so
        world.resize("job", 2)
        await asyncio.sleep(10)
        assert (world.running("other"), world.used("one"), world.used("two")) == (4, 2, 4)


# Stopping a queue


@pytest.mark.accept("E11", part="stopPolicy Hold")
@simulated
async def test_a_queue_that_is_held_admits_nobody_and_what_runs_goes_on() -> None:
    world = World()
    world.add_queue(cpu=4)
    async with runtime(world):
        world.add_job(pods=2, completions=None)
        await asyncio.sleep(10)
        world.patch(CLUSTER_QUEUES, "team", {"spec": {"stopPolicy": "Hold"}})
        world.add_job("next", pods=1)
        world.resize("job", 3)
        await asyncio.sleep(20)
        assert (world.running(), world.running("next"), world.suspended["job"]) == (2, 0, 0)
        world.resize("job", 1)
        await asyncio.sleep(10)
        assert world.running() == 1
        world.patch(CLUSTER_QUEUES, "team", {"spec": {"stopPolicy": "None"}})
        await asyncio.sleep(10)
        assert world.running("next") == 1


@pytest.mark.accept("E11", part="stopPolicy HoldAndDrain")
@simulated
async def test_a_queue_that_is_drained_gives_everything_back_and_later_takes_it_again() -> None:
    world = World()
    world.add_queue(cpu=4)
    async with runtime(world):
        world.add_job(pods=2, completions=None)
        await asyncio.sleep(10)
        world.resize("job", 6)
        await asyncio.sleep(10)
        assert world.running() == 4
        world.patch(CLUSTER_QUEUES, "team", {"spec": {"stopPolicy": "HoldAndDrain"}})
        await asyncio.sleep(30)
        assert (world.pods(), world.used(), world.slices(), world.suspended["job"]) == ([], 0, [], 1)
        world.patch(CLUSTER_QUEUES, "team", {"spec": {"stopPolicy": "None"}})
        await asyncio.sleep(20)
        assert (world.running(), world.used(), len(world.slices())) == (4, 4, 2)


# Preemption


@pytest.mark.accept("E10", part="by priority, whole, and kept until the pods are gone")
@simulated
async def test_a_grown_job_gives_way_whole_and_comes_back_with_what_it_had_first() -> None:
    world = ranked()
    world.stop_seconds = 15.0
    world.add_queue(cpu=4, preemption=PREEMPTS)
    async with runtime(world):
        world.add_job("low", pods=1, completions=None, priority="low")
        await asyncio.sleep(10)
        world.resize("low", 5)
        await asyncio.sleep(10)
        assert (world.running("low"), len(world.slices("low"))) == (4, 1)
        world.add_job("high", pods=2, completions=None, priority="high")
        await asyncio.sleep(8)
        assert world.job("low")["spec"]["suspend"]
        assert world.running("high") == 0
        assert world.used() == 4  # its pods still end
        assert world.slices("low") == []
        await asyncio.sleep(20)
        assert world.running("high") == 2
        assert (world.running("low"), world.granted("low"), len(world.slices("low"))) == (2, 2, 3)
        assert world.workload("low")["status"]["firstAdmitted"] == [{"name": "main", "count": 1}]
        assert world.suspended["low"] == 1
        await asyncio.sleep(300)
        assert (world.suspended["low"], world.suspended["high"]) == (1, 0)
        world.delete(kinds.JOBS, "high")
        await asyncio.sleep(40)
        assert world.running("low") == 4


@pytest.mark.accept("E10", part="nobody is evicted in vain")
@simulated
async def test_nobody_is_evicted_for_one_who_would_not_fit_all_the_same() -> None:
    world = ranked()
    world.add_queue(cpu=4, preemption=PREEMPTS)
    async with runtime(world):
        world.add_job("even", pods=2, completions=None, priority="high")
        world.add_job("low", pods=2, completions=None, priority="low")
        await asyncio.sleep(10)
        world.add_job("high", pods=3, completions=None, priority="high")
        await asyncio.sleep(60)
        assert (world.running("even"), world.running("low"), world.running("high")) == (2, 2, 0)
        assert world.suspended.total() == 0
        world.add_job("modest", pods=2, completions=None, priority="high")
        await asyncio.sleep(30)
        assert (world.running("low"), world.running("modest"), world.suspended["even"]) == (0, 2, 0)


@pytest.mark.accept("E10", part="nobody is evicted in vain beside pods that outlived their job")
@simulated
async def test_nobody_is_evicted_for_quota_that_pods_without_a_job_keep() -> None:
    world = ranked()
    world.add_queue(cpu=4, preemption=PREEMPTS)
    async with runtime(world):
        world.add_job("gone", pods=2, completions=None, priority="low")
        world.add_job("low", pods=2, completions=None, priority="low")
        await asyncio.sleep(10)
        orphans = world.pods("gone")
        world.delete(kinds.JOBS, "gone", policy="Orphan")
        await asyncio.sleep(10)
        world.add_job("high", pods=4, completions=None, priority="high")
        await asyncio.sleep(60)
        assert (world.running("low"), world.running("high"), world.suspended.total()) == (2, 0, 0)
        for pod in orphans:
            world.end(pod)
        await asyncio.sleep(30)
        assert (world.running("low"), world.running("high")) == (0, 4)


@pytest.mark.accept("E10", part="no more are evicted than needed")
@simulated
async def test_as_few_as_needed_are_evicted() -> None:
    world = ranked()
    world.add_queue(cpu=6, preemption=PREEMPTS)
    async with runtime(world):
        for number in range(3):
            world.add_job(f"low-{number}", pods=2, completions=None, priority="low")
            await asyncio.sleep(5)
        world.add_job("high", pods=2, completions=None, priority="high")
        await asyncio.sleep(30)
        assert world.running("high") == 2
        assert [world.suspended[f"low-{number}"] for number in range(3)] == [0, 0, 1]  # the youngest


@pytest.mark.accept("E10", part="growth displaces by its job's priority")
@simulated
async def test_growth_of_a_job_displaces_others_of_lower_priority_and_never_its_own() -> None:
    world = ranked()
    world.add_queue(cpu=4, preemption=PREEMPTS)
    async with runtime(world):
        world.add_job("high", pods=2, completions=None, priority="high")
        world.add_job("low", pods=2, completions=None, priority="low")
        await asyncio.sleep(10)
        world.resize("high", 6)
        await asyncio.sleep(60)
        assert (world.running("high"), world.running("low")) == (4, 0)
        assert (world.suspended["high"], world.suspended["low"]) == (0, 1)


@pytest.mark.accept("E10", part="reclaim of borrowed quota")
@simulated
async def test_a_queue_takes_back_what_it_lent() -> None:
    world = World()
    world.add_queue("lender", cpu=3, cohort="all", preemption=RECLAIMS)
    world.add_queue("borrower", cpu=1, cohort="all", preemption=RECLAIMS)
    async with runtime(world):
        world.add_job("borrows", pods=1, queue="borrower", completions=None)
        await asyncio.sleep(10)
        world.resize("borrows", 4)
        await asyncio.sleep(10)
        assert world.running("borrows") == 4
        world.add_job("own", pods=2, queue="lender", completions=None)
        await asyncio.sleep(30)
        assert (world.running("own"), world.running("borrows")) == (2, 2)  # one of its own, and one it may borrow still
        assert (world.suspended["borrows"], world.suspended["own"]) == (1, 0)
        await asyncio.sleep(600)
        assert (world.suspended["borrows"], world.suspended["own"]) == (1, 0)


@pytest.mark.accept("E10", part="only within nominal quota")
@simulated
async def test_who_would_borrow_itself_takes_nothing_back() -> None:
    world = World()
    world.add_queue("lender", cpu=2, cohort="all", preemption=RECLAIMS)
    world.add_queue("borrower", cpu=1, cohort="all")
    async with runtime(world):
        world.add_job("borrows", pods=3, queue="borrower", completions=None)
        await asyncio.sleep(10)
        world.add_job("own", pods=3, queue="lender", completions=None)
        await asyncio.sleep(60)
        assert (world.running("own"), world.running("borrows")) == (0, 3)


@pytest.mark.accept("E10", part="no ping-pong")
@simulated
async def test_equal_jobs_of_a_cohort_do_not_displace_each_other_for_ever() -> None:
    world = World()
    for name in ("one", "two", "three"):
        world.add_queue(name, cpu=2, cohort="all", preemption={**RECLAIMS, **PREEMPTS})
    async with runtime(world):
        for name in ("one", "two", "three"):
            for number in range(3):
                world.add_job(f"{name}-{number}", pods=2, queue=name, completions=None)
            await asyncio.sleep(5)
        await asyncio.sleep(60)
        before = Counter(world.suspended)
        await asyncio.sleep(3600)
        assert world.suspended == before
        assert [world.used(name) for name in ("one", "two", "three")] == [2, 2, 2]


@pytest.mark.accept("E10", part="the preemptor is gone")
@simulated
async def test_what_was_evicted_comes_back_when_the_one_it_made_room_for_is_gone() -> None:
    world = ranked()
    world.stop_seconds = 20.0
    world.add_queue(cpu=2, preemption=PREEMPTS)
    async with runtime(world):
        world.add_job("low", pods=2, completions=None, priority="low")
        await asyncio.sleep(10)
        world.add_job("high", pods=2, completions=None, priority="high")
        await asyncio.sleep(5)
        world.delete(kinds.JOBS, "high")
        await asyncio.sleep(40)
        assert (world.running("low"), world.suspended["low"]) == (2, 1)


@pytest.mark.accept("E10", part="nobody else takes what was made free")
@simulated
async def test_nobody_else_is_admitted_into_what_was_made_free_for_another() -> None:
    world = ranked()
    world.stop_seconds = 10.0
    world.add_queue(cpu=4, preemption=PREEMPTS)
    async with runtime(world):
        for number in range(2):
            world.add_job(f"low-{number}", pods=2, completions=None, priority="low")
            await asyncio.sleep(5)
        world.add_job("high", pods=4, completions=None, priority="high")
        await asyncio.sleep(3)
        world.add_job("small", pods=1, completions=None)
        running = _admissions(world)
        await asyncio.sleep(60)
        assert world.running("high") == 4
        assert running[:1] == ["high"]
        assert world.running("small") == 0


@pytest.mark.accept("E10", part="across leaders")
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_preemption_goes_on_under_the_next_leader_and_evicts_nobody_else(after: bool) -> None:  # noqa: FBT001
    writes = virtual_time.run(_preempt(at=0, after=after))
    assert 8 <= writes <= 40
    for at in range(1, writes + 1):
        virtual_time.run(_preempt(at=at, after=after))


async def _preempt(*, at: int, after: bool) -> int:
    """Two of three are displaced for one; the runtime is killed at one of its writes from then on."""
    world, made = ranked(), list[Doomed]()
    world.stop_seconds = 4.0
    world.add_queue(cpu=6, preemption=PREEMPTS)

    def wrap(api: port.Api) -> port.Api:
        made.append(Doomed(api, at=at, after=after))
        return made[-1]

    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(runtime(world, wrap=wrap))
        await asyncio.sleep(1)
        await stack.enter_async_context(runtime(world, pod="b"))
        for number in range(3):
            world.add_job(f"low-{number}", pods=2, completions=None, priority="low")
            await asyncio.sleep(4)
        made[0].is_doomed = True
        world.add_job("high", pods=4, completions=None, priority="high")
        await asyncio.sleep(90)
        assert [world.running(name) for name in ("low-0", "low-1", "low-2", "high")] == [2, 0, 0, 4], at
        assert [world.suspended[name] for name in ("low-0", "low-1", "low-2", "high")] == [0, 1, 1, 0], at
        assert "claim" not in world.workload("high")["status"]
    return made[0].writes


def _admissions(world: World) -> list[str]:
    """Return a list that gets the name of each job that is admitted from now on."""
    admitted: list[str] = []

    def is_admitted(body: Body | None) -> bool:
        return bool(((body or {}).get("status") or {}).get("admission"))

    def see(change: Change) -> None:
        before, after = (each.object if each else None for each in (change.before, change.after))
        if after is not None and is_admitted(after) and not is_admitted(before):
            admitted.append(after["metadata"]["ownerReferences"][0]["name"])

    world.cluster.server.store.collection(WORKLOADS).listeners.append(see)
    return admitted
