"""A runtime that is killed at every single write of a job's life, and one that was away: the end is always the same.

What was used is recomputed at every change, and no slice is ever counted twice (`admission_audit`).
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import pytest

from autoscaler.kube import kinds, port
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cluster import faults
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.admission_world import WORKLOADS, World, runtime
from tests.scenarios.worker_world import Doomed, Forgetful

pytestmark = pytest.mark.simulated
TAKEOVER_SECONDS: Final = 25.0
"""A Lease of 15 seconds ends, and another leader waits until what was under way has ended, too."""
SETTLED_SECONDS: Final = 8.0


# Killed at every write


@dataclass(frozen=True, kw_only=True)
class Story:
    """What was before, and what happens then, at every write of which the runtime is killed once."""

    before: Callable[[World], Awaitable[None]]
    then: Callable[[World], None]
    want: object
    """Used in the end, and of each job: running, gated, granted and slices."""


async def nothing(world: World) -> None:
    del world


async def two_pods(world: World) -> None:
    world.add_job(pods=2, completions=None)
    await asyncio.sleep(SETTLED_SECONDS)


async def full(world: World) -> None:
    """A job uses all there is, and another one waits."""
    world.add_job(pods=5, completions=None)
    await asyncio.sleep(SETTLED_SECONDS)
    world.add_job("next", pods=3, completions=None)
    await asyncio.sleep(SETTLED_SECONDS)


async def grown_in_part(world: World) -> None:
    """A job has grown to all there is and wants more, and another one waits."""
    world.stop_seconds = 3.0
    await two_pods(world)
    world.resize("job", 6)
    await asyncio.sleep(SETTLED_SECONDS)
    world.add_job("next", pods=3, completions=None)
    await asyncio.sleep(SETTLED_SECONDS)


def run_to_the_end(world: World) -> None:
    """Four pods, three at a time."""
    world.job_seconds = 5.0
    world.add_job(pods=3, completions=4)


STORIES: Final[dict[str, Story]] = {
    "grow": Story(before=two_pods, then=lambda world: world.resize("job", 6), want=(5, {"job": (5, 1, 5, 1)})),
    "shrink": Story(
        before=full, then=lambda world: world.resize("job", 2), want=(5, {"job": (2, 0, 2, 0), "next": (3, 0, 3, 0)})
    ),
    "evict": Story(
        before=grown_in_part,
        then=lambda world: world.deactivate("job"),
        want=(3, {"job": (0, 0, 0, 0), "next": (3, 0, 3, 0)}),
    ),
    "delete": Story(
        before=grown_in_part, then=lambda world: world.delete(kinds.JOBS, "job"), want=(3, {"next": (3, 0, 3, 0)})
    ),
    "finish": Story(before=nothing, then=run_to_the_end, want=(0, {"job": (0, 0, 0, 0)})),
}


@pytest.mark.accept("E8", part="killed before and after every write, in virtual time")
@pytest.mark.accept("E15", part="killed before and after every write, in virtual time")
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("story", STORIES)
def test_a_runtime_that_is_killed_at_any_write_ends_where_an_unharmed_one_does(story: str, after: bool) -> None:  # noqa: FBT001
    want, writes = virtual_time.run(_play(STORIES[story], Doomed))
    assert 7 <= writes <= 40
    for at in range(1, writes + 1):
        found, _ = virtual_time.run(_play(STORIES[story], Doomed, at=at, after=after))
        assert found == want, f"killed {'after' if after else 'before'} write {at} of {writes}"


@pytest.mark.accept("E8", part="answers that are lost")
@pytest.mark.parametrize("story", STORIES)
def test_the_answer_to_any_write_may_be_lost(story: str) -> None:
    want, writes = virtual_time.run(_play(STORIES[story], Forgetful))
    for at in range(1, writes + 1):
        found, _ = virtual_time.run(_play(STORIES[story], Forgetful, at=at))
        assert found == want, f"the answer to write {at} of {writes} was lost"


@pytest.mark.accept("E8", part="caches that lag")
@pytest.mark.parametrize("story", STORIES)
def test_watches_may_lag_behind(story: str) -> None:
    want, _ = virtual_time.run(_play(STORIES[story], Doomed))
    found, _ = virtual_time.run(_play(STORIES[story], Doomed, lag_seconds=3.0))
    assert found == want


class Heard:
    """A connection that knows what was done by it, and sees what is asked for once more, word by word."""

    def __init__(self, api: port.Api) -> None:
        self.again: list[tuple[str, bytes | None]] = []
        self._done: set[tuple[str, bytes | None]] = set()
        self._api = api
        self.watch = api.watch

    async def send(self, request: port.Request) -> port.Response:
        asked, answer = (request.path, request.body), await self._api.send(request)
        if request.method == "PATCH" and "/leases/" not in request.path:
            self.again += [asked] if asked in self._done else []
            self._done |= {asked} if answer.status < 300 else set()
        return answer


@pytest.mark.accept("E8", part="caches that lag")
@simulated
async def test_what_was_written_is_known_before_any_watch_tells_of_it() -> None:
    world, made = World(), list[Heard]()
    world.cluster.faults.watch_lag_seconds = 3.0

    def heard(api: port.Api) -> port.Api:
        made.append(Heard(api))
        return made[-1]

    async with runtime(world, wrap=heard):
        world.add_queue(cpu=3)
        await grown_in_part(world)
        world.delete(kinds.JOBS, "job")
        await asyncio.sleep(60)
        assert world.running("next") == 3
    assert made[0].again == []


async def _play(
    story: Story, kind: type[Doomed], *, at: int = 0, after: bool = False, lag_seconds: float = 0.0
) -> tuple[object, int]:
    world, made = World(), list[Doomed]()
    world.add_queue(cpu=5)
    world.cluster.faults.watch_lag_seconds = lag_seconds

    def doomed(api: port.Api) -> port.Api:
        made.append(kind(api, at=at, after=after))
        return made[-1]

    async with runtime(world, wrap=doomed):
        await asyncio.sleep(1)
        async with runtime(world, pod="b"):
            await story.before(world)
            made[0].is_doomed = True
            story.then(world)
            await asyncio.sleep(TAKEOVER_SECONDS + 60)
    assert (world.used(), {name: _numbers(world, name) for name in _jobs(world)}) == story.want
    return _end(world), made[0].writes


def _end(world: World) -> object:
    """Return all else that matters of where a world has come to."""
    return {
        name: (
            world.job(name)["spec"]["suspend"],
            world.suspended[name],
            world.holds("Finished", name),
            world.holds("ResizeRequested", name),
            world.workload(name).get("status", {}).keys(),
        )
        for name in _jobs(world)
    }


def _numbers(world: World, job: str) -> tuple[int, int, int, int]:
    return world.running(job), world.gated(job), world.granted(job), len(world.slices(job))


def _jobs(world: World) -> list[str]:
    return [each["metadata"]["name"] for each in world.all(kinds.JOBS)]


# Away


@pytest.mark.accept("E7", part="while the runtime is down")
@pytest.mark.accept("E15", part="the runtime was down when the job was made")
@simulated
async def test_jobs_that_are_made_while_the_runtime_is_down_wait_and_then_come_in_order() -> None:
    world = World()
    world.add_queue(cpu=2)
    for number in range(3):
        world.add_job(f"job-{number}", pods=2 if number == 0 else 1, completions=None)
        await asyncio.sleep(2)
    assert world.all(kinds.PODS) == []
    assert all(each["spec"]["suspend"] for each in world.all(kinds.JOBS))
    async with runtime(world):
        await asyncio.sleep(10)
        assert [world.running(f"job-{number}") for number in range(3)] == [2, 0, 0]
        world.delete(kinds.JOBS, "job-0")
        await asyncio.sleep(10)
        assert [world.running(f"job-{number}") for number in (1, 2)] == [1, 1]


@pytest.mark.accept("E15", part="the runtime was down when the job changed")
@simulated
async def test_what_happens_to_jobs_while_the_runtime_is_down_is_made_good_when_it_is_back() -> None:
    world = World()
    world.add_queue(cpu=6)
    for name in ("grown", "shrunk", "deleted"):
        world.add_job(name, pods=2, completions=None, backoffLimit=100)
    async with runtime(world):
        await asyncio.sleep(10)
        assert world.used() == 6
    world.resize("grown", 4)
    world.resize("shrunk", 1)
    world.delete(kinds.PODS, world.pods("grown")[0]["metadata"]["name"])
    world.delete(kinds.JOBS, "deleted")
    world.add_job("new", pods=2, completions=None)
    await asyncio.sleep(60)
    assert (world.running("grown"), world.gated("grown")) == (1, 3)  # nobody opens gates
    assert world.find_workload("deleted") is not None
    assert world.used() == 6
    async with runtime(world, pod="b"):
        await asyncio.sleep(TAKEOVER_SECONDS)
        assert world.find_workload("deleted") is None
        assert (world.running("shrunk"), world.running("new")) == (1, 2)
        assert (world.running("grown"), world.gated("grown")) == (3, 1)
        assert world.used() == 6


@pytest.mark.accept("E8", part="a new leader whose watches lag")
@simulated
async def test_a_new_leader_counts_what_the_old_one_admitted_last_though_no_watch_has_told_it() -> None:
    world, made = World(), list[Doomed]()
    world.add_priority("high", 10)
    world.add_queue(cpu=4)
    world.never_ready |= {"job", "better"}

    def doomed(api: port.Api) -> port.Api:
        made.append(Doomed(api, at=1, after=True))
        return made[-1]

    async with runtime(world, wrap=doomed, timeout_minutes=1):
        world.add_job(pods=2)
        await asyncio.sleep(15)
        world.add_job("better", pods=2, priority="high")
        await asyncio.sleep(75)
        assert world.used() == 0  # both did not start, and rest: the better one 15 seconds longer
        world.never_ready.clear()
        world.set_quota(standard=2)
        world.cluster.faults.watch_lag_seconds = 60.0
        async with runtime(world, pod="b", timeout_minutes=1):
            await asyncio.sleep(25)
            made[0].is_doomed = True
            await asyncio.sleep(10)
            assert (made[0].writes, world.granted("job")) == (1, 2)  # which the other replica does not know
            await asyncio.sleep(30)
            assert (world.granted("job"), world.granted("better")) == (2, 0)


@pytest.mark.accept("E15", part="the Lease was lost in the middle")
@simulated
async def test_what_was_not_done_because_the_lease_was_lost_is_done_when_it_is_back() -> None:
    world = World()
    world.add_queue(cpu=200)
    async with runtime(world):
        await asyncio.sleep(10)
        world.cluster.faults.add(
            faults.Delay(seconds=4.0), faults.Matching(method="POST", path="/workloads"), times=None
        )
        world.cluster.faults.add(faults.Refuse(), faults.Matching(path="/leases"), times=None)
        for number in range(200):
            world.add_job(f"job-{number}", pods=1)
        await asyncio.sleep(40)
        assert 0 < len(world.all(WORKLOADS)) < 200
        world.cluster.faults.clear()
        await asyncio.sleep(60)
        assert world.used() == 200


# The integration tests that the proposal names


@contextlib.asynccontextmanager
async def grown(cpu: int, size: int) -> AsyncGenerator[World, None]:
    """A job of two pods that was resized."""
    world = World()
    world.add_flavor("spot", nodeLabels={"kubernetes.io/hostname": "node"})
    world.add_queue(cpu={"spot": cpu})
    world.add_job(pods=2, completions=None)
    async with runtime(world):
        await asyncio.sleep(10)
        world.resize("job", size)
        await asyncio.sleep(10)
        yield world


@pytest.mark.accept("E3", part="Jobs: slices are Workloads of the parent")
@pytest.mark.accept("E7", part="Jobs that grow")
@simulated
async def test_a_job_has_a_scale_up_slices_are_made_and_pods_are_gated() -> None:
    async with grown(cpu=2, size=4) as world:
        parent = world.workload()
        assert [each["metadata"]["name"] for each in world.slices()] == [
            f"{parent['metadata']['name']}-main-{ordinal}" for ordinal in (0, 1)
        ]
        assert all(each["spec"]["podSets"][0]["count"] == 1 for each in world.slices())
        assert (world.running(), world.gated()) == (2, 2)


@pytest.mark.accept("E7", part="Jobs that grow")
@pytest.mark.accept("E9", part="Jobs")
@simulated
async def test_a_job_has_a_scale_up_and_its_pods_are_opened_with_the_flavor_of_the_parent() -> None:
    async with grown(cpu=4, size=4) as world:
        assert (world.running(), world.gated()) == (4, 0)
        assert {each["metadata"]["annotations"]["sluice.dev/flavors"] for each in world.pods()} == {"cpu=spot"}
        assert all(each["spec"]["nodeSelector"] == {"kubernetes.io/hostname": "node"} for each in world.pods())


@pytest.mark.accept("E8", part="Jobs")
@simulated
async def test_slices_are_folded_and_deleted() -> None:
    async with grown(cpu=4, size=4) as world:
        assert world.slices() == []
        assert world.granted() == 4
        assert "foldedSlices" not in world.workload()["status"]
        assert world.audit is not None
        assert sum(world.audit.folded.values()) == 2


@pytest.mark.accept("E5", part="Jobs")
@simulated
async def test_a_job_has_a_scale_down_and_the_spec_reflects_it() -> None:
    async with grown(cpu=4, size=1) as world:
        assert (world.wanted(), world.granted(), world.running()) == (1, 1, 1)


@pytest.mark.accept("E10", part="a resized job goes whole")
@simulated
async def test_a_resized_job_is_taken_whole_when_it_is_evicted() -> None:
    async with grown(cpu=4, size=6) as world:
        assert (world.running(), len(world.slices())) == (4, 2)
        world.deactivate("job")
        await asyncio.sleep(10)
        assert (world.pods(), world.slices(), world.used()) == ([], [], 0)
        world.deactivate("job", active=True)
        await asyncio.sleep(10)
        assert (world.running(), len(world.slices()), world.used()) == (4, 2, 4)  # two first, and two by slices
