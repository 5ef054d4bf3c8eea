"""The StatefulSet controller where a real one would take long, or does not tell what it refuses."""

import asyncio
from typing import Any

import pytest

from autoscaler.api.manifests import Manifest
from autoscaler.kube import kinds
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cluster import SimulatedCluster, failures
from autoscaler.simulation.cluster.store import Change, Key
from tests.autoscaler.kube.cluster import simulated

NAMESPACE, NAME = "default", "room"
LABELS = {"app": "sleeper"}


class World:
    """A cluster with one StatefulSet and no nodes."""

    def __init__(self, **spec: Any) -> None:
        self.cluster = SimulatedCluster(virtual_time.clock())
        self.times: list[float] = []
        """When a pod was made."""
        self.cluster.server.store.collection(kinds.PODS).listeners.append(self._note)
        template = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "main", "image": "none"}]}}
        whole = {"podManagementPolicy": "Parallel", "selector": {"matchLabels": LABELS}, "template": template, **spec}
        self.cluster.create(kinds.STATEFUL_SETS, {"metadata": {"name": NAME, "namespace": NAMESPACE}, "spec": whole})

    def _note(self, change: Change) -> None:
        if change.before is None:
            self.times.append(asyncio.get_running_loop().time())

    def pods(self) -> list[str]:
        return sorted(key.name for key in self.cluster.server.store.collection(kinds.PODS).entries)

    def take_name(self, name: str) -> None:
        spec = {"containers": [{"name": "main", "image": "none"}]}
        self.cluster.create(kinds.PODS, {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})

    def remove(self, name: str) -> None:
        found = self.cluster.server.store.find(kinds.PODS, Key(NAMESPACE, name))
        assert found is not None
        self.cluster.server.store.remove(kinds.PODS, found.object)


@simulated
async def test_a_name_that_is_taken_is_tried_for_after_twice_as_long_each_time() -> None:
    world = World(replicas=0)
    world.take_name("room-0")
    _scale(world, 1)
    await asyncio.sleep(60)
    assert world.pods() == ["room-0"]
    world.remove("room-0")
    begun = asyncio.get_running_loop().time()
    await asyncio.sleep(200)
    assert world.pods() == ["room-0"]
    assert 10 < world.times[-1] - begun < 90  # nobody tells the controller that the name is free


@simulated
async def test_what_is_made_at_a_time_doubles_so_a_taken_name_spares_only_those_beside_it() -> None:
    world = World(replicas=0)
    world.take_name("room-1")
    _scale(world, 6)
    await asyncio.sleep(10)
    assert world.pods() == ["room-0", "room-1", "room-2"]


@simulated
async def test_many_pods_are_made_at_once() -> None:
    world = World(replicas=2000)
    await asyncio.sleep(1)
    assert len(world.pods()) == 2000


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"minReadySeconds": 5}, id="a time to be ready"),
        pytest.param({"volumeClaimTemplates": [{"metadata": {"name": "disk"}}]}, id="volumes"),
    ],
)
def test_what_is_not_simulated_is_refused(spec: Manifest) -> None:
    @simulated
    async def create() -> None:
        World(**spec)

    with pytest.raises(failures.Refusal, match="not simulated"):
        create()


def _scale(world: World, replicas: int) -> None:
    key = Key(NAMESPACE, NAME)
    found = world.cluster.server.store.find(kinds.STATEFUL_SETS, key)
    assert found is not None
    body, metadata = found.object, found.object["metadata"]
    counted = {**metadata, "generation": metadata["generation"] + 1}
    changed = {**body, "metadata": counted, "spec": {**body["spec"], "replicas": replicas}}
    world.cluster.server.store.put(kinds.STATEFUL_SETS, changed)
