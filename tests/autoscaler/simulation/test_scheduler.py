"""The scheduler beyond what a shared real cluster can show: order, ties, rarer requests and constraints."""

import asyncio
from typing import Any

import pytest

from autoscaler.kube import kinds
from autoscaler.simulation import virtual_time
from autoscaler.simulation.cluster import SimulatedCluster, served
from autoscaler.simulation.scheduler import Scheduler
from autoscaler.simulation.scheduling import requests
from tests.bench import simulating
from tests.contract.worlds import Body, World

ZONE = "topology.kubernetes.io/zone"


def opened() -> World:
    cluster = SimulatedCluster(virtual_time.clock())
    Scheduler(cluster)
    return World(api=cluster.client(), namespace="default")


async def node(world: World, name: str, *, cpu: str = "1", **labels: str) -> None:
    amounts = {"cpu": cpu, "memory": "8Gi", "pods": "10"}
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    status = {"allocatable": amounts, "conditions": conditions}
    await world.create(kinds.NODES, {"metadata": {"name": name, "labels": labels}, "status": status})
    await asyncio.sleep(1)


async def pod(world: World, name: str, *, cpu: str = "1", labels: Body | None = None, **spec: Any) -> None:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    whole = {"containers": [container], **spec}
    await world.create(kinds.PODS, {"metadata": {"name": name, "labels": labels or {}}, "spec": whole})


async def places(world: World) -> dict[str, str | None]:
    listed = await world.listed(kinds.PODS)
    return {item["metadata"]["name"]: item["spec"].get("nodeName") for item in listed["items"]}


async def test_the_higher_priority_is_first_then_the_older() -> None:
    world = opened()
    await world.create(served.PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 100})
    await pod(world, "older")
    await asyncio.sleep(5)
    await pod(world, "a-younger")
    await pod(world, "urgent", priorityClassName="high")
    await asyncio.sleep(5)
    await node(world, "one")
    await asyncio.sleep(5)
    assert await places(world) == {"a-younger": None, "older": None, "urgent": "one"}
    await node(world, "two")
    await asyncio.sleep(5)
    assert await places(world) == {"a-younger": None, "older": "two", "urgent": "one"}


async def test_among_equals_the_first_name_wins() -> None:
    world = opened()
    for name in ("c", "a", "b"):
        await node(world, name)
    await pod(world, "p")
    await asyncio.sleep(1)
    assert await places(world) == {"p": "a"}


async def test_the_emptier_of_two_that_are_used_evenly_is_chosen() -> None:
    world = opened()
    for name in ("a", "b"):
        await node(world, name, cpu="8", which=name)
    half = [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "4", "memory": "4Gi"}}}]
    await pod(world, "first", containers=half, nodeSelector={"which": "a"})
    await asyncio.sleep(1)
    quarter = [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "2", "memory": "2Gi"}}}]
    await pod(world, "second", containers=quarter)
    await asyncio.sleep(1)
    assert await places(world) == {"first": "a", "second": "b"}


async def test_a_pod_that_waits_is_not_looked_at_without_reason() -> None:
    world = opened()
    await pod(world, "p")
    await asyncio.sleep(5)
    before = (await world.get(kinds.PODS, "p"))["metadata"]["resourceVersion"]
    await asyncio.sleep(86_400)
    assert (await world.get(kinds.PODS, "p"))["metadata"]["resourceVersion"] == before


async def test_a_namespace_selector_widens_affinity() -> None:
    world = opened()
    await world.create(kinds.NAMESPACES, {"metadata": {"name": "other", "labels": {"team": "x"}}})
    await node(world, "one", **{ZONE: "a"})
    elsewhere = World(api=world.api, namespace="other")
    await pod(elsewhere, "db", labels={"app": "db"}, cpu="100m")
    term: Body = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": ZONE}
    affinity = "requiredDuringSchedulingIgnoredDuringExecution"
    await pod(world, "own", cpu="100m", affinity={"podAffinity": {affinity: [term]}})
    wide = {**term, "namespaceSelector": {"matchLabels": {"team": "x"}}}
    await pod(world, "wide", cpu="100m", affinity={"podAffinity": {affinity: [wide]}})
    await asyncio.sleep(5)
    assert await places(world) == {"own": None, "wide": "one"}


async def test_too_few_domains_count_as_an_empty_one() -> None:
    world = opened()
    await node(world, "one", cpu="8", **{ZONE: "a"})
    constraint = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "minDomains": 2,
        "labelSelector": {"matchLabels": {"app": "s"}},
    }
    for name in ("first", "second"):
        await pod(world, name, labels={"app": "s"}, topologySpreadConstraints=[constraint])
        await asyncio.sleep(1)
    assert await places(world) == {"first": "one", "second": None}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"containers": []}, {}),
        (
            {"containers": [{"resources": {"requests": {"cpu": "1500m", "memory": "1Ki"}}}]},
            {"cpu": 1500, "memory": 1024},
        ),
        ({"containers": [{}], "overhead": {"cpu": "250m"}}, {"cpu": 250}),
        (
            {"containers": [{"resources": {"requests": {"cpu": "1"}}}], "resources": {"requests": {"cpu": "3"}}},
            {"cpu": 3000},
        ),
    ],
)
def test_requests_are_added_up(spec: Body, want: dict[str, int]) -> None:
    assert requests.effective(spec) == want


async def test_a_day_leaves_nothing_behind() -> None:
    seen = await simulating.run_day(pods=100, nodes=3)
    assert (seen["left"], seen["DELETED"]) == (0, 100)
