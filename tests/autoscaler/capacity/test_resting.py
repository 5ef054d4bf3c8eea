"""What failed is left for a moment, longer each time, and forgotten once it was done or long ago."""

import asyncio

from autoscaler.capacity import resting
from autoscaler.simulation import virtual_time
from tests.autoscaler.kube.cluster import simulated


@simulated
async def test_what_failed_is_left_for_longer_each_time_and_never_for_too_long() -> None:
    rests = resting.Resting(virtual_time.clock())
    for want in (4.0, 8.0, 16.0, 30.0, 30.0):
        rests.note("group", is_done=False)
        await asyncio.sleep(want - 0.5)
        assert rests.holds("group")
        await asyncio.sleep(0.5)
        assert not rests.holds("group")
    assert not rests.holds("another")


@simulated
async def test_what_was_done_begins_anew() -> None:
    rests = resting.Resting(virtual_time.clock())
    for is_done in (False, False, True):
        rests.note("group", is_done=is_done)
    assert not rests.holds("group")
    rests.note("group", is_done=False)
    await asyncio.sleep(resting.FIRST_SECONDS)
    assert not rests.holds("group")


@simulated
async def test_what_failed_long_ago_is_not_remembered() -> None:
    rests = resting.Resting(virtual_time.clock())
    for number in range(100):
        rests.note(f"pod-{number}", is_done=False)
    await asyncio.sleep(3 * resting.LONGEST_SECONDS)
    rests.note("pod-0", is_done=True)
    assert not rests._rests
