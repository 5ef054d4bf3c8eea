"""What failed is left alone for longer each time, and forgotten once it was done or long ago."""

import asyncio
import random

from hypothesis import given
from hypothesis import strategies as st

from autoscaler import backoff
from autoscaler.simulation import virtual_time
from tests.autoscaler.kube.cluster import simulated

PAUSES = backoff.Backoff(first_seconds=4.0, longest_seconds=30.0)


def test_pauses_double_up_to_the_longest() -> None:
    assert [PAUSES.pause(failures) for failures in range(6)] == [0.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert PAUSES.pause(10**6) == 30.0


@given(st.integers(1, 10**9), st.integers())
def test_a_random_pause_is_between_half_and_all_of_the_plain_one(failures: int, seed: int) -> None:
    pause = PAUSES.pause(failures)
    assert pause / 2 <= PAUSES.jittered(failures, random.Random(seed)) <= pause  # noqa: S311


@simulated
async def test_a_step_that_failed_is_due_at_one_moment_and_begins_anew_when_it_succeeds() -> None:
    step = backoff.Retry(virtual_time.clock(), PAUSES)
    for want in (4.0, 8.0, 16.0, 30.0, 30.0):
        assert step.failed() == want
        assert step.next_at == asyncio.get_running_loop().time() + want
        was_due = []
        for pause in (want - 0.5, 0.5):
            await asyncio.sleep(pause)
            was_due.append(step.is_due)
        assert was_due == [False, True]
    step.succeeded()
    assert step.failed() == 4.0


@simulated
async def test_many_steps_are_kept_apart_by_name() -> None:
    steps = backoff.Retries(virtual_time.clock(), PAUSES)
    steps.note("group", is_done=False)
    assert steps.holds("group")
    assert not steps.holds("another")
    assert steps.next_at("another") is None
    await asyncio.sleep(4.0)
    assert not steps.holds("group")
    steps.note("group", is_done=False)
    await asyncio.sleep(7.0)
    assert steps.holds("group")
    steps.note("group", is_done=True)
    assert not steps.holds("group")


@simulated
async def test_what_failed_long_ago_is_not_remembered() -> None:
    steps = backoff.Retries(virtual_time.clock(), PAUSES)
    for number in range(100):
        steps.note(f"pod-{number}", is_done=False)
    await asyncio.sleep(3 * PAUSES.longest_seconds)
    steps.note("pod-0", is_done=True)
    assert steps.next_at("pod-1") is None


@simulated
async def test_the_first_of_many_that_is_due_is_told_as_long_as_it_is_left_alone() -> None:
    steps = backoff.Retries(virtual_time.clock(), PAUSES)
    assert steps.soonest() is None
    steps.note("often", is_done=False)
    steps.note("often", is_done=False)
    steps.note("once", is_done=False)
    assert steps.soonest() == steps.next_at("once")
    await asyncio.sleep(5)
    assert steps.soonest() == steps.next_at("often")
    await asyncio.sleep(5)
    assert steps.soonest() is None
