"""An API server that restarts, forgets, is slow or away: the runtime comes through by itself, and nothing is lost.

Each trouble meets the runtime while work comes in, a pool appears and another one goes.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

import pytest

from autoscaler.kube import kinds, port
from autoscaler.kube.reading import reflector
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cluster import SimulatedCluster, faults
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios import worker_world

POD = "a"
"""Whose connection is in trouble: that of the one replica."""
BACK_SECONDS = 45.0
"""A watch is opened again within half a minute; then come the Lease, the poll and the workers."""
Trouble = Callable[[SimulatedCluster], contextlib.AbstractAsyncContextManager[None]]


@contextlib.asynccontextmanager
async def restart(cluster: SimulatedCluster) -> AsyncGenerator[None, None]:
    """Nobody listens for five seconds, and all watches are gone."""
    cluster.faults.partition(POD)
    yield
    await asyncio.sleep(5)
    cluster.faults.clear()


@contextlib.asynccontextmanager
async def etcd_away(cluster: SimulatedCluster) -> AsyncGenerator[None, None]:
    """The API server answers that it cannot, for a minute and a half: the Lease and all trust are lost."""
    for method in (None, faults.WATCH):
        cluster.faults.add(faults.Answer(code=500), faults.Matching(method=method, username=POD), times=None)
    cluster.faults.cut_watches(POD)
    yield
    await asyncio.sleep(90)
    cluster.faults.clear()


@contextlib.asynccontextmanager
async def history_lost(cluster: SimulatedCluster) -> AsyncGenerator[None, None]:
    """What happened while the watches were cut can be read no more: 410."""
    cluster.faults.add(faults.Refuse(), faults.Matching(method=faults.WATCH, username=POD), times=6)
    cluster.faults.cut_watches(POD)
    yield
    cluster.compact()


@contextlib.asynccontextmanager
async def slow(cluster: SimulatedCluster) -> AsyncGenerator[None, None]:
    """Every call takes two seconds more, and so do the events of watches."""
    cluster.faults.watch_lag_seconds = 2.0
    cluster.faults.add(faults.Delay(seconds=2.0), faults.Matching(username=POD), times=None)
    cluster.faults.cut_watches(POD)
    yield
    await asyncio.sleep(60)
    cluster.faults.clear()


@contextlib.asynccontextmanager
async def cut_again_and_again(cluster: SimulatedCluster) -> AsyncGenerator[None, None]:
    yield
    for _ in range(30):
        cluster.faults.cut_watches(POD)
        await asyncio.sleep(1)


@contextlib.asynccontextmanager
async def answers_lost(cluster: SimulatedCluster) -> AsyncGenerator[None, None]:
    """Writes are done and their answers never come, while watches break."""
    writes = [faults.Matching(method=method, username=POD) for method in ("POST", "PATCH", "DELETE")]
    for matching in writes:
        cluster.faults.add(faults.LoseAnswer(), matching, times=3)
    cluster.faults.cut_watches(POD)
    yield
    await asyncio.sleep(60)
    cluster.faults.clear()


@pytest.mark.accept("R3")
@pytest.mark.parametrize(
    "trouble", [restart, etcd_away, history_lost, slow, cut_again_and_again, answers_lost], ids=lambda it: it.__name__
)
def test_trouble_passes_without_a_restart_and_nothing_is_lost(trouble: Trouble) -> None:
    virtual_time.run(_come_through(trouble))


async def _come_through(trouble: Trouble) -> None:
    world = worker_world.World(job_seconds=3600)
    world.add("stays")
    world.add("goes")
    world.line.length = 3
    async with worker_world.runtime(world, pod=POD) as replica:
        await asyncio.sleep(60)
        before = {pod["metadata"]["name"] for pod in world.pods("stays")}
        assert before
        assert world.pods("goes")
        async with trouble(world.cluster):
            world.add("comes", queue__source__endpoint="https://other/queue")
            world.lines["https://other/queue"].length = 4
            world.delete(worker_world.POOLS, "goes")
            dropped = min(before)
            world.delete(kinds.PODS, dropped)
        await asyncio.sleep(BACK_SECONDS)
        assert replica.dead() == []
        assert replica.unready() == []
        assert not world.has_pool("goes")
        assert world.pods("goes") == []
        assert len(world.pods("comes")) == world.made["comes"] == 4  # all of them, and none twice
        assert {pod["metadata"]["name"] for pod in world.pods("stays")} >= before - {dropped}
        assert dropped not in {pod["metadata"]["name"] for pod in world.pods("stays")}


@pytest.mark.accept("R3")
@simulated
async def test_what_was_not_heard_of_for_a_minute_is_not_acted_on() -> None:
    """One watch is away while all else works, the Lease included: pods of ours may have gone, and we would not know."""
    world = worker_world.World(job_seconds=3600)
    world.add()
    async with worker_world.runtime(world, pod=POD) as replica:
        await asyncio.sleep(30)
        for method in ("GET", faults.WATCH):
            cut = faults.Matching(method=method, path="/pods", username=POD)
            world.cluster.faults.add(faults.Answer(code=500), cut, times=None)
        world.cluster.faults.cut_watches(POD)
        await asyncio.sleep(50)
        assert replica.unready() == []
        await asyncio.sleep(15)
        (missing,) = replica.unready()
        assert missing.startswith("Pod: Failing")
        assert replica.dead() == []
        world.line.length = 3
        await asyncio.sleep(600)
        assert world.made == {}
        world.cluster.faults.clear()
        await asyncio.sleep(BACK_SECONDS)
        assert replica.unready() == []
        assert len(world.pods()) == 3


class Mute:
    """An API server whose etcd is away: watches stay open and say nothing, not even bookmarks; lists of pods fail."""

    def __init__(self, api: port.Api) -> None:
        self.is_mute = False
        self.heard_at = 0.0
        """When the watch of pods last said something."""
        self._api = api

    async def send(self, request: port.Request) -> port.Response:
        if self.is_mute and request.method == "GET" and request.path.endswith("/pods"):
            return port.Response(status=500, body=b"{}")
        return await self._api.send(request)

    async def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[Sequence[bytes], None]:
        async with contextlib.aclosing(self._api.watch(path, query)) as batches:
            async for batch in batches:
                if self.is_mute and path.endswith("/pods"):
                    await asyncio.Event().wait()
                if path.endswith("/pods"):
                    self.heard_at = asyncio.get_running_loop().time()
                yield batch


@pytest.mark.accept("R3")
@simulated
async def test_a_watch_that_falls_silent_is_not_trusted_and_its_kind_listed_anew() -> None:
    world, wires = worker_world.World(job_seconds=3600), list[Mute]()
    world.add()
    world.line.length = 2

    def wrap(api: port.Api) -> port.Api:
        wires.append(Mute(api))
        return wires[0]

    async with worker_world.runtime(world, pod=POD, wrap=wrap) as replica:
        await asyncio.sleep(60)
        wires[0].is_mute = True
        (pod, _) = world.pods()
        silent = asyncio.get_running_loop().time() - wires[0].heard_at
        await asyncio.sleep(reflector.DEFAULT_PACE.inactivity_seconds - silent - 1)
        assert replica.unready() == []
        await asyncio.sleep(2)
        assert [missing.partition(",")[0] for missing in replica.unready()] == ["Pod: Failing"]
        world.delete(kinds.PODS, pod["metadata"]["name"])  # nobody hears of it
        wires[0].is_mute = False
        await asyncio.sleep(BACK_SECONDS)
        assert replica.unready() == []
        assert world.status()["workers"] == 1
