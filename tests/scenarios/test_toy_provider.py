"""A third provider is one file: it has the port's methods alone, and its instances come, work and go like others."""

import asyncio
import contextlib
import itertools
from collections.abc import Collection, Mapping

import pytest

from autoscaler import control
from autoscaler.api import keys, resources
from autoscaler.api.resources.accounts import ProviderAccountSpec
from autoscaler.api.settings.node_groups import NodeGroupKey
from autoscaler.cloud import catalogue
from autoscaler.cloud import port as cloud
from autoscaler.kube import kinds, port
from autoscaler.runtime import account_credentials, process
from tests import builders
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios import capacity_world, running
from tests.scenarios.capacity_world import World

KIND = "m5.xlarge"
NAME = cloud.GroupName("shelf")
KEY = NodeGroupKey(pool="shelf", zone="cellar", instance_type=KIND)
LABELS = {keys.INSTANCE_POOL: KEY.pool, keys.ZONE: KEY.zone, keys.INSTANCE_TYPE: KIND}


class Shelf:
    """The provider: one shelf of three computers, which are switched on and off at once."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._numbers = itertools.count(1)
        self.desired = 0
        self.computers: dict[cloud.InstanceId, cloud.InstanceTimes] = {}

    async def groups(self, names: Collection[cloud.GroupName] | None = None) -> cloud.Listing:
        return cloud.Listing(groups=(self._group(),) if names is None or NAME in names else ())

    async def set_desired(self, group: cloud.NodeGroup, desired: int) -> cloud.Outcome:
        self.desired = desired
        for _ in range(len(group.members), desired):
            self._switch_on(cloud.InstanceId(f"computer-{next(self._numbers)}"))
        return self._landed()

    async def terminate(self, group: cloud.NodeGroup, instance: cloud.InstanceId, *, decrement: bool) -> cloud.Outcome:
        assert group.name == NAME
        began = self.computers[instance].launched_at
        self.computers[instance] = cloud.InstanceTimes(launched_at=began, is_over=True, ended_at=self._now())
        self._world.cluster.server.handle(port.Request(method="DELETE", path=kinds.NODES.path(instance)), "admin")
        self.desired -= decrement
        return self._landed()

    async def activities(self, group: cloud.GroupName, *, since: float) -> tuple[cloud.Activity, ...]:
        assert (group, since) >= (NAME, 0.0)
        return ()

    async def lives(self, instances: Collection[cloud.InstanceId]) -> Mapping[cloud.InstanceId, cloud.InstanceTimes]:
        return {one: self.computers[one] for one in instances if one in self.computers}

    async def templates(self, templates: Collection[cloud.TemplateRef]) -> Mapping[cloud.TemplateRef, cloud.Template]:
        assert not templates
        return {}

    async def images(self, templates: Collection[cloud.TemplateRef]) -> Mapping[cloud.TemplateRef, str]:
        assert not templates
        return {}

    async def aclose(self) -> None:
        """Nothing is open."""

    def running(self) -> list[cloud.InstanceId]:
        return [one for one, life in self.computers.items() if not life.is_over]

    def _now(self) -> float:
        return self._world.cloud.clock.now()

    def _landed(self) -> cloud.Outcome:
        return cloud.Outcome(verdict=cloud.Verdict.LANDED, group=self._group())

    def _group(self) -> cloud.NodeGroup:
        there = [cloud.Instance(id=one, zone=KEY.zone, lifecycle=cloud.Lifecycle.IN_SERVICE) for one in self.running()]
        node = cloud.NodeTemplate(labels=LABELS)
        return cloud.NodeGroup(
            name=NAME, key=KEY, minimum=0, maximum=3, desired=self.desired, instances=tuple(there), node=node
        )

    def _switch_on(self, name: cloud.InstanceId) -> None:
        self.computers[name] = cloud.InstanceTimes(launched_at=self._now(), is_over=False)
        offered = catalogue.bundled()[KIND].allocatable()
        room = {each: f"{amount}m" if each == "cpu" else str(amount) for each, amount in offered.items()}
        provider_id = cloud.Instance(id=name, zone=KEY.zone, lifecycle=cloud.Lifecycle.IN_SERVICE).provider_id
        self._world.cluster.create(
            kinds.NODES,
            {
                "metadata": {"name": name, "labels": {**LABELS, keys.HOSTNAME: name, keys.ARCHITECTURE: "amd64"}},
                "spec": {"providerID": provider_id},
                "status": {"capacity": room, "allocatable": room},
            },
        )


def add_account(world: World, name: str) -> None:
    """Make an account that has no region, and a pool in it."""
    account = builders.resource("ProviderAccount", name=name, provider="static", region=...)
    world.cluster.create(kinds.custom(resources.ProviderAccount), account)
    world.add_pool(name, providerAccount=name, zones=(), limits__maxIdleSeconds=60)


def runtime(world: World, others: Mapping[str, cloud.Cloud]) -> contextlib.AbstractAsyncContextManager[process.Process]:
    """Run a replica on these clouds; one that is not among them is what its account says, or the simulated one."""

    async def open_cloud(context: control.ControllerContext, name: str, spec: object) -> cloud.Cloud:
        assert isinstance(spec, ProviderAccountSpec)
        if name in others:
            return others[name]
        return (
            world.cloud.client() if spec.region else await account_credentials.open_cloud(context.api, "x", name, spec)
        )

    return running.replica(world.cluster, capacity_world.registrations(world, open_cloud))


@pytest.mark.accept("P2")
@simulated
async def test_a_provider_of_one_file_is_scaled_up_and_down_and_stands_in_the_books() -> None:
    world = World()
    add_account(world, "shelf")
    shelf = Shelf(world)
    async with runtime(world, {"shelf": shelf}):
        await asyncio.sleep(5)
        for number in range(4):
            world.add_pod(f"p-{number}", cpu="3")
        await asyncio.sleep(30)
        assert len(shelf.running()) == len(world.bound()) == 3
        assert " of at most " in world.events("NotTriggerScaleUp")[0]["message"]
        assert {each["status"]["phase"] for each in world.instances()} == {"Ready"}
        for number in range(4):
            world.delete_pod(f"p-{number}")
        await asyncio.sleep(180)
        assert (shelf.running(), shelf.desired, world.nodes()) == ([], 0, [])
        counted = sum(each["status"]["months"]["2026-01"]["seconds"] for each in world.instances())
        lived = sum((life.ended_at or 0.0) - life.launched_at for life in shelf.computers.values())
        assert 0 <= lived - counted <= 2 * len(shelf.computers)  # a life is cut to whole seconds at both ends


@pytest.mark.accept("P2")
@simulated
async def test_fixed_nodes_are_used_and_never_grow_while_another_provider_serves_the_rest() -> None:
    world = World()
    add_account(world, "fixed")
    world.add_pool(zones=("a",))
    room = {"cpu": "4", "memory": "16Gi", "pods": "10"}
    status = {"capacity": room, "allocatable": room}
    metadata = {"name": "fixed", "labels": {keys.INSTANCE_POOL: "fixed"}}
    world.cluster.create(kinds.NODES, {"metadata": metadata, "status": status})
    async with runtime(world, {}):
        await asyncio.sleep(5)
        world.add_pod("stays", cpu="3", nodeSelector={keys.INSTANCE_POOL: "fixed"})
        await asyncio.sleep(5)
        world.add_pod("waits", cpu="3", nodeSelector={keys.INSTANCE_POOL: "fixed"})
        world.add_pod("moves", cpu="3")
        await asyncio.sleep(60)
        assert world.bound().keys() == {"stays", "moves"}
        assert world.bound()["stays"] == "fixed"
        assert world.desired() == {"workers-a-m5.xlarge": 1}
        assert [event["involvedObject"]["name"] for event in world.events("NotTriggerScaleUp")] == ["waits"]
        world.delete_pod("stays")
        world.delete_pod("waits")
        await asyncio.sleep(600)
        assert "fixed" in {node["metadata"]["name"] for node in world.nodes()}
