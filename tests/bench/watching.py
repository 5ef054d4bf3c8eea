"""How fast the cluster is read and followed."""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import msgspec

from autoscaler.kube import kinds, objects, port, store
from autoscaler.kube.reading import reflector
from tests.bench import load, pod_indexes, results
from tools.local.plane import REPOSITORY

IDLE_SECONDS: Final = 30.0


def events(scale: float) -> None:
    """Watch events of pods, decoded and put into a table with four indexes (bar: 20,000 a second)."""
    count = int(100_000 * scale)
    lines = [_event(number) for number in range(count)]
    table: store.Table[objects.Pod] = store.Table()
    for function in (pod_indexes.node, pod_indexes.owner, pod_indexes.worker_pool, pod_indexes.unschedulable_shape):
        table.index(function)
    watched = reflector.Reflector(_Nobody(), kinds.PODS, table, objects.pod)
    started, used = time.perf_counter(), results.cpu_seconds()
    for first in range(0, count, 500):
        watched._apply(lines[first : first + 500])
    seconds, used = time.perf_counter() - started, results.cpu_seconds() - used
    results.tell(
        "events",
        events=count,
        events_per_second=int(count / seconds),
        events_per_core_second=int(count / used),
        bytes_each=len(lines[0]),
    )


def informer(scale: float) -> None:
    """Our table beside the client library's informer, on the same 10,000 pods of the same API server."""
    count = int(10_000 * scale)
    with tempfile.TemporaryDirectory() as directory, load.store(Path(directory)) as plane:
        asyncio.run(_fill(plane.kubeconfig, pods_=count, nodes=0))
        (ours,) = _run("tests.bench.follower", str(plane.kubeconfig))[:1]
        (peer,) = _run("tests.bench.informer_peer", str(plane.kubeconfig), str(count))
    results.tell(
        "informer",
        pods=count,
        ours_seconds=ours["seconds"],
        peer_seconds=peer["seconds"],
        times_faster=peer["seconds"] / ours["seconds"],
        ours_objects_mb=ours["of_which_objects_mb"],
        peer_objects_mb=peer["of_which_objects_mb"],
    )


def sync(scale: float) -> None:
    """100,000 pods and 10,000 nodes: synced within 3 bare lists, at most 1 GB, idle under 5 % of a core."""
    count, nodes = int(100_000 * scale), int(10_000 * scale)
    with tempfile.TemporaryDirectory() as directory, load.store(Path(directory)) as plane:
        filled = asyncio.run(_fill(plane.kubeconfig, pods_=count, nodes=nodes))
        bare, size = asyncio.run(_bare(plane.kubeconfig))
        synced, idle = _run(
            "tests.bench.follower", str(plane.kubeconfig), "--idle-seconds", str(max(5.0, IDLE_SECONDS * scale))
        )
        again, _ = asyncio.run(_bare(plane.kubeconfig))
    results.tell(
        "sync",
        pods=synced["pods"],
        nodes=synced["nodes"],
        created_per_second=int((count + nodes) / filled),
        bare_list_seconds=(bare + again) / 2,
        listed_mb=size / 2**20,
        synced_seconds=synced["seconds"],
        ratio=synced["seconds"] / ((bare + again) / 2),
        resident_mb=synced["resident_mb"],
        idle_core_percent=idle["core_percent"],
    )


async def _fill(kubeconfig: Path, *, pods_: int, nodes: int) -> float:
    async with load.connected(kubeconfig) as api:
        return await load.fill(api, pods=pods_, nodes=nodes)


async def _bare(kubeconfig: Path) -> tuple[float, int]:
    async with load.connected(kubeconfig) as api:
        return await load.bare_list(api, kinds.PODS, kinds.NODES)


def _run(module: str, *arguments: str) -> list[dict[str, Any]]:
    """Run a measuring process and return what it told."""
    answer = subprocess.run(
        [sys.executable, "-m", module, *arguments], stdout=subprocess.PIPE, text=True, check=True, cwd=REPOSITORY
    )
    return [json.loads(line) for line in answer.stdout.splitlines() if line.startswith('{"bench"')]


def _event(number: int) -> bytes:
    manifest = load.pod(number % 20_000, nodes=1000)
    manifest["metadata"] |= {
        "namespace": "default",
        "uid": f"uid-{number % 20_000}",
        "resourceVersion": str(number + 1),
        "creationTimestamp": "2026-11-16T06:00:00Z",
    }
    manifest["status"] = {"phase": "Pending" if number < 20_000 else "Running"}
    return msgspec.json.encode({"type": "ADDED" if number < 20_000 else "MODIFIED", "object": manifest})


class _Nobody:
    """An API server that is never asked."""

    async def send(self, request: port.Request) -> port.Response:
        raise NotImplementedError

    def watch(self, path: str, query: Any) -> Any:
        raise NotImplementedError
