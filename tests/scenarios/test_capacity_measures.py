"""The numbers for whoever is on call, as a scrape shows them, in virtual time."""

import asyncio
from typing import Any

from prometheus_client import parser

from autoscaler.api import keys, resources
from autoscaler.cloud import port as cloud
from autoscaler.kube import kinds, port
from autoscaler.simulation.cloud import faults
from autoscaler.simulation.cloud.model import Obstacle
from tests import builders
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios import worker_world
from tests.scenarios.capacity_world import World, runtime

POOLS = kinds.custom(resources.InstancePool)


def shown(replica: Any, name: str, **labels: str) -> float:
    """Return a number of a scrape, summed over all series with these labels."""
    return sum(values(replica, name, **labels))


def values(replica: Any, name: str, **labels: str) -> list[float]:
    """Return the numbers of a scrape, of all series with these labels."""
    families = parser.text_string_to_metric_families(replica.metrics.render().decode())
    samples = [sample for family in families for sample in family.samples if sample.name == name]
    return [sample.value for sample in samples if labels.items() <= sample.labels.items()]


@simulated
async def test_launches_waits_ends_and_calls_are_counted() -> None:
    world = World()
    world.add_pool(limits__maxIdleSeconds=60)
    async with runtime(world) as replica:
        await asyncio.sleep(5)
        world.add_pod("one")
        world.add_pod("huge", cpu="64")
        await asyncio.sleep(100)
        assert shown(replica, "sluice_launches_total", pool="workers", outcome="Done") == 1
        assert shown(replica, "sluice_pod_wait_seconds_count") == 1
        waited = shown(replica, "sluice_pod_wait_seconds_sum")
        assert 5 < waited < 100
        assert shown(replica, "sluice_launch_to_ready_seconds_count", pool="workers") == 1
        assert 5 < shown(replica, "sluice_launch_to_ready_seconds_sum", pool="workers") <= waited + 10
        assert shown(replica, "sluice_refused_pods", reason="InsufficientResource") == 1
        assert 95 <= shown(replica, "sluice_oldest_waiting_pod_seconds") <= 101
        assert shown(replica, "sluice_scope_target_seconds") == 3600
        assert shown(replica, "sluice_cloud_calls_total", call="set_desired", outcome="Done") == 1
        assert shown(replica, "sluice_cloud_calls_total", call="groups", outcome="Done") > 1
        world.delete_pod("one")
        world.delete_pod("huge")
        await asyncio.sleep(120)
        assert shown(replica, "sluice_terminations_total", pool="workers", reason="Idle", outcome="Done") == 1
        assert shown(replica, "sluice_oldest_waiting_pod_seconds") == 0
        world.patch(POOLS, "workers", {"spec": {"enabled": False}})
        await asyncio.sleep(1)
        assert shown(replica, "sluice_refused_pods") == 0


@simulated
async def test_a_scope_is_held_to_its_own_target() -> None:
    world = World()
    world.add_pool()
    limits = {"targetLatencySeconds": 300}
    scope = builders.resource("Scope", name="research", pools=[{"name": "workers", "limits": limits}])
    world.cluster.create(kinds.custom(resources.Scope), scope)
    world.cluster.create(kinds.NAMESPACES, {"metadata": {"name": "team", "labels": {keys.SCOPE: "research"}}})
    async with runtime(world) as replica:
        await asyncio.sleep(5)
        world.add_pod("huge", cpu="64", namespace="team")
        await asyncio.sleep(60)
        assert shown(replica, "sluice_scope_target_seconds", scope="research") == 300
        assert 55 <= shown(replica, "sluice_oldest_waiting_pod_seconds", scope="research") <= 61


@simulated
async def test_pods_that_a_limit_holds_back_are_not_late_until_it_lets_go_of_them() -> None:
    world = World()
    world.add_pool(limits__maxActiveInstances=1)
    async with runtime(world) as replica:
        await asyncio.sleep(5)
        world.add_pod("one", cpu="3")
        await asyncio.sleep(10)
        world.add_pod("two", cpu="3")
        await asyncio.sleep(600)
        assert shown(replica, "sluice_refused_pods", reason="LimitReached") == 1
        assert 595 <= shown(replica, "sluice_oldest_waiting_pod_seconds") <= 601
        assert shown(replica, "sluice_oldest_unlimited_pod_seconds") == 0
        pause = {"metadata": {"annotations": {keys.PAUSED: "true"}}}
        world.patch(kinds.NAMESPACES, worker_world.NAMESPACE, pause)
        await asyncio.sleep(100)
        assert 695 <= shown(replica, "sluice_oldest_waiting_pod_seconds") <= 701
        assert shown(replica, "sluice_oldest_unlimited_pod_seconds") == 0
        world.patch(kinds.NAMESPACES, worker_world.NAMESPACE, {"metadata": {"annotations": {keys.PAUSED: None}}})
        world.silent = {"a", "b", "c"}
        world.patch(POOLS, "workers", {"spec": {"limits": {"maxActiveInstances": 2}}})
        await asyncio.sleep(60)
        assert 755 <= shown(replica, "sluice_oldest_waiting_pod_seconds") <= 765
        assert 55 <= shown(replica, "sluice_oldest_unlimited_pod_seconds") <= 61
        world.delete_pod("two")
        await asyncio.sleep(5)
        assert shown(replica, "sluice_oldest_unlimited_pod_seconds") == 0


@simulated
async def test_a_group_at_its_maximum_is_a_limit_too() -> None:
    world = World()
    world.add_pool(zones=("a",), maximum=1)
    async with runtime(world) as replica:
        await asyncio.sleep(5)
        world.add_pod("one", cpu="3")
        world.add_pod("two", cpu="3")
        await asyncio.sleep(300)
        assert shown(replica, "sluice_refused_pods", reason="AtMaximum") == 1
        assert shown(replica, "sluice_oldest_waiting_pod_seconds") > 250
        assert shown(replica, "sluice_oldest_unlimited_pod_seconds") == 0


@simulated
async def test_offerings_are_counted_those_that_are_not_to_be_had_among_them() -> None:
    world = World()
    world.add_pool(types=("m5.xlarge", "c5.xlarge"))
    world.cloud.hinder(Obstacle(failure=cloud.LaunchFailure.INSUFFICIENT_CAPACITY, zone="a"))
    async with runtime(world) as replica:
        await asyncio.sleep(5)
        assert shown(replica, "sluice_offerings", pool="workers") == 6
        assert list(values(replica, "sluice_offerings_unavailable")) == [0]
        world.add_pod("one", nodeSelector={keys.ZONE: "a"})
        await asyncio.sleep(120)
        assert shown(replica, "sluice_offerings_unavailable", pool="workers") == 2


@simulated
async def test_an_account_that_does_not_answer_grows_old_and_its_errors_are_counted() -> None:
    world = World()
    world.add_pool()
    async with runtime(world) as replica:
        await asyncio.sleep(90)
        assert shown(replica, "sluice_cloud_reading_age_seconds", account="aws") <= 61
        world.cloud.faults.add(faults.Effect.THROTTLE, faults.Call.GROUPS, times=None)
        await asyncio.sleep(700)
        assert shown(replica, "sluice_cloud_reading_age_seconds", account="aws") > 600
        assert shown(replica, "sluice_cloud_calls_total", account="aws", call="groups", outcome="Throttled") > 2


@simulated
async def test_instances_that_never_become_nodes_are_counted_as_such() -> None:
    world = World()
    world.add_pool(zones=("a",), registrationTimeoutSeconds=60)
    world.silent.add("a")
    async with runtime(world) as replica:
        await asyncio.sleep(5)
        world.add_pod("one")
        await asyncio.sleep(200)
        assert shown(replica, "sluice_terminations_total", reason="NeverJoined") >= 1


@simulated
async def test_a_removal_that_takes_too_long_is_shown() -> None:
    world = World()
    world.add_pool(drainSeconds=60)
    async with runtime(world) as replica:
        await asyncio.sleep(5)
        world.add_pod("bare")
        await asyncio.sleep(60)
        path = POOLS.path("workers")
        port.required(world.cluster.server.handle(port.Request(method="DELETE", path=path), "admin"))
        await asyncio.sleep(30)
        assert shown(replica, "sluice_pool_drain_overdue", pool="workers") == 0
        await asyncio.sleep(60)
        assert shown(replica, "sluice_pool_drain_overdue", pool="workers") == 1


@simulated
async def test_a_queue_of_notices_that_cannot_be_read_is_counted() -> None:
    world = World()
    world.add_pool()
    world.cloud.faults.add(faults.Effect.DENY, faults.Call.NEWS, times=None)
    async with runtime(world) as replica:
        await asyncio.sleep(60)
        assert shown(replica, "sluice_interruption_queue_failures_total") >= 5
