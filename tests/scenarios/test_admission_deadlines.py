"""Every write of admission ends, on the server too, before the Lease does under which it was decided."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence

import pytest

from autoscaler.kube import port
from autoscaler.kube.leases import election
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.admission_world import World, runtime

pytestmark = pytest.mark.simulated


class Heard:
    """A connection that remembers how long the server was given for each write about Workloads, jobs and pods."""

    def __init__(self, api: port.Api, given: list[str]) -> None:
        self._api = api
        self._given = given

    async def send(self, request: port.Request) -> port.Response:
        is_ours = any(f"/{each}" in request.path for each in ("workloads", "jobs", "pods"))
        if request.method != "GET" and is_ours:
            self._given.append(request.query.get("timeout", ""))
        return await self._api.send(request)

    async def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[Sequence[bytes], None]:
        async with contextlib.aclosing(self._api.watch(path, query)) as batches:
            async for batch in batches:
                yield batch


@pytest.mark.accept("E8", part="no write takes effect after the Lease under which it was decided")
@simulated
async def test_the_server_is_told_how_long_each_write_may_take() -> None:
    world, given = World(job_seconds=30), list[str]()
    world.add_queue(cpu=2)
    world.add_job(pods=2)
    async with runtime(world, wrap=lambda api: Heard(api, given)):
        await asyncio.sleep(60)
    assert world.holds("Finished")
    millis = [int(each.removesuffix("ms")) for each in given]
    assert len(millis) > 5
    terms = election.Terms()
    assert max(millis) <= 1000 * (terms.lease_seconds - terms.margin_seconds)
