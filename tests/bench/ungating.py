"""How fast gates are opened, beside a bare client that sends the same patches, and what a growth costs in all.

The real API server; there is no Job controller: this process makes the gated pods of its Jobs.
"""

import asyncio
import contextlib
import statistics
import subprocess
import time
from collections.abc import AsyncGenerator
from typing import Any, Final

import msgspec

from autoscaler.api import crds, keys, resources
from autoscaler.kube import kinds, port
from tests import builders
from tests.bench import load, processes, results
from tools.local.plane import Plane

CLUSTER_QUEUES: Final = kinds.custom(resources.ClusterQueue)
LOCAL_QUEUES: Final = kinds.custom(resources.LocalQueue)
FLAVORS: Final = kinds.custom(resources.ResourceFlavor)
PODS: Final = 1000
ROUNDS: Final = 5
CLIENTS: Final = 32
WITHIN_SECONDS: Final = 300.0


def ungating(scale: float) -> None:
    """1,000 gates of one job, granted at once, beside a bare client in turn, five rounds (bar: 80 %); then a growth."""
    with load.serving(*crds.all_crds()) as plane, processes.runtime(plane, "--controllers", "admission") as process:
        asyncio.run(_ungating(plane, process, max(10, int(PODS * scale))))


class Opened:
    """When the gates of each job's pods were opened."""

    def __init__(self) -> None:
        self.at: dict[str, list[float]] = {}
        self._gated: dict[str, bool] = {}

    def see(self, pod: dict[str, Any]) -> None:
        """Note a pod as it is now."""
        name, is_gated = pod["metadata"]["name"], bool(pod["spec"].get("schedulingGates"))
        if self._gated.get(name) and not is_gated:
            self.at.setdefault(pod["metadata"]["labels"]["job"], []).append(time.monotonic())
        self._gated[name] = is_gated

    async def until(self, job: str, count: int) -> float:
        """Wait for so many; return the seconds from the first to the last."""
        async with asyncio.timeout(WITHIN_SECONDS):
            while len(self.at.get(job, ())) < count:  # noqa: ASYNC110  # a watch fills it
                await asyncio.sleep(0.01)
        return self.at[job][-1] - self.at[job][0]


async def _ungating(plane: Plane, process: subprocess.Popen[bytes], count: int) -> None:
    async with load.connected(plane.kubeconfig) as api, _followed(api) as opened:
        await load.create(
            api, FLAVORS, builders.resource("ResourceFlavor", name="standard", nodeLabels={"kind": "any"})
        )
        quota = [{"name": "cpu", "nominalQuota": 100 * count}]
        groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "standard", "resources": quota}]}]
        await load.create(api, CLUSTER_QUEUES, builders.resource("ClusterQueue", name="queue", resourceGroups=groups))
        await load.create(api, LOCAL_QUEUES, builders.resource("LocalQueue", name="queue", clusterQueue="queue"))
        ours, bare = [], []
        for number in range(ROUNDS):  # in turn, so that a busy moment of the computer hits both
            bare.append(await _bare(api, opened, f"bare-{number}", count))
            ours.append(await _granted(api, opened, f"ours-{number}", count))
        ratios = sorted(round(mine / theirs, 2) for mine, theirs in zip(ours, bare, strict=True))
        cpu = processes.cpu_seconds(process.pid)
        results.tell(
            "ungating",
            pods=count,
            per_second=statistics.median(ours),
            bare_per_second=statistics.median(bare),
            ratio=statistics.median(ratios),
            ratios=ratios,
            growth_seconds=await _growth(api, opened, count),
            growth_cpu_seconds=processes.cpu_seconds(process.pid) - cpu,
        )


async def _granted(api: port.Api, opened: Opened, name: str, count: int) -> float:
    """Let the runtime open the gates of a job that is admitted whole; return how many a second."""
    uid = await _job(api, name, count)
    await _pods(api, name, count, uid)
    return (count - 1) / await opened.until(name, count)


async def _growth(api: port.Api, opened: Opened, count: int) -> float:
    """Let a job of one pod grow by so many; return the seconds from the resize to the last gate."""
    uid = await _job(api, "grown", 1)
    await _pods(api, "grown", count + 1, uid)
    await opened.until("grown", 1)
    started = time.monotonic()
    await load.patch(api, kinds.JOBS.path("grown", "default"), {"spec": {"parallelism": count + 1}})
    await opened.until("grown", count + 1)
    return opened.at["grown"][-1] - started


async def _bare(api: port.Api, opened: Opened, name: str, count: int) -> float:
    """Open as many gates with nothing but the client; return how many a second."""
    await _pods(api, name, count, "0" * 36)
    stamps = dict.fromkeys((keys.JOB_UID, keys.POD_SET, keys.CLUSTER_QUEUE, keys.FLAVORS), "a value as long as a name")
    patch = {"metadata": {"annotations": stamps}, "spec": {"schedulingGates": None, "nodeSelector": {"kind": "any"}}}
    paths = [kinds.PODS.path(f"{name}-{number:05d}", "default") for number in range(count)]
    await load.each_of(paths, lambda path: load.patch(api, path, patch), clients=CLIENTS)
    return (count - 1) / await opened.until(name, count)


async def _job(api: port.Api, name: str, parallelism: int) -> str:
    container = {"name": "main", "image": "main:1", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    labels = {keys.QUEUE_NAME: "queue"}
    spec = {"parallelism": parallelism, "suspend": True, "template": template}
    made = await load.create(api, kinds.JOBS, {"metadata": {"name": name, "labels": labels}, "spec": spec})
    uid: str = msgspec.json.decode(made)["metadata"]["uid"]
    return uid


async def _pods(api: port.Api, job: str, count: int, uid: str) -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": uid, "controller": True}
    container = {"name": "main", "image": "main:1", "resources": {"requests": {"cpu": "1"}}}
    gates = [{"name": keys.ADMISSION_GATE}]
    spec = {"containers": [container], "schedulingGates": gates, "restartPolicy": "Never"}

    async def make(number: int) -> None:
        metadata = {"name": f"{job}-{number:05d}", "labels": {"job": job}, "ownerReferences": [owner]}
        await load.create(api, kinds.PODS, {"metadata": metadata, "spec": spec})

    await load.each_of(range(count), make, clients=CLIENTS)


@contextlib.asynccontextmanager
async def _followed(api: port.Api) -> AsyncGenerator[Opened, None]:
    opened = Opened()
    async with load.running(load.follow(api, kinds.PODS.collection("default"), opened.see)):
        yield opened
