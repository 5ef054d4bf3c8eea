"""How fast waiting pods become asked-for instances, on the real API server and scheduler, with AWS played by moto.

Moto makes instances one by one within the request, so a proxy before it takes the time when a request arrives, and how
long moto took to answer it. There is no registrar: what is measured ends with the request.
"""

import asyncio
import contextlib
import dataclasses
import itertools
import os
import re
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from typing import Any, Final, Self
from urllib import parse

import msgspec

from autoscaler.api import crds, keys, resources
from autoscaler.api.resources.pools import Architecture
from autoscaler.cloud import catalogue
from autoscaler.kube import kinds, objects, port
from tests import builders
from tests.bench import load, processes, results
from tools.local.components import USUAL, Component, Options
from tools.local.groups import IMAGE
from tools.local.plane import Plane
from tools.local.registrar import registrar_cloud

CLUSTER: Final = "bench"
POOL: Final = "bench"
ZONES: Final = ("a", "b", "c")
SIZES: Final = (".xlarge", ".2xlarge", ".4xlarge")
CLIENTS: Final = 12
REPETITIONS: Final = 10
QUIET_SECONDS: Final = 4.0
"""Without a further call: all that was to be asked for was asked for."""
WITHIN_SECONDS: Final = 120.0
IDLE_SECONDS: Final = 120.0
FAST_SCHEDULER: Final = 5000
DEFAULT_SCHEDULER: Final = 50
SET: Final = "SetDesiredCapacity"
COMPONENTS: Final = USUAL - {Component.NODE_REGISTRAR}
_ACTION: Final = re.compile(rb"Action=(\w+)")


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """A request that arrived."""

    at: float
    action: str
    desired: int


class Proxy:
    """Hands bytes on to moto and remembers which requests passed, and how long their answers took."""

    def __init__(self, upstream: str) -> None:
        self._upstream = parse.urlsplit(upstream)
        self.calls: list[Call] = []
        self.moto_seconds: defaultdict[str, float] = defaultdict(float)
        self.url = ""
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def forget(self) -> None:
        self.calls.clear()
        self.moto_seconds.clear()

    def set(self) -> list[Call]:
        """Return the requests for a size."""
        return [call for call in self.calls if call.action == SET]

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_moto = await asyncio.open_connection(self._upstream.hostname, self._upstream.port)
        asked: list[tuple[str, float]] = []
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            await asyncio.gather(self._requests(reader, to_moto[1], asked), self._answers(to_moto[0], writer, asked))
        for each in (writer, to_moto[1]):
            each.close()

    async def _requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: list[tuple[str, float]]
    ) -> None:
        while data := await reader.read(65536):
            found = _ACTION.search(data)
            if found is not None:
                now, action = time.monotonic(), found[1].decode()
                fields = dict(parse.parse_qsl(data[found.start() :].decode(errors="replace")))
                self.calls.append(Call(now, action, int(fields.get("DesiredCapacity", 0))))
                asked.append((action, now))
            writer.write(data)
            await writer.drain()
        writer.close()

    async def _answers(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: list[tuple[str, float]]
    ) -> None:
        while data := await reader.read(1 << 20):
            while asked:  # the first bytes of the answer: moto was done
                action, at = asked.pop(0)
                self.moto_seconds[action] += time.monotonic() - at
            writer.write(data)
            await writer.drain()
        writer.close()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What is measured once."""

    groups: int
    pods: int
    pools: int = 1
    scheduler_qps: int = DEFAULT_SCHEDULER


ROWS: Final = (
    Row(groups=60, pods=1),
    Row(groups=60, pods=100),
    Row(groups=60, pods=100, pools=20),
    Row(groups=200, pods=1),
    Row(groups=200, pods=1000),
    Row(groups=200, pods=1000, scheduler_qps=FAST_SCHEDULER),
)


def reacting(scale: float) -> None:
    """Pods to SetDesiredCapacity, 60 and 200 groups (bars: 1 pod p99 ≤ 1 s; 1,000 within 3 s of the last's mark)."""
    for (groups, qps), rows in itertools.groupby(ROWS, key=lambda row: (row.groups, row.scheduler_qps)):
        with _ground(groups, qps) as (plane, proxy):
            for row in rows:
                asyncio.run(_measure(plane, proxy, row, scale))


def idle_calls(scale: float) -> None:
    """Calls that a quiet runtime with 200 groups makes to AWS, at its start and per minute."""
    seconds = max(20.0, IDLE_SECONDS * scale)
    with _ground(200, DEFAULT_SCHEDULER) as (plane, proxy), _runtime(plane, proxy) as process:
        _wait_until(lambda: _known(plane, 200))
        at_start = dict(Counter(call.action for call in proxy.calls))
        time.sleep(5)
        proxy.forget()
        used, began = processes.cpu_seconds(process.pid), time.monotonic()
        time.sleep(seconds)
        used, spent = processes.cpu_seconds(process.pid) - used, time.monotonic() - began
        results.tell(
            "idle_calls",
            groups=200,
            at_start=at_start,
            per_minute=60 * len(proxy.calls) / spent,
            core_percent=100 * used / spent,
            runtime_mb=processes.resident_mb(process.pid),
        )


async def _measure(plane: Plane, proxy: Proxy, row: Row, scale: float) -> None:
    times = max(3, int(REPETITIONS * scale)) if row.pods == 1 else 1
    takes = [await _take(plane, proxy, row) for _ in range(times)]
    last = takes[-1]
    many = {
        "first_p50": statistics.median(take["first"] for take in takes),
        "first_max": max(take["first"] for take in takes),
        "after_mark_p50": statistics.median(take["after_mark"] for take in takes),
        "after_mark_max": max(take["after_mark"] for take in takes),
        "repetitions": times,
    }
    results.tell("reacting", **dataclasses.asdict(row), **last, **(many if times > 1 else {}))


async def _take(plane: Plane, proxy: Proxy, row: Row) -> dict[str, Any]:
    """Measure once, with a runtime that has just read everything, and clear away."""
    with _runtime(plane, proxy) as process:
        await asyncio.to_thread(_wait_until, lambda: _known(plane, row.groups))
        await asyncio.sleep(1)
        proxy.forget()
        used = processes.cpu_seconds(process.pid)
        async with load.connected(plane.kubeconfig) as api, _marks(api) as marks:
            began = time.monotonic()
            await _create(api, row)
            created = time.monotonic()
            await _quiet(proxy, marks, row.pods)
            await _clear(api)
        calls = proxy.set()
        taken = {
            "first": calls[0].at - began,
            "last": calls[-1].at - began,
            "created": created - began,
            "first_marked": min(marks.values()) - began,
            "last_marked": max(marks.values()) - began,
            "after_mark": calls[-1].at - max(marks.values()),
            "calls": len(calls),
            "nodes": await asyncio.to_thread(_desired, plane),
            "reads": len(proxy.calls) - len(calls),
            "moto_seconds": {action: round(spent, 3) for action, spent in proxy.moto_seconds.items()},
            "runtime_cpu_seconds": processes.cpu_seconds(process.pid) - used,
            "runtime_mb": processes.resident_mb(process.pid),
        }
    await asyncio.to_thread(_empty, plane)
    return taken


async def _create(api: port.Api, row: Row) -> None:
    made = iter(range(row.pods))

    async def work() -> None:
        for number in made:
            selector = {"pool": f"p{number % row.pools}"} if row.pools > 1 else {}
            resources_ = {"requests": {"cpu": "1", "memory": "2Gi"}}
            container = {"name": "main", "image": "app:1", "resources": resources_}
            body = {
                "metadata": {"name": f"pod-{number}"},
                "spec": {"containers": [container], "nodeSelector": selector},
            }
            await _post(api, kinds.PODS, body)

    await asyncio.gather(*(work() for _ in range(min(CLIENTS, row.pods))))


@contextlib.asynccontextmanager
async def _marks(api: port.Api) -> AsyncGenerator[dict[str, float], None]:
    """Note when the scheduler marked each pod as unschedulable, as a watch shows it."""
    path = kinds.PODS.collection(load.NAMESPACE)
    listed = port.required(await api.send(port.Request(method="GET", path=path)))
    version = msgspec.json.decode(listed)["metadata"]["resourceVersion"]
    marks: dict[str, float] = {}

    async def follow() -> None:
        async for batch in api.watch(path, {"resourceVersion": version}):
            for line in batch:
                event = msgspec.json.decode(line, type=_Event)
                if objects.pod(event.object).unschedulable_since is not None:
                    marks.setdefault(objects.pod(event.object).meta.key.name, time.monotonic())

    task = asyncio.create_task(follow())
    await asyncio.sleep(0.2)
    yield marks
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


class _Event(msgspec.Struct):
    object: msgspec.Raw


async def _quiet(proxy: Proxy, marks: dict[str, float], pods: int) -> None:
    """Wait until all pods are marked and nothing more is asked for."""
    async with asyncio.timeout(WITHIN_SECONDS):
        while True:
            newest = max([*marks.values(), *(call.at for call in proxy.set())], default=time.monotonic())
            if len(marks) == pods and proxy.set() and time.monotonic() - newest > QUIET_SECONDS:
                return
            await asyncio.sleep(0.05)


async def _clear(api: port.Api) -> None:
    path = kinds.PODS.collection(load.NAMESPACE)
    body = msgspec.json.encode({"gracePeriodSeconds": 0})
    port.required(await api.send(port.Request(method="DELETE", path=path, body=body, timeout_seconds=60)))


async def _post(api: port.Api, resource: kinds.ResourceType, manifest: dict[str, Any]) -> None:
    path = resource.collection(load.NAMESPACE)
    body = msgspec.json.encode(manifest)
    port.required(await api.send(port.Request(method="POST", path=path, body=body, timeout_seconds=60)))


@contextlib.contextmanager
def _ground(groups: int, scheduler_qps: int) -> Iterator[tuple[Plane, Proxy]]:
    """A plane with one tiny node, and so many groups in its moto."""
    options = Options(components=COMPONENTS, scheduler_qps=scheduler_qps)
    with tempfile.TemporaryDirectory() as directory, Plane.start(Path(directory), options) as plane:
        for definition in crds.all_crds():
            plane.api.create(kinds.DEFINITIONS.collection(), dict(definition))
        _wait_until(lambda: plane.api.request("GET", kinds.custom(resources.InstancePool).collection()).ok)
        plane.api.create("/api/v1/nodes", _tiny_node())
        _make_objects(plane)
        _make_groups(plane, groups)
        with Proxy(plane.aws_endpoint) as proxy:
            yield plane, proxy


def _tiny_node() -> dict[str, Any]:
    room = {"cpu": "100m", "memory": "128Mi", "pods": "1"}
    metadata = {"name": "tiny", "annotations": {"kwok.x-k8s.io/node": "fake"}}
    return {"metadata": metadata, "status": {"capacity": room, "allocatable": room}}


def _make_objects(plane: Plane) -> None:
    account = builders.resource("ProviderAccount", name="aws", region=plane.region)
    plane.api.create(kinds.custom(resources.ProviderAccount).collection(), account)
    pool = builders.resource("InstancePool", name=POOL, providerAccount="aws")
    plane.api.create(kinds.custom(resources.InstancePool).collection(), pool)


def _make_groups(plane: Plane, count: int) -> None:
    types = [
        name
        for name, kind in sorted(catalogue.bundled().items())
        if name.endswith(SIZES) and kind.architecture is Architecture.AMD64 and not kind.gpus
    ]
    ec2 = registrar_cloud.ec2_client(plane.aws_endpoint, plane.region)
    autoscaling = registrar_cloud.autoscaling_client(plane.aws_endpoint, plane.region)
    offerings = itertools.islice(((number, zone) for number in range(len(types)) for zone in ZONES), count)
    for number, zone in offerings:
        kind, name = types[number], f"bench-{number}-{zone}"
        template: Any = {"ImageId": IMAGE, "InstanceType": kind}
        ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData=template)
        tags = {
            keys.TAG_ENABLED: "true",
            keys.INSTANCE_POOL: POOL,
            keys.cluster_tag(CLUSTER): "owned",
            f"{keys.TAG_TEMPLATE_LABEL}pool": f"p{number}",
            f"{keys.TAG_TEMPLATE_LABEL}{keys.INSTANCE_TYPE}": kind,
        }
        autoscaling.create_auto_scaling_group(
            AutoScalingGroupName=name,
            MinSize=0,
            MaxSize=1000,
            DesiredCapacity=0,
            AvailabilityZones=[f"{plane.region}{zone}"],
            LaunchTemplate={"LaunchTemplateName": name, "Version": "1"},
            Tags=[
                {"ResourceId": name, "ResourceType": "auto-scaling-group", "Key": key, "Value": value}
                for key, value in tags.items()
            ],
        )


@contextlib.contextmanager
def _runtime(plane: Plane, proxy: Proxy) -> Iterator[subprocess.Popen[bytes]]:
    """The runtime as a user starts it, with capacity alone."""
    options = ("--controllers", "capacity", "--cluster", CLUSTER)
    environment = {**os.environ, **plane.environment, "AWS_ENDPOINT_URL": proxy.url}
    number = processes.free_port()
    with processes.runtime(plane, *options, listen=number, environment=environment) as process:
        _wait_until(lambda: _is_ready(number))
        yield process


def _is_ready(number: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{number}/readyz", timeout=5):
            return True
    except OSError:
        return False


def _known(plane: Plane, groups: int) -> bool:
    path = kinds.custom(resources.InstancePool).path(POOL)
    status = plane.api.get(path).get("status", {})
    told = status.get("nodeGroups", ())
    return len(told) == groups and not any(group.get("desired") for group in told)


def _sizes(plane: Plane) -> dict[str, int]:
    client = registrar_cloud.autoscaling_client(plane.aws_endpoint, plane.region)
    pages = client.get_paginator("describe_auto_scaling_groups").paginate()
    return {one["AutoScalingGroupName"]: one["DesiredCapacity"] for page in pages for one in page["AutoScalingGroups"]}


def _desired(plane: Plane) -> int:
    return sum(_sizes(plane).values())


def _empty(plane: Plane) -> None:
    client = registrar_cloud.autoscaling_client(plane.aws_endpoint, plane.region)
    for name in [name for name, size in _sizes(plane).items() if size]:
        client.set_desired_capacity(AutoScalingGroupName=name, DesiredCapacity=0)


def _wait_until(check: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_SECONDS
    while not check():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {WITHIN_SECONDS:g} s")
        time.sleep(0.05)
