"""What the runtime remembers of jobs from one cycle to the next, and when it forgets it."""

import asyncio

import pytest

from autoscaler.kube import kinds
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.admission_world import World, runtime

pytestmark = pytest.mark.accept("E20", part="suspended and resumed by hand: only hands are told")


@simulated
async def test_a_job_that_is_admitted_again_is_not_taken_for_one_that_was_suspended_by_hand() -> None:
    world = World()
    world.add_queue(cpu=2)
    async with runtime(world):
        world.add_job(pods=2, completions=None)
        await asyncio.sleep(10)
        assert world.running() == 2
        assert "Resumed" not in world.events("job")
        world.deactivate("job")
        await asyncio.sleep(10)
        assert world.running() == 0
        world.deactivate("job", active=True)
        await asyncio.sleep(20)
        assert world.running() == 2
        assert "Resumed" not in world.events("job")


@simulated
async def test_a_job_that_is_resumed_by_hand_at_the_moment_of_its_admission_is_not_said_to_have_been_suspended() -> (
    None
):
    world = World()
    world.add_queue(cpu=1)
    async with runtime(world):
        world.add_job(pods=2, completions=None)
        await asyncio.sleep(10)
        world.patch(kinds.JOBS, "job", {"spec": {"suspend": False}})
        world.set_quota(standard=2)
        await asyncio.sleep(20)
        assert world.running() == 2
        assert "Suspended" in world.events("job")
        assert "Resumed" not in world.events("job")
