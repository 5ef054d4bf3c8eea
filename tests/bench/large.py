"""10,000 nodes and 100,000 pods on the real API server and scheduler: how soon one pod more is answered, and at rest.

Nodes and pods are objects that nobody plays: no KWOK, no controller manager, and AWS is an account in memory. What is
measured ends with the request for one instance more.
"""

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import msgspec

from autoscaler.api import crds, keys, resources
from autoscaler.kube import kinds, port
from tests import builders
from tests.bench import large_cloud, load, processes, results
from tools.local.components import Component
from tools.local.plane import Plane

NODES: Final = 10_000
PODS_EACH: Final = 10
TIMES: Final = 100
IDLE_SECONDS: Final = 60.0
BETWEEN_SECONDS: Final = 0.5
WITHIN_SECONDS: Final = 600.0
INSTANCES: Final = kinds.custom(resources.Instance)
ROOM: Final = {"cpu": "15890m", "memory": "60Gi", "pods": "110"}


def large(scale: float) -> None:
    """One pod more beside 10,000 nodes and 100,000 pods, 100 times (p99 ≤ 1 s); at rest (5 % of a core, 1 GB)."""
    nodes = max(10, int(NODES * scale))
    with (
        tempfile.TemporaryDirectory() as name,
        load.store(Path(name), load.STORE | {Component.SCHEDULER}) as plane,
    ):
        load.define(plane, crds.all_crds())
        _make_pool(plane)
        calls = Path(name) / "calls"
        calls.touch()
        asyncio.run(_measure(plane, calls, nodes))


def _make_pool(plane: Plane) -> None:
    account = builders.resource("ProviderAccount", name="aws", region=plane.region)
    plane.api.create(kinds.custom(resources.ProviderAccount).collection(), account)
    pool = builders.resource("InstancePool", name=large_cloud.POOL, providerAccount="aws")
    plane.api.create(kinds.custom(resources.InstancePool).collection(), pool)


async def _measure(plane: Plane, calls: Path, nodes: int) -> None:
    async with load.connected(plane.kubeconfig) as api:
        began = time.monotonic()
        await _fill(api, nodes)
        filled = time.monotonic() - began
        program, options = ("tests.bench.large_runtime", str(nodes), str(calls)), ("--cluster", "bench")
        with processes.runtime(plane, *options, program=program) as process:
            began = time.monotonic()
            await _recorded(api, nodes)
            known = time.monotonic() - began
            idle = await _idle(process)
            taken = [await _take(api, calls, number) for number in range(TIMES)]
            results.tell(
                "large",
                nodes=nodes,
                pods=nodes * PODS_EACH,
                filled_after_seconds=filled,
                recorded_after_seconds=known,
                idle_core_percent=idle,
                p50=statistics.median(taken),
                p99=statistics.quantiles(taken, n=100, method="inclusive")[-1],
                longest=max(taken),
                resident_mb=processes.resident_mb(process.pid),
                peak_mb=processes.peak_mb(process.pid),
            )


async def _fill(api: port.Api, nodes: int) -> None:
    """Make nodes, and pods that are bound to them and leave too little room for what comes."""
    await load.each_of(range(nodes), lambda number: _add_node(api, number))
    print(f"# {nodes} nodes created", file=sys.stderr)
    await load.each_of(range(nodes * PODS_EACH), lambda number: load.create(api, kinds.PODS, _pod(number, nodes)))
    print(f"# {nodes * PODS_EACH} pods created", file=sys.stderr)


async def _add_node(api: port.Api, number: int) -> None:
    one, name = large_cloud.instance(number), f"node-{number:05d}"
    condition = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    body = {
        "metadata": {"name": name, "labels": {**large_cloud.labels(one.zone), "kubernetes.io/hostname": name}},
        "spec": {"providerID": one.provider_id},
        "status": {"capacity": ROOM, "allocatable": ROOM, "conditions": [condition]},
    }
    await load.create(api, kinds.NODES, body)
    # The API server taints a node that comes, and nobody else is there to take that off.
    await load.patch(api, kinds.NODES.path(name), {"spec": {"taints": None}})


def _pod(number: int, nodes: int) -> dict[str, Any]:
    body = load.pod(number, nodes=nodes)
    body["spec"]["nodeName"] = f"node-{number % nodes:05d}"
    body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1500m", "memory": "1Gi"}}
    return body


async def _recorded(api: port.Api, nodes: int) -> None:
    """Wait until each instance has its object, with what is known of it."""
    async with asyncio.timeout(WITHIN_SECONDS):
        while True:
            if await _count_ready(api) == nodes:
                return
            await asyncio.sleep(5)


async def _count_ready(api: port.Api) -> int:
    listed = port.required(await api.send(port.Request(method="GET", path=INSTANCES.collection(), timeout_seconds=60)))
    return sum(each.get("status", {}).get("phase") == "Ready" for each in msgspec.json.decode(listed)["items"])


async def _idle(process: subprocess.Popen[bytes]) -> float:
    """Return what share of a core it takes while nothing happens."""
    await asyncio.sleep(10)
    used, began = processes.cpu_seconds(process.pid), time.monotonic()
    await asyncio.sleep(IDLE_SECONDS)
    return 100 * (processes.cpu_seconds(process.pid) - used) / (time.monotonic() - began)


async def _take(api: port.Api, calls: Path, number: int) -> float:
    """Create a pod that needs a node of its own; return how long it took until one more was asked for."""
    before, started = len(_times(calls)), time.monotonic()
    requests = {"requests": {"cpu": "8", "memory": "1Gi"}}
    spec = {"containers": [{"name": "main", "image": "app:1", "resources": requests}]}
    selector = {"nodeSelector": {keys.INSTANCE_POOL: large_cloud.POOL}}
    await load.create(api, kinds.PODS, {"metadata": {"name": f"guest-{number}"}, "spec": {**spec, **selector}})
    async with asyncio.timeout(WITHIN_SECONDS):
        while True:
            await asyncio.sleep(BETWEEN_SECONDS)
            if len(_times(calls)) > before:
                return _times(calls)[before] - started


def _times(calls: Path) -> list[float]:
    """Return when an instance was asked for, so far."""
    return [float(line) for line in calls.read_text().splitlines()]
