"""Admission: how many waiting jobs get their quota a second, on the real API server, by a kind of job without pods.

The loads are Kueue's own (`burst` and `baseline`), whose benchmark has no pods either. This process plays the jobs: one
that was resumed runs for its time and is then said to have succeeded.
"""

import asyncio
import contextlib
import heapq
import itertools
import statistics
import subprocess
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from autoscaler.admission.workloads import workload
from autoscaler.api import crds, resources
from autoscaler.kube import kinds, port
from tests import builders, toy_jobs
from tests.bench import load, processes, results
from tools.local.plane import Plane

CLUSTER_QUEUES: Final = kinds.custom(resources.ClusterQueue)
LOCAL_QUEUES: Final = kinds.custom(resources.LocalQueue)
FLAVORS: Final = kinds.custom(resources.ResourceFlavor)
BURST: Final = 5000
COHORTS: Final = 5
QUEUES_EACH: Final = 6
WITHIN_SECONDS: Final = 900.0
CLIENTS: Final = 16
BARE_CLIENTS: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Jobs that arrive one after another."""

    name: str
    count: int
    cpu: int
    run_seconds: float
    priority: int
    every_seconds: float


STREAMS: Final = (
    Stream(name="small", count=350, cpu=1, run_seconds=0.2, priority=50, every_seconds=0.1),
    Stream(name="medium", count=100, cpu=5, run_seconds=0.5, priority=100, every_seconds=0.5),
    Stream(name="large", count=50, cpu=20, run_seconds=1.0, priority=200, every_seconds=1.2),
)


def burst(scale: float) -> None:
    """5,000 jobs in one ClusterQueue, made under Hold and released, beside a bare one (bars: 200 a second, 0.5 GB)."""
    count = max(10, int(BURST * scale))
    with load.serving(*crds.all_crds(), toy_jobs.DEFINITION) as plane, _runtime(plane) as process:
        asyncio.run(_burst(plane, process, count))


def baseline(scale: float) -> None:
    """15,000 jobs over 30 ClusterQueues in 5 cohorts, as Kueue's baseline has them (bar: half of its 384 s)."""
    with load.serving(*crds.all_crds(), toy_jobs.DEFINITION) as plane, _runtime(plane) as process:
        asyncio.run(_baseline(plane, process, scale))


@dataclass
class Jobs:
    """The jobs of a load: when each was made and resumed; one that runs ends after its time."""

    api: port.Api
    seconds: dict[str, float] = field(default_factory=dict)
    """How long each runs; one that is not named runs on."""
    made_at: dict[str, float] = field(default_factory=dict)
    resumed_at: dict[str, float] = field(default_factory=dict)
    finished: set[str] = field(default_factory=set)
    suspensions: int = 0
    """How often one was suspended that had run."""
    _ends: list[tuple[float, str]] = field(default_factory=list)
    _running: dict[str, int] = field(default_factory=dict)

    async def follow(self) -> None:
        """Watch the jobs."""
        await load.follow(self.api, toy_jobs.TOY_JOBS.collection("default"), self._see)

    async def end(self) -> None:
        """Say of each job whose time is over that it has succeeded."""
        while True:
            now = time.monotonic()
            over: list[str] = []
            while self._ends and self._ends[0][0] <= now:
                _, name = heapq.heappop(self._ends)
                if name in self._running:
                    del self._running[name]
                    over.append(name)
            await load.each_of(over, self._succeed, clients=CLIENTS)
            await asyncio.sleep(0.01)

    def _see(self, job: dict[str, Any]) -> None:
        name, is_suspended = job["metadata"]["name"], job["spec"].get("suspend", False)
        if name in self.finished or job.get("status", {}).get("phase"):
            return
        if is_suspended and name in self._running:
            del self._running[name]
            self.suspensions += 1
        elif not is_suspended and name not in self._running:
            self._running[name] = 1
            now = time.monotonic()
            self.resumed_at.setdefault(name, now)
            if name in self.seconds:
                heapq.heappush(self._ends, (now + self.seconds[name], name))

    async def _succeed(self, name: str) -> None:
        path = toy_jobs.TOY_JOBS.path(name, "default", "status")
        body = msgspec.json.encode({"status": {"phase": "Succeeded"}})
        request = port.Request(method="PATCH", path=path, body=body, content_type=port.MERGE_PATCH)
        port.required(await self.api.send(request))
        self.finished.add(name)


async def _burst(plane: Plane, process: subprocess.Popen[bytes], count: int) -> None:
    async with load.connected(plane.kubeconfig) as api, _followed(api) as jobs:
        await load.create(api, FLAVORS, builders.resource("ResourceFlavor", name="standard", nodeLabels={}))
        await _add_queue(api, "queue", cpu=10 * count, stopPolicy="Hold")
        await load.each_of(range(count), lambda number: _make(api, jobs, f"job-{number:05d}", "queue"), clients=CLIENTS)
        await _until(lambda: _count_workloads(api, count))
        cpu, started = processes.cpu_seconds(process.pid), time.monotonic()
        await load.patch(api, CLUSTER_QUEUES.path("queue"), {"spec": {"stopPolicy": "None"}})
        await _until(lambda: _is(len(jobs.resumed_at) == count))
        waits = sorted(at - started for at in jobs.resumed_at.values())
        figures = {
            "per_second": count / waits[-1],
            "p50_seconds": statistics.median(waits),
            "last_seconds": waits[-1],
            "cpu_seconds": processes.cpu_seconds(process.pid) - cpu,
            "runtime_mb": processes.resident_mb(process.pid),
        }
        process.terminate()
        process.wait(timeout=60)
        bare = await _bare(api, count)
        results.tell("burst", jobs=count, **figures, bare_per_second=bare, ratio=figures["per_second"] / bare)


async def _bare(api: port.Api, count: int) -> float:
    """Write to as many Workloads and jobs with nothing but the client; return how many of each a second."""
    path = workload.WORKLOADS.collection("default")
    request = port.Request(method="GET", path=path, timeout_seconds=60)
    found = msgspec.json.decode(port.required(await api.send(request)))["items"]
    status = found[0]["status"]
    status["conditions"][0]["message"] = "written by a bare client"

    async def both(number: int) -> None:
        await load.patch(api, f"{path}/{found[number]['metadata']['name']}/status", {"status": status})
        await load.patch(api, toy_jobs.TOY_JOBS.path(f"job-{number:05d}", "default"), {"spec": {"suspend": True}})

    started = time.monotonic()
    await load.each_of(range(count), both, clients=BARE_CLIENTS)
    return count / (time.monotonic() - started)


async def _baseline(plane: Plane, process: subprocess.Popen[bytes], scale: float) -> None:
    async with load.connected(plane.kubeconfig) as api, _followed(api) as jobs:
        await load.create(api, FLAVORS, builders.resource("ResourceFlavor", name="standard", nodeLabels={}))
        queues = [f"cohort-{c}-queue-{q}" for c in range(COHORTS) for q in range(QUEUES_EACH)]
        preemption = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}
        for name in queues:
            cohort = name.rpartition("-queue-")[0]
            await _add_queue(api, name, cpu=20, borrowing_limit=100, cohort=cohort, preemption=preemption)
        for stream in STREAMS:
            await load.create(api, kinds.PRIORITY_CLASSES, _priority_class(stream))
        total = sum(max(1, int(stream.count * scale)) for stream in STREAMS) * len(queues)
        cpu, started = processes.cpu_seconds(process.pid), time.monotonic()
        async with asyncio.TaskGroup() as group:
            for name, stream in itertools.product(queues, STREAMS):
                group.create_task(_stream(api, jobs, name, stream, max(1, int(stream.count * scale))))
            await _until(lambda: _is(len(jobs.finished) == total))
        seconds = time.monotonic() - started
        waits: defaultdict[str, list[float]] = defaultdict(list)
        for name, at in jobs.resumed_at.items():
            waits[name.rsplit("-", 2)[1]].append(at - jobs.made_at[name])
        results.tell(
            "baseline",
            jobs=total,
            queues=len(queues),
            seconds=seconds,
            per_second=total / seconds,
            mean_wait_seconds={name: round(statistics.mean(each), 1) for name, each in sorted(waits.items())},
            evictions=jobs.suspensions,
            cpu_seconds=processes.cpu_seconds(process.pid) - cpu,
            runtime_mb=processes.resident_mb(process.pid),
        )


async def _stream(api: port.Api, jobs: Jobs, queue: str, stream: Stream, count: int) -> None:
    started = time.monotonic()
    for number in range(count):
        await asyncio.sleep(max(0.0, started + number * stream.every_seconds - time.monotonic()))
        name = f"{queue}-{stream.name}-{number:03d}"
        jobs.seconds[name] = stream.run_seconds
        await _make(api, jobs, name, queue, cpu=stream.cpu, priority=stream.name)


async def _make(api: port.Api, jobs: Jobs, name: str, queue: str, *, cpu: int = 1, priority: str = "") -> None:
    body = toy_jobs.toy(name, queue=queue, cpu=cpu)
    body["spec"]["suspend"] = True
    if priority:
        body["spec"]["template"]["spec"]["priorityClassName"] = priority
    jobs.made_at[name] = time.monotonic()
    await load.create(api, toy_jobs.TOY_JOBS, body)


async def _add_queue(api: port.Api, name: str, *, cpu: int, borrowing_limit: int | None = None, **spec: Any) -> None:
    quota = {"name": "cpu", "nominalQuota": cpu}
    if borrowing_limit is not None:
        quota["borrowingLimit"] = borrowing_limit
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "standard", "resources": [quota]}]}]
    await load.create(api, CLUSTER_QUEUES, builders.resource("ClusterQueue", name=name, resourceGroups=groups, **spec))
    await load.create(api, LOCAL_QUEUES, builders.resource("LocalQueue", name=name, clusterQueue=name))


def _priority_class(stream: Stream) -> dict[str, Any]:
    return {"metadata": {"name": stream.name}, "value": stream.priority}


@contextlib.asynccontextmanager
async def _followed(api: port.Api) -> AsyncGenerator[Jobs, None]:
    jobs = Jobs(api=api)
    async with load.running(jobs.follow(), jobs.end()):
        yield jobs


def _runtime(plane: Plane) -> contextlib.AbstractContextManager[subprocess.Popen[bytes]]:
    return processes.runtime(plane, program=("tests.bench.toy_runtime",))


async def _count_workloads(api: port.Api, count: int) -> bool:
    request = port.Request(method="GET", path=workload.WORKLOADS.collection(), query={"limit": "1"})
    page = msgspec.json.decode(port.required(await api.send(request)))
    there: int = len(page["items"]) + page["metadata"].get("remainingItemCount", 0)
    return there >= count


async def _is(value: bool) -> bool:  # noqa: FBT001  # a condition
    return value


async def _until(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(WITHIN_SECONDS):
        while not await holds():  # noqa: ASYNC110  # asked of a server
            await asyncio.sleep(0.05)
