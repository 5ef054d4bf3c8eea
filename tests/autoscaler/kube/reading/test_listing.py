"""Reading all objects of a kind: every page, and nothing where the kind is not served."""

import msgspec
import pytest

from autoscaler.api import resources
from autoscaler.kube import kinds, objects
from autoscaler.kube.reading import listing
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cluster import SimulatedCluster
from tests.autoscaler.kube import cluster as kube_cluster

pytestmark = pytest.mark.simulated


@kube_cluster.simulated
async def test_all_pages_are_read_and_only_of_the_namespace_that_is_asked_for() -> None:
    cluster = SimulatedCluster(virtual_time.clock(), latency_seconds=0.005)
    count = listing.PAGE + 3
    for number in range(count):
        cluster.create(kinds.CONFIG_MAPS, kube_cluster.manifest(f"m-{number}"))
    api = cluster.client("a")
    found = await listing.read(api, kinds.CONFIG_MAPS, objects.simple, namespace="default")
    assert len({each.meta.key.name for each in found if each.meta.key.name.startswith("m-")}) == count
    assert not await listing.read(api, kinds.CONFIG_MAPS, objects.simple, namespace="elsewhere")
    [one] = await listing.read(api, kinds.CONFIG_MAPS, objects.simple, query={"fieldSelector": "metadata.name=m-7"})
    assert one.meta.key.name == "m-7"


@kube_cluster.simulated
async def test_a_kind_that_is_not_served_has_no_objects() -> None:
    cluster = SimulatedCluster(virtual_time.clock(), latency_seconds=0.005)
    kind = kinds.custom(resources.InstancePool)
    assert await listing.read(cluster.client("a"), kind, objects.simple) == []


@kube_cluster.simulated
async def test_objects_that_cannot_be_read_are_passed_over_where_that_is_asked_for() -> None:
    cluster = SimulatedCluster(virtual_time.clock(), latency_seconds=0.005)
    for name in ("m-0", "m-1"):
        cluster.create(kinds.CONFIG_MAPS, kube_cluster.manifest(name))

    def decode(raw: msgspec.Raw) -> objects.Simple:
        found = objects.simple(raw)
        if found.meta.key.name == "m-0":
            raise msgspec.ValidationError("strange")
        return found

    found, version = await listing.read_readable(cluster.client("a"), kinds.CONFIG_MAPS, decode)
    assert [each.meta.key.name for each in found if each.meta.key.name.startswith("m-")] == ["m-1"]
    assert version > 0
