"""Workers take one job after another, wait for the next one for a while, and end; no job is ever lost."""

import asyncio

import pytest

from autoscaler.api.resources.worker_pools import QueueSource
from autoscaler.queues import port
from autoscaler.simulate import simulated_workers
from autoscaler.simulate.observation.waits import Wait
from autoscaler.simulation import virtual_time


def line() -> simulated_workers.Line:
    return simulated_workers.Line("compile", virtual_time.clock().monotonic)


class Crew:
    """Workers, and when each ended."""

    def __init__(self, line: simulated_workers.Line) -> None:
        self.line = line
        self.ended: dict[str, float] = {}

    def begin(self, uid: str) -> None:
        self.line.begin(simulated_workers.Worker(uid=uid, idle_seconds=120.0, end=lambda: self._end(uid)))

    def _end(self, uid: str) -> None:
        self.ended[uid] = virtual_time.clock().monotonic()
        self.line.leave(uid)


async def test_a_worker_takes_job_after_job_and_ends_when_none_comes() -> None:
    queue = line()
    crew = Crew(queue)
    for _ in range(2):
        queue.push(60.0)
    assert len(queue) == 2
    await asyncio.sleep(10)
    crew.begin("a")
    await asyncio.sleep(1000)
    want = (Wait(came_at=0.0, began_at=10.0), Wait(came_at=0.0, began_at=70.0))
    assert queue.all_waits() == want
    assert crew.ended == {"a": 250.0}


async def test_a_job_that_comes_goes_to_a_worker_that_waits() -> None:
    queue = line()
    crew = Crew(queue)
    crew.begin("a")
    await asyncio.sleep(100)
    queue.push(60.0)
    assert len(queue) == 0
    await asyncio.sleep(1000)
    assert queue.all_waits() == (Wait(came_at=100.0, began_at=100.0),)
    assert crew.ended == {"a": 280.0}


async def test_the_job_of_a_worker_that_was_ended_goes_back() -> None:
    queue = line()
    Crew(queue).begin("a")
    queue.push(60.0)
    queue.leave("a")
    assert len(queue) == 1
    assert queue.all_waits() == (Wait(came_at=0.0, began_at=None),)


async def test_a_queue_tells_its_length_and_one_that_is_not_there_says_so() -> None:
    queue = line()
    queue.push(1.0)
    lines = simulated_workers.Lines({"https://queues/compile": queue})
    asked = lines.queue(QueueSource(endpoint="https://queues/compile"), namespace="builds", secret=None)
    assert await asked.length() == 1
    with pytest.raises(port.QueueError, match="the trace has no queue behind https://other"):
        lines.queue(QueueSource(endpoint="https://other"), namespace="builds", secret=None)
