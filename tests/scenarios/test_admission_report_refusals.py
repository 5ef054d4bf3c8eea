"""Whatever the API server refuses to be told of queues and waiting work: it is asked less and less often."""

import asyncio
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from autoscaler.kube import port
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.admission_world import CLUSTER_QUEUES, World, cycles, runtime

FIRST_MINUTE = 20
LATER_A_MINUTE = 2
CALLS = (
    r"PATCH .*/workloads/[^/]+/status",
    r"PATCH .*/clusterqueues/[^/]+/status",
    r"PATCH .*/localqueues/[^/]+/status",
    r"PATCH .*/clusterqueues/[^/]+",
    r"PATCH .*/resourceflavors/[^/]+",
)


class Refusing:
    """Refuses one kind of call and notes when it was asked, by path."""

    def __init__(self, api: port.Api, call: str, status: int) -> None:
        self.asked: dict[str, list[float]] = {}
        self._api = api
        self._call = re.compile(call)
        self._status = status

    async def send(self, request: port.Request) -> port.Response:
        if not self._call.fullmatch(f"{request.method} {request.path}"):
            return await self._api.send(request)
        self.asked.setdefault(request.path, []).append(asyncio.get_running_loop().time())
        await asyncio.sleep(0.005)
        return port.Response(status=self._status, body=msgspec.json.encode({"reason": "Refused", "message": "no"}))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)


def _by_minute(times: Iterable[float]) -> list[int]:
    there = list(times)
    minutes = Counter(int((at - there[0]) // 60) for at in there)
    return [minutes[minute] for minute in range(max(minutes) + 1)]


@pytest.mark.parametrize("status", [403, 409, 422, 500])
@pytest.mark.parametrize("call", CALLS)
def test_a_report_that_is_refused_for_ever_is_sent_less_and_less_often(call: str, status: int) -> None:
    refusing: list[Refusing] = []

    def wrap(api: port.Api) -> port.Api:
        refusing.append(Refusing(api, call, status))
        return refusing[-1]

    @simulated
    async def play() -> None:
        world = World()
        world.add_queue("team", cpu=1)
        async with runtime(world, wrap=wrap) as replica:
            for number in range(3):
                world.add_job(f"job-{number}")
            for _ in range(20):  # something changes all the time
                await asyncio.sleep(30)
                world.patch(CLUSTER_QUEUES, "team", {"metadata": {"labels": {"at": f"t{_}"}}})
            assert cycles(replica) < 300  # nobody looks again before it is time to

    play()
    [found] = refusing
    assert found.asked
    for times in found.asked.values():
        first, *later = _by_minute(times)
        assert first <= FIRST_MINUTE
        assert max(later, default=0) <= LATER_A_MINUTE
