"""Replicas for scenarios with several accounts, and with processes that are killed at one of their writes."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, cast

from autoscaler import control
from autoscaler.api import resources
from autoscaler.api.settings.node_groups import NodeGroupKey
from autoscaler.cloud import port as cloud
from autoscaler.kube import kinds, port
from autoscaler.runtime import process
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cloud import SimulatedCloud
from tests import builders
from tests.scenarios import capacity_world, running
from tests.scenarios.capacity_world import World

Clouds = Mapping[str, SimulatedCloud]
T = TypeVar("T")


def add_account(world: World, name: str, *, pool: str, zones: tuple[str, ...] = ("a",)) -> SimulatedCloud:
    """Make an account with a cloud of its own, and a pool in it."""
    made = SimulatedCloud(virtual_time.clock())
    made._numbers = itertools.count(1_000_000)  # no two clouds name an instance alike
    made.on_in_service += world.cloud.on_in_service
    made.on_gone += world.cloud.on_gone
    world.cluster.create(kinds.custom(resources.ProviderAccount), builders.resource("ProviderAccount", name=name))
    world.cluster.create(
        kinds.custom(resources.InstancePool), builders.resource("InstancePool", name=pool, providerAccount=name)
    )
    near = world.cloud
    world.cloud = made
    for zone in zones:
        world.add_group(NodeGroupKey(pool=pool, zone=zone, instance_type="m5.xlarge"))
    world.cloud = near
    return made


def replica(
    world: World, pod: str = "a", *, others: Clouds | None = None, death: "Death | None" = None
) -> contextlib.AbstractAsyncContextManager[process.Process]:
    """Run a replica that scales the world's nodes, and those of other accounts, until it dies."""

    async def open_cloud(context: control.ControllerContext, name: str, spec: object) -> cloud.Cloud:
        del context, spec
        made = (others or {}).get(name, world.cloud).client()
        return cast("cloud.Cloud", MortalCloud(made, death)) if death is not None else made

    made = capacity_world.registrations(world, open_cloud)
    wrap = partial(MortalApi, death=death) if death is not None else None
    return running.replica(world.cluster, made, pod=pod, wrap=wrap)


@dataclass
class Death:
    """When a process is killed: just before one of its writes is sent, or just after it was done.

    From then on nothing is sent and nothing arrives, as after SIGKILL.
    """

    at: int
    """The number of the write, of those that are told; 0: never."""
    is_after: bool
    told: Callable[[str], bool]
    """Which writes count, by what they are to: a path, or the name of a group."""
    late_seconds: float | None = None
    """The write is in the wire when the process dies, and arrives so much later; None: it is not sent."""
    writes: int = 0
    is_dead: bool = False

    async def die_at(self, what: str, act: Callable[[], Awaitable[T]]) -> T:
        """Do a write, unless it comes too late."""
        await self.hang_if_dead()
        self.writes += self.told(what)
        is_last = self.told(what) and self.writes == self.at
        self.is_dead = is_last and not self.is_after
        if self.is_dead and self.late_seconds is not None:
            await asyncio.sleep(self.late_seconds)
            await act()
        await self.hang_if_dead()
        done = await act()
        self.is_dead = self.is_dead or is_last
        await self.hang_if_dead()
        return done

    async def hang_if_dead(self) -> None:
        if self.is_dead:
            await asyncio.Event().wait()


class MortalApi:
    """The API as a process sees it that will be killed."""

    def __init__(self, api: port.Api, death: Death) -> None:
        self._api, self._death = api, death

    async def send(self, request: port.Request) -> port.Response:
        if request.method == "GET" or "/leases" in request.path:
            await self._death.hang_if_dead()
            return await self._api.send(request)
        return await self._death.die_at(request.path, lambda: self._api.send(request))

    async def watch(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[Sequence[bytes], None]:
        async with contextlib.aclosing(self._api.watch(path, query)) as batches:
            async for batch in batches:
                await self._death.hang_if_dead()
                yield batch


class MortalCloud:
    """The cloud as a process sees it that will be killed."""

    def __init__(self, made: cloud.Cloud, death: Death) -> None:
        self._cloud, self._death = made, death

    def __getattr__(self, name: str) -> Any:  # all that is read passes
        return getattr(self._cloud, name)

    async def set_desired(self, group: cloud.NodeGroup, desired: int) -> cloud.Outcome:
        return await self._death.die_at(group.name, lambda: self._cloud.set_desired(group, desired))

    async def terminate(self, group: cloud.NodeGroup, instance: cloud.InstanceId, *, decrement: bool) -> cloud.Outcome:
        return await self._death.die_at(group.name, lambda: self._cloud.terminate(group, instance, decrement=decrement))
