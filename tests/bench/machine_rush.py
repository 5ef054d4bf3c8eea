"""Machines on real parts: how soon a thousand guests that come at once are told or placed, and the status says so.

The real API server, scheduler and StatefulSet controller; nodes are played by KWOK.
"""

import asyncio
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from autoscaler.api import keys
from autoscaler.kube import kinds, port
from tests import builders
from tests.bench import load, processes, results
from tests.e2e.machines import ground
from tools.local import tokens
from tools.local.components import Component, Options
from tools.local.plane import Plane

GUESTS: Final = 1000
EACH: Final = 11
"""So many machines are on a node."""
GROUP: Final = "rush"
LABELS: Final = {"example.com/rush": "yes"}
WITHIN_SECONDS: Final = 600.0
PARTS: Final = frozenset(
    {Component.ETCD, Component.API_SERVER, Component.SCHEDULER, Component.CONTROLLER_MANAGER, Component.KWOK}
)


def machine_rush(scale: float) -> None:
    """1,000 guests of one type at once, on real parts: told or placed, all placed, and in the Machine's status."""
    options = Options(components=PARTS)
    with tempfile.TemporaryDirectory() as name, ground.prepared(Path(name) / "plane", options) as plane:
        account, namespace = Path(name) / "kubeconfig", ground.RUNTIME_NAMESPACE
        tokens.write_kubeconfig(plane.api, account, namespace=namespace, service_account=ground.RUNTIME_ACCOUNT)
        asyncio.run(_rush(plane, account, max(10, int(GUESTS * scale))))


@dataclass(slots=True)
class Seen:
    """When each guest was first placed or told, on the bench's clock."""

    placed: dict[str, float] = field(default_factory=dict)
    told: dict[str, float] = field(default_factory=dict)
    usage: dict[str, int] = field(default_factory=dict)

    def pod(self, pod: dict[str, Any]) -> None:
        if pod["spec"].get("nodeName"):
            self.placed.setdefault(pod["metadata"]["name"], time.monotonic())

    def event(self, event: dict[str, Any]) -> None:
        self.told.setdefault(event["involvedObject"]["name"], time.monotonic())

    def machine(self, machine: dict[str, Any]) -> None:
        said = machine.get("status", {}).get("availableMachines", ())
        self.usage = next((each["usage"] for each in said), {})


async def _rush(plane: Plane, account: Path, guests: int) -> None:
    nodes, seen = 1 + guests // EACH, Seen()
    options = ("--controllers", "machines", "--kubeconfig", str(account), "--namespace", ground.RUNTIME_NAMESPACE)
    async with load.connected(plane.kubeconfig) as api:
        await _make(api, nodes)
        followed = (
            load.follow(api, kinds.PODS.collection(GROUP), seen.pod),
            load.follow(api, kinds.EVENTS.collection(GROUP), seen.event),
            load.follow(api, ground.MACHINES, seen.machine),
        )
        with processes.runtime(plane, *options) as process:  # the later options count
            async with load.running(*followed):
                held = await _until(lambda: seen.usage.get("reserved") == nodes * EACH)
                cpu, started = processes.cpu_seconds(process.pid), time.monotonic()
                made = await _come(api, guests)
                await _until(lambda: len(seen.placed) == guests)
                await _until(lambda: seen.usage.get("used") == guests)
                known = [min(at, seen.told.get(name, at)) for name, at in seen.placed.items()]
                results.tell(
                    "machine_rush",
                    guests=guests,
                    nodes=nodes,
                    held_after_seconds=held,
                    made_after_seconds=made,
                    told_or_placed_after_seconds=max(known) - started,
                    placed_after_seconds=max(seen.placed.values()) - started,
                    in_status_after_seconds=time.monotonic() - started,
                    cpu_seconds=processes.cpu_seconds(process.pid) - cpu,
                    runtime_mb=processes.resident_mb(process.pid),
                )


async def _make(api: port.Api, nodes: int) -> None:
    """Make nodes, a Machine that is all of them, and the guests' namespace."""
    room = {"cpu": str(EACH), "memory": "64Gi", "pods": "110"}

    async def add_node(number: int) -> None:
        metadata = {"name": f"rush-{number}", "labels": LABELS, "annotations": {"kwok.x-k8s.io/node": "fake"}}
        await load.create(api, kinds.NODES, {"metadata": metadata, "status": {"capacity": room, "allocatable": room}})

    await load.each_of(range(nodes), add_node)
    labels = {keys.INJECT_RESOURCE: keys.INJECT_ENABLED}
    await load.create(api, kinds.NAMESPACES, {"metadata": {"name": GROUP, "labels": labels}})
    made = ground.machine_type(cpu="1", memory="1Gi", available=nodes * EACH)
    spec = {"machineTypes": [made], "nodePool": [ground.selected(LABELS)]}
    body = msgspec.json.encode(builders.resource("Machine", name=GROUP, **spec))
    port.required(await api.send(port.Request(method="POST", path=ground.MACHINES, body=body)))


async def _come(api: port.Api, guests: int) -> float:
    """Make the guests; return how long that took."""
    labels = {keys.MACHINE_GROUP: GROUP, keys.MACHINE_TYPE: ground.TYPE}
    spec = {"containers": [{"name": "main", "image": "app:1"}], "terminationGracePeriodSeconds": 1}
    started = time.monotonic()

    async def add(number: int) -> None:
        body = msgspec.json.encode({"metadata": {"name": f"guest-{number}", "labels": labels}, "spec": spec})
        request = port.Request(method="POST", path=kinds.PODS.collection(GROUP), body=body, timeout_seconds=60)
        port.required(await api.send(request))

    await load.each_of(range(guests), add)
    return time.monotonic() - started


async def _until(holds: Any) -> float:
    """Wait until something holds; return for how long."""
    started = time.monotonic()
    async with asyncio.timeout(WITHIN_SECONDS):
        while not holds():  # noqa: ASYNC110  # watches fill it
            await asyncio.sleep(0.02)
    return time.monotonic() - started
