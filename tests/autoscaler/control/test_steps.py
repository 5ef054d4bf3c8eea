"""A step that failed has one moment at which it is tried again, and none once it is not needed any more."""

import asyncio
from enum import StrEnum

from autoscaler import backoff
from autoscaler.control import steps
from autoscaler.kube.writing import writer
from autoscaler.simulation import virtual_time
from tests.autoscaler.kube.cluster import simulated


class Step(StrEnum):
    FIRST = "first"
    SECOND = "second"


def made() -> steps.Steps[Step]:
    return steps.Steps(virtual_time.clock(), Step, backoff.Backoff(first_seconds=1.0, longest_seconds=60.0))


@simulated
async def test_a_step_that_failed_is_left_alone_whatever_wakes_its_owner_meanwhile() -> None:
    tried, taken = made(), list[float]()
    for _ in range(600):
        tried.begin()
        if tried.may_take(Step.FIRST):
            taken.append(asyncio.get_running_loop().time())
            tried.note(Step.FIRST, is_done=False)
        tried.end()
        await asyncio.sleep(0.1)
    assert [round(at - taken[0]) for at in taken] == [0, 1, 3, 7, 15, 31]
    assert tried.attempts(Step.FIRST) == 1
    assert tried.attempts(Step.SECOND) == writer.ATTEMPTS


@simulated
async def test_a_step_that_a_round_did_not_come_to_is_not_waited_for() -> None:
    tried = made()
    tried.begin()
    assert tried.may_take(Step.FIRST)
    tried.note(Step.FIRST, is_done=False)
    tried.end()
    assert tried.next_at() == asyncio.get_running_loop().time() + 1.0
    tried.begin()
    assert tried.may_take(Step.SECOND)
    tried.note(Step.SECOND, is_done=True)
    tried.end()
    assert (tried.next_at(), tried.failures()) == (None, 0)


@simulated
async def test_all_failures_can_be_forgotten() -> None:
    tried = made()
    tried.note(Step.FIRST, is_done=False)
    assert not tried.may_take(Step.FIRST)
    assert tried.failures(Step.FIRST) == tried.failures() == 1
    tried.forget()
    assert tried.failures() == 0
