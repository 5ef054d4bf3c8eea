"""Worker pools: how fast a queue becomes pods, how punctually queues are asked, and whether memory stays flat."""

import asyncio
import contextlib
import itertools
import os
import socket
import statistics
import subprocess
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final

import msgspec
from aiohttp import web

from autoscaler.api import crds, keys, resources
from autoscaler.kube import kinds, objects, port, wire
from autoscaler.simulation import virtual_time
from autoscaler.workers import pods
from tests import builders
from tests.bench import load, processes, results
from tests.scenarios import worker_world
from tools.local.plane import Plane

POOLS: Final = kinds.custom(resources.WorkerPool)
EACH: Final = 100
ROUNDS: Final = 5
SIZES: Final = (300, 1000, 3000)
WITHIN_SECONDS: Final = 120.0


class Queues:
    """Queues on this computer, one per path, that remember when they were asked and what they said."""

    def __init__(self) -> None:
        self.length: dict[str, int] = defaultdict(int)
        self.asked_at: dict[str, list[float]] = defaultdict(list)
        self.told_at: dict[tuple[str, int], float] = {}
        self.url = ""

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncGenerator["Queues", None]:
        """Serve them on a free port."""
        app = web.Application()
        app.router.add_get("/{name}", self._answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        with socket.create_server(("127.0.0.1", 0)) as listening:
            await web.SockSite(runner, listening).start()
            self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
            yield self
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        name, now = request.match_info["name"], time.monotonic()
        self.asked_at[name].append(now)
        self.told_at.setdefault((name, self.length[name]), now)
        return web.Response(text=str(self.length[name]))


def workers(scale: float) -> None:
    """A queue goes 0 → 100, once and for ten pools at a time, beside a bare client on the same server (bar: 80 %)."""
    with load.serving(*crds.all_crds()) as plane, _runtime(plane) as process:
        asyncio.run(_workers(plane, process, max(1, int(10 * scale))))


def growth(scale: float) -> None:
    """One pool grows to 300, 1,000 and 3,000 workers, beside a bare client in turn, five rounds (bar: 80 % each)."""
    for size in SIZES:
        with load.serving(*crds.all_crds()) as plane, _runtime(plane) as process:
            asyncio.run(_growth(plane, process, max(10, int(size * scale))))


def polls(scale: float) -> None:
    """1,000 pools asked every 10 s, then 500 every second: how late polls are, and what that costs (bar: p99 ≤ 1 s)."""
    for count, interval in ((int(1000 * scale), 10), (int(500 * scale), 1)):
        with load.serving(*crds.all_crds()) as plane, _runtime(plane) as process:
            asyncio.run(_polls(plane, process, count, interval))


def pool_memory(scale: float) -> None:
    """1,000 pools over 30 minutes of virtual time: memory after the first 5 and at the end (bar: flat)."""
    started = time.perf_counter()
    early, late, asked = virtual_time.run(_half_an_hour(int(1000 * scale)))
    results.tell(
        "pool_memory",
        pools=int(1000 * scale),
        polls=asked,
        early_mb=early,
        late_mb=late,
        seconds=time.perf_counter() - started,
    )


async def _workers(plane: Plane, process: subprocess.Popen[bytes], pools: int) -> None:
    names, many = [f"pool-{number}" for number in range(pools)], EACH * pools
    large = [f"large-{number}" for number in range(ROUNDS)]
    async with load.connected(plane.kubeconfig) as api, Queues().serving() as queues:
        await load.create(api, kinds.DEPLOYMENTS, worker_world.deployment("worker"))
        for name in ("solo", *large, *names):
            await load.create(api, POOLS, _pool(name, queues, interval=1, capacity=many if name in large else EACH))
        await _until(lambda: len(queues.asked_at) == 1 + len(large) + pools)
        one = await _grow(api, queues, ["solo"], EACH)
        ours, bare = [], []
        for name in large:  # in turn, so that a busy moment of the computer hits both
            bare.append(await _bare(api, f"bare-{name}", many))
            ours.append(many / await _grow(api, queues, [name], many))
        ten = await _grow(api, queues, names, EACH)
        results.tell(
            "workers",
            one_pool_pods=EACH,
            one_pool_seconds=one,
            large_pool_pods=many,
            per_second=statistics.median(ours),
            bare_per_second=statistics.median(bare),
            ratio=statistics.median(ours) / statistics.median(bare),
            ratios=[round(mine / theirs, 2) for mine, theirs in zip(ours, bare, strict=True)],
            pools=pools,
            pods=many,
            seconds=ten,
            runtime_mb=processes.resident_mb(process.pid),
        )


async def _growth(plane: Plane, process: subprocess.Popen[bytes], size: int) -> None:
    names = [f"pool-{number}" for number in range(ROUNDS)]
    everybody = [os.getpid(), process.pid, *(component.pid for component in plane.processes().values())]
    async with load.connected(plane.kubeconfig) as api, Queues().serving() as queues:
        await load.create(api, kinds.DEPLOYMENTS, worker_world.deployment("worker"))
        for name in names:
            await load.create(api, POOLS, _pool(name, queues, interval=1, capacity=size))
        await _until(lambda: len(queues.asked_at) == len(names))
        ours, bare, used = [], [], [_used(everybody)]
        for name in names:  # in turn, so that a busy moment of the computer hits both
            bare.append(await _bare(api, f"bare-{name}", size))
            used.append(_used(everybody))
            ours.append(size / await _grow(api, queues, [name], size))
            used.append(_used(everybody))
            queues.length[name] = 0
        ratios = sorted(round(mine / theirs, 2) for mine, theirs in zip(ours, bare, strict=True))
        milliseconds = [1000 * (after - before) / size for before, after in itertools.pairwise(used)]
        results.tell(
            "growth",
            pods=size,
            per_second=statistics.median(ours),
            bare_per_second=statistics.median(bare),
            ratio=statistics.median(ratios),
            ratios=ratios,
            cpu_ms_each=sorted(round(each, 2) for each in milliseconds[1::2]),
            bare_cpu_ms_each=sorted(round(each, 2) for each in milliseconds[::2]),
        )


def _used(pids: list[int]) -> float:
    """Return the processor seconds of the cluster, the runtime and the bench: they vary less than a busy computer."""
    return sum(map(processes.cpu_seconds, pids))


async def _grow(api: port.Api, queues: Queues, names: list[str], each: int) -> float:
    """Fill queues; return the seconds from the first poll that saw it to the last pod's ADDED event."""
    last = asyncio.create_task(_last_added(api, set(names), each * len(names)))
    await asyncio.sleep(0.5)
    for name in names:
        queues.length[name] = each
    seen_at = await last
    return seen_at - min(queues.told_at[name, each] for name in names)


async def _last_added(api: port.Api, pools: set[str], count: int) -> float:
    path = kinds.PODS.collection("default")
    listed = port.required(await api.send(port.Request(method="GET", path=path, query={"limit": "1"})))
    version = msgspec.json.decode(listed)["metadata"]["resourceVersion"]
    async with asyncio.timeout(WITHIN_SECONDS):
        while count > 0:  # the server ends a watch now and then
            async for batch in api.watch(path, {"resourceVersion": version}):
                for event in map(wire.EVENT.decode, batch):
                    metadata = wire.SIMPLE.decode(event.object).metadata
                    version = metadata.resource_version
                    count -= event.type == "ADDED" and metadata.labels.get(keys.WORKER_POOL) in pools
                if count <= 0:
                    break
    return time.monotonic()


async def _bare(api: port.Api, name: str, count: int) -> float:
    """Create as many of the same pods with nothing but the client; return how many a second, measured as ours are."""
    template = worker_world.deployment("worker")["spec"]["template"]
    metadata = {"namespace": "default", "name": name, "uid": "0" * 36}
    pool = {**builders.resource("WorkerPool"), "metadata": metadata}
    prototype = pods.make(template, objects.custom(resources.WorkerPool)(msgspec.json.encode(pool)))
    made = iter([prototype.named(f"{number:05d}") for number in range(count)])
    last = asyncio.create_task(_last_added(api, {name}, count))
    await asyncio.sleep(0.5)
    started = time.monotonic()

    async def work() -> None:
        for manifest in made:
            await load.create(api, kinds.PODS, manifest)

    await asyncio.gather(*(work() for _ in range(32)))
    return count / (await last - started)


async def _polls(plane: Plane, process: subprocess.Popen[bytes], count: int, interval: int) -> None:
    measured = max(30.0, 4.0 * interval)
    async with load.connected(plane.kubeconfig) as api, Queues().serving() as queues:
        await load.create(api, kinds.DEPLOYMENTS, worker_world.deployment("worker"))
        made = iter(range(count))

        async def work() -> None:
            for number in made:
                await load.create(api, POOLS, _pool(f"pool-{number:04d}", queues, interval=interval))

        await asyncio.gather(*(work() for _ in range(16)))
        created = time.monotonic()
        await _until(lambda: len(queues.asked_at) == count)
        live = time.monotonic() - created
        await asyncio.sleep(2 * interval + 5)
        queues.asked_at.clear()
        used, started = processes.cpu_seconds(process.pid), time.monotonic()
        await asyncio.sleep(measured)
        used, seconds = processes.cpu_seconds(process.pid) - used, time.monotonic() - started
        gaps = sorted(
            after - before for asked in queues.asked_at.values() for before, after in itertools.pairwise(asked)
        )
        results.tell(
            "polls",
            pools=count,
            interval_seconds=interval,
            live_after_seconds=live,
            polls=sum(map(len, queues.asked_at.values())),
            gap_p50=statistics.median(gaps),
            gap_p99=gaps[int(len(gaps) * 0.99)],
            gap_max=gaps[-1],
            core_percent=100 * used / seconds,
            runtime_mb=processes.resident_mb(process.pid),
        )


async def _half_an_hour(count: int) -> tuple[float, float, int]:
    world = worker_world.World()
    for number in range(count):
        world.add(f"pool-{number}", queue__source__endpoint=f"https://queue-{number}/")
    async with worker_world.runtime(world):
        await asyncio.sleep(300)
        _forget(world)
        early = results.resident_mb()
        for _ in range(25):
            await asyncio.sleep(60)
            _forget(world)
        asked = world.polls
        return early, results.resident_mb(), asked


def _forget(world: worker_world.World) -> None:
    """Drop what the test's own queues remember: it is not the runtime's memory."""
    for line in world.lines.by_endpoint.values():
        world.polls += len(line.asked_at)
        line.asked_at.clear()
        line.secrets.clear()


def _runtime(plane: Plane) -> contextlib.AbstractContextManager[subprocess.Popen[bytes]]:
    return processes.runtime(plane, "--controllers", "workers", "--allow-loopback-queues")


def _pool(name: str, queues: Queues, *, interval: int, capacity: int = EACH) -> dict[str, Any]:
    return builders.resource(
        "WorkerPool",
        name=name,
        poolCapacity=capacity,
        queue__interval=f"00:00:{interval:02d}",
        queue__source__endpoint=f"{queues.url}/{name}",
    )


async def _until(check: Callable[[], bool]) -> None:
    async with asyncio.timeout(WITHIN_SECONDS):
        while not check():  # noqa: ASYNC110  # what another process does
            await asyncio.sleep(0.02)
