"""Whom pools may ask, on a real API server, as the runtime's own process does it."""

import asyncio
import ipaddress
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e import replicas, waiting
from tests.e2e.workers import ground, queue_servers
from tools.local.plane import Plane

WORKERS = ("--controllers", "workers")


@pytest.fixture
def own_address() -> str:
    """An address of this computer that is not loopback; nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        address: str = probe.getsockname()[0]
    assert not ipaddress.ip_address(address).is_global, f"{address} is public: these tests need a private one"
    return address


@pytest.fixture
def private_queue(own_address: str) -> Iterator[str]:
    """A queue of two jobs at this computer's own address."""
    ready, stop = threading.Event(), threading.Event()
    bound: list[int] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\n2")
        await writer.drain()
        writer.close()

    async def serve() -> None:
        async with await asyncio.start_server(answer, own_address, 0) as server:
            bound.append(server.sockets[0].getsockname()[1])
            ready.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    assert ready.wait(10)
    yield f"http://{own_address}:{bound[0]}/jobs"
    stop.set()
    thread.join(10)


def refusal(site: ground.Ground, name: str, reason: str, *said: str) -> None:
    """See that a pool is refused, by condition and by event, and makes nothing."""
    waiting.eventually(lambda: site.condition(name, "Ready").get("reason") == reason)
    condition = site.condition(name, "Ready")
    event = site.wait_for_event(name, "FailedToReconcile")
    assert (condition["status"], event["type"]) == ("False", "Warning")
    for words in said:
        assert words in condition["message"]
        assert words in event["message"]
    assert "queueSize" not in site.status(name), "nobody knows"
    assert not site.workers(name)


@pytest.mark.accept("W22", "W26")
def test_without_a_grant_neither_loopback_nor_the_api_server_nor_private_addresses_nor_other_tenants_are_asked(
    alone: ground.Ground, served: Plane, tmp_path: Path, queues: queue_servers.Queues, private_queue: str
) -> None:
    alone.make_pool("loopback", queues.fill("loopback", 2))
    alone.make_pool("api", f"https://127.0.0.1:{served.blueprint.ports.api_server}/api")
    alone.make_pool("link-local", "http://169.254.169.254/latest/meta-data")
    alone.make_pool("private", private_queue)
    alone.make_pool("tenant", "http://web.tenant-b.svc/jobs")
    with (
        replicas.copy_of(served, tmp_path) as kubeconfig,
        replicas.Replica(kubeconfig, alone.namespace, "strict", *WORKERS, program=replicas.RUNTIME) as replica,
    ):
        replicas.ready(replica)
        refusal(alone, "loopback", "EndpointRefused", "127.0.0.1", "loopback")
        refusal(alone, "api", "EndpointRefused", "127.0.0.1", "loopback")
        refusal(alone, "link-local", "EndpointRefused", "169.254.169.254", "link-local")
        key = f"autoscaler.queueAccess: {{{alone.namespace}: {{"
        refusal(alone, "private", "EndpointNotAllowed", alone.namespace, key, "cidrs: ")
        refusal(alone, "tenant", "EndpointNotAllowed", "web.tenant-b.svc", alone.namespace, key, "[tenant-b]")
    assert not queues.asked("loopback")


@pytest.mark.accept("W22", "W26")
def test_what_a_namespace_is_granted_it_may_ask_and_the_api_server_never(
    alone: ground.Ground, served: Plane, tmp_path: Path, own_address: str, private_queue: str
) -> None:
    block = f"{own_address}/32"
    granted = {alone.namespace: {"cidrs": [block], "namespaces": ["tenant-b"]}, "other": {"namespaces": ["tenant-c"]}}
    alone.make_pool("private", private_queue)
    alone.make_pool("tenant", "http://web.tenant-b.svc/jobs")
    alone.make_pool("third", "http://web.tenant-c.svc/jobs")
    alone.make_pool("api", f"https://127.0.0.1:{served.blueprint.ports.api_server}/api")
    alone.make_pool("elsewhere", f"https://{own_address}:1/api")
    flags = (*WORKERS, "--allow-loopback-queues", "--api-servers", "https://52.9.9.9")
    with (
        replicas.copy_of(served, tmp_path) as kubeconfig,
        replicas.Replica(
            kubeconfig,
            alone.namespace,
            "granting",
            *flags,
            program=replicas.RUNTIME,
            environment={"SLUICE_QUEUE_ACCESS": json.dumps(granted)},
        ) as replica,
    ):
        replicas.ready(replica)
        alone.wait_for_workers("private", 2)
        alone.wait_for_status("private", queueSize=2, queueEndpoint=private_queue)
        refusal(alone, "third", "EndpointNotAllowed", "web.tenant-c.svc", "[tenant-c]")
        refusal(alone, "api", "EndpointRefused", "127.0.0.1", "API server")
        waiting.eventually(lambda: alone.condition("tenant", "Ready").get("reason") == "Unreachable")  # no DNS here
        waiting.eventually(lambda: alone.condition("elsewhere", "Ready").get("reason") == "Unreachable")
        alone.change("elsewhere", queue={"source": {"endpoint": "https://52.9.9.9/api"}})
        waiting.eventually(lambda: alone.condition("elsewhere", "Ready").get("reason") == "EndpointRefused")
        assert "API server" in alone.condition("elsewhere", "Ready")["message"]
