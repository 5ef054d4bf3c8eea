"""Where a contract test of the cloud takes place: the simulated cloud in virtual time, or moto behind the ASG rules.

A test sees a `World` only, so it cannot tell which of the two it is on. `real` has the other one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

from autoscaler.api import keys
from autoscaler.api.resources.types import Taint
from autoscaler.api.settings.node_groups import NodeGroupKey, NodeGroupSpec
from autoscaler.cloud import port
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cloud import SimulatedCloud
from autoscaler.simulation.cloud.faults import Call, Effect
from autoscaler.simulation.cloud.model import Obstacle, Pace

T = TypeVar("T")
WITHIN_SECONDS = 20.0
ZONE = "eu-west-1b"
CLUSTER = "contract"


class World(Protocol):
    """A cloud, the cluster's view of it, and what a test may do behind the cluster's back."""

    cloud: port.Cloud
    interruptions: port.Interruptions

    def now(self) -> float: ...

    async def add(
        self, spec: NodeGroupSpec, *, cluster: str = CLUSTER, desired: int | None = None, is_protecting: bool = True
    ) -> port.GroupName: ...

    async def remove(self, name: port.GroupName) -> None: ...

    async def give_away(self, name: port.GroupName, cluster: str) -> None: ...

    async def resize(self, name: port.GroupName, *, minimum: int, maximum: int) -> None: ...

    async def retemplate(self, name: port.GroupName) -> None: ...

    async def desired_of(self, name: port.GroupName) -> int:
        """Return what the cloud itself says, whoever asks."""
        ...

    async def protected_of(self, name: port.GroupName) -> set[str]:
        """Return the instances that the cloud itself does not end by a lower desired capacity."""
        ...

    def hinder(self, failure: port.LaunchFailure, *, zone: str, instance_type: str) -> None: ...

    def relieve(self) -> None: ...

    def fault(self, effect: Effect, call: Call, *, times: int | None = 1) -> None: ...

    def clear_faults(self) -> None: ...

    def sent(self, call: Call) -> int:
        """Return how often the cloud was asked this so far."""
        ...

    async def announce_interruption(self, instance: port.InstanceId) -> None: ...

    async def announce_rebalance(self, instance: port.InstanceId) -> None: ...


Test = Callable[[World], Coroutine[Any, Any, None]]


class SimulatedWorld:
    """The simulated cloud."""

    def __init__(self) -> None:
        self._cloud = SimulatedCloud(
            virtual_time.clock(), pace=Pace(pending_seconds=2.0, terminate_seconds=2.0, retry_seconds=2.0)
        )
        self._client = self._cloud.client(CLUSTER)
        self.cloud: port.Cloud = self._client
        self.interruptions: port.Interruptions = self._cloud.interruptions()

    def now(self) -> float:
        return self._cloud.clock.now()

    async def add(
        self, spec: NodeGroupSpec, *, cluster: str = CLUSTER, desired: int | None = None, is_protecting: bool = True
    ) -> port.GroupName:
        return self._cloud.add(spec, cluster=cluster, desired=desired, is_protecting=is_protecting).name

    async def remove(self, name: port.GroupName) -> None:
        self._cloud.remove(name)

    async def give_away(self, name: port.GroupName, cluster: str) -> None:
        self._cloud.give_away(name, cluster)

    async def resize(self, name: port.GroupName, *, minimum: int, maximum: int) -> None:
        self._cloud.resize(name, minimum=minimum, maximum=maximum)

    async def retemplate(self, name: port.GroupName) -> None:
        self._cloud.retemplate(name, port.Template(image_id="ami-2", user_data_sha256="1" * 64))

    async def desired_of(self, name: port.GroupName) -> int:
        return self._cloud.groups[name].desired

    async def protected_of(self, name: port.GroupName) -> set[str]:
        own = [one for one in self._cloud.instances.values() if one.group == name and one.is_listed]
        return {one.id for one in own if one.is_protected}

    def hinder(self, failure: port.LaunchFailure, *, zone: str, instance_type: str) -> None:
        self._cloud.hinder(Obstacle(failure=failure, zone=zone, instance_type=instance_type))

    def relieve(self) -> None:
        self._cloud.relieve()

    def fault(self, effect: Effect, call: Call, *, times: int | None = 1) -> None:
        self._cloud.faults.add(effect, call, times=times)

    def clear_faults(self) -> None:
        self._cloud.faults.clear()

    def sent(self, call: Call) -> int:
        return self._client.calls[call]

    async def announce_interruption(self, instance: port.InstanceId) -> None:
        self._cloud.interrupt(instance)

    async def announce_rebalance(self, instance: port.InstanceId) -> None:
        self._cloud.recommend_rebalance(instance)


class SimulatedStage:
    """Each test has a cloud of its own."""

    def run(self, test: Test) -> None:
        async def act() -> None:
            await test(SimulatedWorld())

        virtual_time.run(act())


async def eventually(check: Callable[[], Awaitable[T | None]], *, within_seconds: float = WITHIN_SECONDS) -> T:
    """Return the first true value; an assertion that fails means "not yet"."""
    deadline = asyncio.get_running_loop().time() + within_seconds
    while True:
        try:
            seen = await check()
            last = repr(seen)
        except AssertionError as error:
            seen, last = None, str(error)
        if seen:
            return seen
        if asyncio.get_running_loop().time() > deadline:
            raise AssertionError(f"not within {within_seconds:g} s; last seen: {last}")
        await asyncio.sleep(0.1)


def spec(
    name: str,
    *,
    pool: str = "batch",
    zone: str = ZONE,
    instance_type: str = "m5.large",
    minimum: int = 0,
    maximum: int = 5,
) -> NodeGroupSpec:
    """Return a group as the stack's grid lays it out."""
    labels = {
        keys.ZONE: zone,
        keys.INSTANCE_TYPE: instance_type,
        keys.ARCHITECTURE: "amd64",
        keys.INSTANCE_POOL: pool,
        "team": "research",
    }
    taint = Taint.model_validate({"key": keys.INSTANCE_POOL, "value": pool, "effect": "PreferNoSchedule"})
    resources = {"ephemeral-storage": "20Gi", keys.GPU_RESOURCE: "1"}
    return NodeGroupSpec.model_validate(
        {
            "key": NodeGroupKey(pool=pool, zone=zone, instance_type=instance_type),
            "name": name,
            "minimum": minimum,
            "maximum": maximum,
            "architecture": "amd64",
            "vcpus": 2,
            "memory_bytes": 8 * 1024**3,
            "max_pods": 29,
            "labels": labels,
            "taints": (taint,),
            "resources": resources,
            "tags": tags(pool, labels, taint, resources),
        }
    )


def tags(pool: str, labels: dict[str, str], taint: Taint, resources: dict[str, str]) -> dict[str, str]:
    """Return the tags of such a group, all but the cluster's own."""
    return {
        keys.TAG_ENABLED: "true",
        keys.INSTANCE_POOL: pool,
        **{f"{keys.TAG_TEMPLATE_LABEL}{key}": value for key, value in labels.items()},
        f"{keys.TAG_TEMPLATE_TAINT}{taint.key}": f"{taint.value}:{taint.effect}",
        **{f"{keys.TAG_TEMPLATE_RESOURCES}{key}": value for key, value in resources.items()},
    }


async def group_of(world: World, name: port.GroupName) -> port.NodeGroup:
    """Return a group of the cluster as it is now."""
    listing = await world.cloud.groups([name])
    assert [group.name for group in listing.groups] == [name]
    return listing.groups[0]


async def in_service(world: World, name: port.GroupName, count: int) -> port.NodeGroup:
    """Wait until a group has so many instances, all of them in service."""

    async def check() -> port.NodeGroup | None:
        group = await group_of(world, name)
        states = [one.lifecycle for one in group.instances]
        assert states == [port.Lifecycle.IN_SERVICE] * count, states
        return group

    return await eventually(check)


async def with_instances(world: World, name: str, count: int, **more: Any) -> port.NodeGroup:
    """Make a group and wait for its instances."""
    made = await world.add(spec(name, **{key: more.pop(key) for key in ("minimum", "maximum") if key in more}), **more)
    group = await group_of(world, made)
    outcome = await world.cloud.set_desired(group, count)
    assert outcome.verdict is port.Verdict.LANDED
    return await in_service(world, made, count)
