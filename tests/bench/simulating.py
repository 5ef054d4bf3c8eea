"""How fast virtual time passes."""

import asyncio
import contextlib
import json
import random
import time
from collections import Counter
from typing import Any

from autoscaler.kube import kinds, port
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cluster import SimulatedCluster
from autoscaler.simulation.kubelet import RUN_FOR, Kubelets
from autoscaler.simulation.scheduler import Scheduler
from tests.bench import results

PODS = 10_000
NODES = 100
DAY_SECONDS = 86_400.0


def day(scale: float) -> None:
    """A day of virtual time: 10,000 pods created, scheduled, run and deleted on 100 nodes (bar: 30 s)."""
    pods = int(PODS * scale)
    started, used = time.perf_counter(), results.cpu_seconds()
    seen = virtual_time.run(run_day(pods, NODES))
    results.tell(
        "day", pods=pods, seconds=time.perf_counter() - started, core_seconds=results.cpu_seconds() - used, **seen
    )


async def run_day(pods: int, nodes: int) -> dict[str, Any]:
    """Run the day and return what was seen of it."""
    cluster = SimulatedCluster(virtual_time.clock())
    cluster.install_definitions()
    Scheduler(cluster)
    Kubelets(cluster)
    for number in range(nodes):
        cluster.create(kinds.NODES, _node(number))
    seen: Counter[str] = Counter()
    watching = asyncio.create_task(_watch(cluster, seen))
    deleting: set[asyncio.Task[None]] = set()
    client, dice = cluster.client("workload"), random.Random(0)  # noqa: S311
    for number in range(pods):
        await asyncio.sleep(DAY_SECONDS / pods)
        await _send(client, "POST", kinds.PODS.collection("default"), _pod(number, dice))
        if number % 2:  # the others end by themselves, and are deleted then
            task = asyncio.create_task(_delete_later(client, number, dice.uniform(60, 1800)))
            deleting.add(task)
            task.add_done_callback(deleting.discard)
    await asyncio.sleep(7200)
    await _send(client, "DELETE", kinds.PODS.collection("default"))
    await cluster.settle(60)
    watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching
    left = len(cluster.server.store.collection(kinds.PODS).entries)
    return {"writes": cluster.server.store.version, "left": left, **seen}


async def _watch(cluster: SimulatedCluster, seen: Counter[str]) -> None:
    client = cluster.client("watcher")
    while True:
        async for batch in client.watch(kinds.PODS.collection(), {"allowWatchBookmarks": "true"}):
            for raw in batch:
                seen[json.loads(raw)["type"]] += 1


async def _delete_later(client: port.Api, number: int, seconds: float) -> None:
    await asyncio.sleep(seconds)
    await _send(client, "DELETE", kinds.PODS.path(f"pod-{number}", "default"))


async def _send(client: port.Api, method: str, path: str, body: object = None) -> None:
    raw = None if body is None else json.dumps(body).encode()
    port.required(await client.send(port.Request(method=method, path=path, body=raw)))


def _node(number: int) -> dict[str, Any]:
    amounts = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": f"node-{number}", "topology.kubernetes.io/zone": "abc"[number % 3]}
    return {"metadata": {"name": f"node-{number}", "labels": labels}, "status": {"allocatable": amounts}}


def _pod(number: int, dice: random.Random) -> dict[str, Any]:
    requests = {"cpu": f"{dice.choice((250, 500, 1000, 2000))}m", "memory": "1Gi"}
    annotations = {} if number % 2 else {RUN_FOR: f"{dice.randint(60, 3600)}s"}
    return {
        "metadata": {"name": f"pod-{number}", "labels": {"app": f"app-{number % 20}"}, "annotations": annotations},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "none", "resources": {"requests": requests}}],
        },
    }
