"""The simulated API server refuses what the real one refuses of our kinds, and names the same field."""

import pytest

from autoscaler.api import resources
from autoscaler.kube import kinds
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cluster import SimulatedCluster
from tests import builders
from tests.contract.worlds import World
from tests.e2e import bad_objects

KINDS = {kind.__name__: kinds.custom(kind) for kind in resources.KINDS}


def opened() -> World:
    cluster = SimulatedCluster(virtual_time.clock())
    cluster.install_definitions()
    return World(api=cluster.client(), namespace="default")


@pytest.mark.parametrize("bad", bad_objects.ALL, ids=lambda bad: bad.id)
async def test_a_bad_object_is_refused_and_its_field_named(bad: bad_objects.Bad) -> None:
    world = opened()
    body = builders.resource(bad.kind, name=bad.name, **bad.changes)
    answer = await world.send("POST", world.collection(KINDS[bad.kind]), body)
    assert answer.status == 422, answer.body
    assert bad.names in answer.message
    assert bad.says in answer.message


@pytest.mark.parametrize("kind", KINDS)
async def test_the_smallest_object_of_each_kind_is_accepted(kind: str) -> None:
    world = opened()
    made = await world.create(KINDS[kind], builders.resource(kind))
    assert made["kind"] == kind
