"""Where a contract test takes place: the simulated cluster in virtual time, or the real API server.

A test sees a `World` only, so it cannot tell which of the two it is on.
"""

import asyncio
import contextlib
import itertools
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from autoscaler.kube import kinds, port
from autoscaler.kube.connection import client, credentials
from autoscaler.kube.kinds import ResourceType
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cluster import SimulatedCluster
from autoscaler.simulation.kubelet import Kubelets, Run, as_annotated
from autoscaler.simulation.scheduler import Scheduler
from tools.local.plane import Plane

Body = dict[str, Any]
WITHIN_SECONDS = 20.0
SERVICE_ACCOUNTS = ResourceType(
    group="", version="v1", plural="serviceaccounts", kind="ServiceAccount", namespaced=True
)
ALONE = "contract.sluice.dev/alone"
"""Annotation on pods of which no simulated kubelet takes care, as none does on the real side on a bare node."""
_NEVER = 1e6
_NUMBERS = itertools.count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int
    body: Body

    def required(self) -> Body:
        port.required(port.Response(status=self.status, body=json.dumps(self.body).encode()))
        return self.body

    @property
    def reason(self) -> str:
        reason: str = self.body.get("reason", "")
        return reason

    @property
    def message(self) -> str:
        message: str = self.body["message"]
        return message


@dataclass(slots=True, kw_only=True)
class World:
    """A cluster with a namespace of the test's own; what the test makes outside of it is removed at its end."""

    api: port.Api
    namespace: str
    leftovers: list[str] = field(default_factory=list)

    def path(self, resource: ResourceType, name: str, subresource: str | None = None) -> str:
        return resource.path(name, self.namespace, subresource)

    def collection(self, resource: ResourceType) -> str:
        return resource.collection(self.namespace if resource.namespaced else None)

    def unique(self, prefix: str) -> str:
        """Return a name that no other test uses, for objects outside of the namespace."""
        return f"{prefix}-{self.namespace.removeprefix('contract-')}-{next(_NUMBERS)}"

    async def send(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request and return the answer, whatever it says."""
        request = port.Request(
            method=method,
            path=path,
            query=query or {},
            body=None if body is None else json.dumps(body).encode(),
            content_type=port.MERGE_PATCH if method == "PATCH" else port.JSON,
        )
        response = await self.api.send(request)
        return Answer(status=response.status, body=json.loads(response.body))

    async def create(self, resource: ResourceType, body: Body, **query: str) -> Body:
        made = (await self.send("POST", self.collection(resource), body, query=query)).required()
        if not resource.namespaced and not query:
            self.leftovers.append(resource.path(made["metadata"]["name"]))
        return made

    async def get(self, resource: ResourceType, name: str) -> Body:
        return (await self.send("GET", self.path(resource, name))).required()

    async def find(self, resource: ResourceType, name: str) -> Body | None:
        answer = await self.send("GET", self.path(resource, name))
        return None if answer.status == 404 else answer.required()

    async def merge(self, resource: ResourceType, name: str, patch: Body, subresource: str | None = None) -> Body:
        return (await self.send("PATCH", self.path(resource, name, subresource), patch)).required()

    async def delete(self, resource: ResourceType, name: str, options: Body | None = None) -> Body:
        return (await self.send("DELETE", self.path(resource, name), options)).required()

    async def listed(self, resource: ResourceType, **query: str) -> Body:
        return (await self.send("GET", self.collection(resource), query=query)).required()

    async def names(self, resource: ResourceType, **query: str) -> list[str]:
        return [item["metadata"]["name"] for item in (await self.listed(resource, **query))["items"]]

    async def eventually(self, check: Callable[[], Awaitable[Any]], *, within_seconds: float = WITHIN_SECONDS) -> Any:
        """Return the first true value; an assertion that fails means "not yet"."""
        deadline = asyncio.get_running_loop().time() + within_seconds
        while True:
            try:
                seen: object = await check()
                last = repr(seen)
            except AssertionError as error:
                seen, last = None, str(error)
            if seen:
                return seen
            if asyncio.get_running_loop().time() > deadline:
                raise AssertionError(f"not within {within_seconds:g} s; last seen: {last}")
            await asyncio.sleep(0.05)

    async def gone(self, resource: ResourceType, name: str, *, within_seconds: float = WITHIN_SECONDS) -> None:
        async def is_gone() -> bool:
            return await self.find(resource, name) is None

        await self.eventually(is_gone, within_seconds=within_seconds)


class SimulatedStage:
    """Each test has a cluster of its own, with the kubelets' start-up as quick as KWOK's."""

    def run(self, test: Callable[[World], Coroutine[Any, Any, None]]) -> None:
        async def act() -> None:
            cluster = SimulatedCluster(virtual_time.clock(), latency_seconds=0.001)
            cluster.install_definitions()
            cluster.install_policies()
            Scheduler(cluster)
            Kubelets(cluster, script=_quickly)
            async with _opened(cluster.client()) as world:
                await test(world)

        virtual_time.run(act())


@dataclass(frozen=True, slots=True, kw_only=True)
class RealStage:
    """All tests share the plane."""

    plane: Plane

    def run(self, test: Callable[[World], Coroutine[Any, Any, None]]) -> None:
        async def act() -> None:
            real = await client.Client.connect(credentials.KubeConfig(path=self.plane.kubeconfig))
            async with contextlib.aclosing(real), _opened(real) as world:
                await test(world)

        asyncio.run(act())


def _quickly(pod: Body) -> Run:
    if ALONE in (pod["metadata"].get("annotations") or {}):
        return Run(start_seconds=_NEVER, stop_seconds=_NEVER)
    run = as_annotated(pod)
    return Run(start_seconds=0.05, run_seconds=run.run_seconds, exit_code=run.exit_code, stop_seconds=0.05)


@contextlib.asynccontextmanager
async def _opened(api: port.Api) -> AsyncIterator[World]:
    name = f"contract-{secrets.token_hex(3)}"
    world = World(api=api, namespace=name)
    await world.create(kinds.NAMESPACES, {"metadata": {"name": name}})
    await world.eventually(lambda: _has_account(world))
    try:
        yield world
    finally:
        for kind in (kinds.JOBS, kinds.STATEFUL_SETS):
            await world.send("DELETE", world.collection(kind), {"propagationPolicy": "Background"})
        await world.send("DELETE", world.collection(kinds.PODS), {"gracePeriodSeconds": 0})
        for path in reversed(world.leftovers):
            await world.send("DELETE", path)


async def _has_account(world: World) -> bool:
    return await world.find(SERVICE_ACCOUNTS, "default") is not None
