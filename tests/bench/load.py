"""Fill a real API server with pods and nodes, and read them back the bare way."""

import asyncio
import contextlib
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from autoscaler.kube import kinds, port, wire
from autoscaler.kube.connection import client, credentials
from autoscaler.kube.reading import listing
from tools.local import tokens
from tools.local.components import Component, Options
from tools.local.plane import Plane

T = TypeVar("T")
STORE = frozenset({Component.ETCD, Component.API_SERVER})
NAMESPACE = "default"
WORKERS = 48
SHAPES = 2000
ACCOUNT = "bench"
ADMINISTRATOR = {
    "metadata": {"name": ACCOUNT},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
}


@contextlib.contextmanager
def store(directory: Path, components: frozenset[Component] = STORE) -> Iterator[Plane]:
    """A plane of etcd and API server, in which pods may be created; everybody has a token, as pods do."""
    with Plane.start(directory, Options(components=components)) as plane:
        for name in ("default", ACCOUNT):
            plane.api.create(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"metadata": {"name": name}})
        plane.api.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", ADMINISTRATOR)
        # The API server verifies a client's certificate anew at each request, which costs it 8 % of a write.
        tokens.write_kubeconfig(plane.api, plane.kubeconfig, namespace=NAMESPACE, service_account=ACCOUNT)
        yield plane


@contextlib.contextmanager
def serving(*definitions: Mapping[str, Any]) -> Iterator[Plane]:
    """A plane of etcd and API server that serves these kinds, in a directory of its own."""
    with tempfile.TemporaryDirectory() as directory, store(Path(directory)) as plane:
        define(plane, definitions)
        yield plane


def define(plane: Plane, definitions: Iterable[Mapping[str, Any]]) -> None:
    """Serve kinds, and wait until they are: a definition takes seconds on a busy computer."""
    for definition in definitions:
        plane.api.create(kinds.DEFINITIONS.collection(), dict(definition))
    for definition in definitions:
        spec = definition["spec"]
        path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
        while not plane.api.request("GET", path).ok:
            time.sleep(0.05)


@contextlib.asynccontextmanager
async def connected(kubeconfig: Path) -> AsyncGenerator[client.Client, None]:
    """The product's own client."""
    async with contextlib.aclosing(
        await client.Client.connect(credentials.KubeConfig(path=kubeconfig), connections=WORKERS)
    ) as api:
        yield api


async def follow(api: port.Api, path: str, see: Callable[[dict[str, Any]], None]) -> None:
    """Show each object of a list and each change of it; the server ends a watch now and then, and it is begun anew."""
    while True:
        with contextlib.suppress(port.KubeError):
            await asyncio.sleep(0.1)
            listed = msgspec.json.decode(port.required(await api.send(port.Request(method="GET", path=path))))
            for each in listed["items"]:
                see(each)
            async for batch in api.watch(path, {"resourceVersion": listed["metadata"]["resourceVersion"]}):
                for changed in (msgspec.json.decode(line)["object"] for line in batch):
                    if changed["kind"] != "Status":  # the watch tells of an error
                        see(changed)


@contextlib.asynccontextmanager
async def running(*work: Coroutine[Any, Any, None]) -> AsyncGenerator[None, None]:
    """Run something beside what is measured, until that ends."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def each_of(things: Iterable[T], do: Callable[[T], Awaitable[object]], *, clients: int = WORKERS) -> None:
    """Do something with each of many, some at a time."""
    left = iter(things)

    async def work() -> None:
        for thing in left:
            await do(thing)

    await asyncio.gather(*(work() for _ in range(clients)))


async def create(api: port.Api, resource: kinds.ResourceType, body: Mapping[str, Any]) -> bytes:
    """Create an object; return the server's answer as it came, since a bare client reads nothing of it."""
    path = resource.collection(NAMESPACE if resource.namespaced else None)
    request = port.Request(method="POST", path=path, body=msgspec.json.encode(body), timeout_seconds=60)
    return port.required(await api.send(request))


async def patch(api: port.Api, path: str, changes: Mapping[str, Any]) -> None:
    """Send a merge patch."""
    body = msgspec.json.encode(changes)
    request = port.Request(method="PATCH", path=path, body=body, content_type=port.MERGE_PATCH, timeout_seconds=60)
    port.required(await api.send(request))


def pod(number: int, *, nodes: int) -> dict[str, Any]:
    """A pod like many: a request, labels, an owner; every tenth waits for a node."""
    spec: dict[str, Any] = {
        "containers": [
            {
                "name": "main",
                "image": "example.com/app:1",
                "resources": {"requests": {"cpu": f"{100 + number % SHAPES}m", "memory": "128Mi"}},
                "env": [{"name": f"VARIABLE_{index}", "value": "some value or other"} for index in range(8)],
            }
        ],
        "automountServiceAccountToken": False,
    }
    if nodes and number % 10:
        spec["nodeName"] = f"node-{number % nodes:05d}"
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"app-{number % 500}", "controller": True}
    return {
        "metadata": {
            "name": f"pod-{number:06d}",
            "labels": {"app": f"app-{number % 500}", "pod-template-hash": "5d69f7c9b"},
            "ownerReferences": [{**owner, "uid": f"00000000-0000-0000-0000-{number % 500:012d}"}],
        },
        "spec": spec,
    }


def node(number: int) -> dict[str, Any]:
    """A node as a kubelet registers it."""
    resources = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    return {
        "metadata": {"name": f"node-{number:05d}", "labels": {"topology.kubernetes.io/zone": f"zone-{number % 3}"}},
        "spec": {"providerID": f"aws:///zone-{number % 3}/i-{number:017x}"},
        "status": {"capacity": resources, "allocatable": resources},
    }


async def fill(api: port.Api, *, pods: int, nodes: int) -> float:
    """Create everything; return the seconds it took."""
    started = time.monotonic()
    space = kinds.PODS.collection(NAMESPACE)
    work = [(kinds.NODES.collection(), node(number)) for number in range(nodes)]
    await _create(api, iter(work), len(work), "nodes")
    await _create(api, ((space, pod(number, nodes=nodes)) for number in range(pods)), pods, "pods")
    return time.monotonic() - started


async def _create(api: port.Api, work: Iterator[tuple[str, dict[str, Any]]], total: int, what: str) -> None:
    done = 0

    async def worker() -> None:
        nonlocal done
        for path, manifest in work:
            request = port.Request(method="POST", path=path, body=msgspec.json.encode(manifest), timeout_seconds=60)
            port.required(await api.send(request))
            done += 1
            if done % 10_000 == 0:
                print(f"# {done} of {total} {what} created", file=sys.stderr)

    await asyncio.gather(*(worker() for _ in range(WORKERS)))


async def bare_list(api: port.Api, *resources: kinds.ResourceType) -> tuple[float, int]:
    """Read all pages of all kinds, decoding nothing but where the next page is; return seconds and bytes."""
    started = time.monotonic()
    size = 0
    for resource in resources:
        query = {"limit": str(listing.PAGE)}
        while True:
            request = port.Request(method="GET", path=resource.collection(), query=query, timeout_seconds=60)
            body = port.required(await api.send(request))
            size += len(body)
            token = wire.LISTING.decode(body).metadata.continue_
            if not token:
                break
            query["continue"] = token
    return time.monotonic() - started, size
