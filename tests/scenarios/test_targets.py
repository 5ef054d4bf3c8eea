"""Target latencies and budgets of scopes in virtual time: fewer instances where waiting is allowed, never too few."""

import asyncio
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from autoscaler.api import keys, resources
from autoscaler.kube import kinds
from autoscaler.simulation import virtual_time
from tests import builders
from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.capacity_world import World, runtime

POOLS = kinds.custom(resources.InstancePool)
RUN_SECONDS = 300


async def world_with_scope(*pools: dict[str, Any]) -> World:
    """A world with a scope `research`, which namespace `team` is in, and pools of one zone and at most 30 instances."""
    world = World()
    for number, entry in enumerate(pools):
        world.add_pool(entry["name"], zones=("a",), maximum=entry.pop("maximum", 30), limits__maxIdleSeconds=120)
        entry.setdefault("priority", -number)
    world.cluster.create(kinds.custom(resources.Scope), builders.resource("Scope", pools=list(pools)))
    world.cluster.create(kinds.NAMESPACES, {"metadata": {"name": "team", "labels": {keys.SCOPE: "research"}}})
    world.run_seconds = RUN_SECONDS
    world.cluster.create(kinds.JOBS, {"metadata": {"name": "job", "namespace": "team"}, "spec": {"parallelism": 0}})
    await asyncio.sleep(2)
    return world


def owners(world: World) -> list[dict[str, Any]]:
    """Name who makes pods that end by themselves."""
    (job,) = world.all(kinds.JOBS)
    kept = {key: job["metadata"][key] for key in ("name", "uid")}
    return [{"apiVersion": "batch/v1", "kind": "Job", "controller": True, **kept}]


def add_jobs(world: World, count: int, prefix: str = "job") -> None:
    """Add pods of a Job that have an instance each to themselves."""
    for number in range(count):
        world.add_pod(f"{prefix}-{number:02d}", cpu="3", namespace="team", owners=owners(world))


def in_phase(world: World, *phases: str) -> int:
    """Count pods. Those that ended go with their node."""
    return sum(pod["status"]["phase"] in phases for pod in world.all(kinds.PODS))


@pytest.mark.accept("P11")
@simulated
async def test_all_pods_begin_within_the_target_on_a_fraction_of_the_instances() -> None:
    world = await world_with_scope({"name": "workers", "limits": {"targetLatencySeconds": 1350}})
    async with runtime(world):
        add_jobs(world, 12)
        await asyncio.sleep(60)
        assert len(world.cloud.instances) == 4  # 600 s a pod while nobody knows better: three pods a slot
        held = [event for event in world.events("NotTriggerScaleUp") if "get a slot now" in event["message"]]
        assert len(held) == 8
        await asyncio.sleep(1350 - 60)
        assert in_phase(world, "Pending") == 0
        await asyncio.sleep(RUN_SECONDS)
        assert in_phase(world, "Pending", "Running") == 0
        assert len(world.cloud.instances) == 4


@pytest.mark.accept("P11")
@simulated
async def test_what_the_first_pool_cannot_take_flows_on_to_the_next() -> None:
    world = await world_with_scope(
        {"name": "first", "limits": {"targetLatencySeconds": 750}, "maximum": 2}, {"name": "second"}
    )
    async with runtime(world):
        add_jobs(world, 10)
        await asyncio.sleep(60)
        assert world.desired() == {"first-a-m5.xlarge": 2, "second-a-m5.xlarge": 6}  # two slots serve four


@pytest.mark.accept("P11")
@simulated
async def test_a_pod_gets_an_instance_in_time_when_the_one_it_waits_for_takes_longer_than_expected() -> None:
    world = await world_with_scope({"name": "workers", "limits": {"targetLatencySeconds": 700}})
    world.run_seconds = 7200  # 600 are expected
    async with runtime(world):
        add_jobs(world, 1, "long")
        await asyncio.sleep(120)
        (first,) = world.all(kinds.PODS)
        began = datetime.fromisoformat(first["status"]["startTime"]).timestamp()
        add_jobs(world, 1, "next")
        came = virtual_time.clock().now()
        await asyncio.sleep(began + 600 - came - 2)
        assert len(world.cloud.instances) == 1
        await asyncio.sleep(4)
        assert len(world.cloud.instances) == 2
        await asyncio.sleep(came + 700 - virtual_time.clock().now())
        assert in_phase(world, "Pending") == 0


@pytest.mark.accept("P11")
@simulated
async def test_pods_that_never_end_and_pods_that_work_together_are_not_left_waiting() -> None:
    world = await world_with_scope({"name": "workers", "limits": {"targetLatencySeconds": 86_400}})
    world.run_seconds = None
    async with runtime(world):
        for number in range(3):
            world.add_pod(f"endless-{number}", cpu="3", namespace="team")
            index = {"batch.kubernetes.io/job-completion-index": str(number)}
            world.add_pod(f"together-{number}", cpu="3", namespace="team", owners=owners(world), labels=index)
        await asyncio.sleep(120)
        assert len(world.bound()) == 6


@pytest.mark.accept("P7")
@partial(simulated, start=datetime(2026, 1, 31, 18, tzinfo=UTC).timestamp())
async def test_a_scopes_budget_stops_what_would_pass_it_ends_no_work_and_begins_anew_with_the_month() -> None:
    limit = 3000
    world = await world_with_scope({"name": "workers", "limits": {"targetMaxSecondsPerMonth": limit}})
    async with runtime(world):
        add_jobs(world, 40)
        await asyncio.sleep(10)
        assert len(world.cloud.instances) == limit // (600 + 120)  # a life: a pod, and the time that it may be idle
        await asyncio.sleep(2 * 3600)
        assert in_phase(world, "Pending", "Running") == 0  # those that were started went on until all was done
        assert world.nodes() == []
        used = sum(each["status"]["months"]["2026-01"]["scopes"]["research"] for each in world.instances())
        assert used > limit
        add_jobs(world, 3, "later")
        await asyncio.sleep(3 * 3600)
        assert in_phase(world, "Pending") == 3
        assert any("a month in pool workers" in event["message"] for event in world.events("NotTriggerScaleUp"))
        await asyncio.sleep(3600 + RUN_SECONDS + 120)  # midnight
        assert in_phase(world, "Pending", "Running") == 0


@pytest.mark.accept("P7")
@partial(simulated, start=datetime(2026, 1, 31, 18, tzinfo=UTC).timestamp())
async def test_a_pool_that_has_used_its_budget_takes_no_more_work_and_ends_none() -> None:
    limit = 5000
    world = World()
    world.add_pool(zones=("a",), limits__maxIdleSeconds=120, limits__targetMaxSecondsPerMonth=limit)
    world.run_seconds = RUN_SECONDS
    async with runtime(world):
        for number in range(100):
            world.add_pod(f"p-{number:02d}", cpu="3")
        await asyncio.sleep(5 * 3600)
        left = in_phase(world, "Pending")
        assert left > 50
        assert in_phase(world, "Running", "Failed") == 0
        assert world.nodes() == []
        used = sum(each["status"]["months"]["2026-01"]["seconds"] for each in world.instances())
        instances = len(world.cloud.instances)
        assert limit <= used <= limit + instances * (RUN_SECONDS + 60)
        await asyncio.sleep(3600 + 120)  # another month
        assert in_phase(world, "Pending") < left
        assert all(keys.REMOVING not in str(node["spec"].get("taints")) for node in world.nodes())


MONTH_SECONDS = 31 * 86_400


async def with_endless_pods(world: World, pods: int) -> None:
    """Have pods wait that never end, each on an instance of its own, and let hours pass."""
    for number in range(pods):
        world.add_pod(f"e-{number:02d}", cpu="3", namespace="team", restartPolicy="Always")
    await asyncio.sleep(4 * 3600)


@pytest.mark.accept("P7")
@simulated
async def test_pods_that_never_end_start_no_more_instances_than_a_pools_month_has_room_for() -> None:
    world = await world_with_scope({"name": "workers"})
    world.patch(POOLS, "workers", {"spec": {"limits": {"targetMaxSecondsPerMonth": 3 * MONTH_SECONDS}}})
    world.run_seconds = None
    async with runtime(world):
        await with_endless_pods(world, 30)
        assert len(world.cloud.instances) == 3
        assert len(world.bound()) == 3
        message = world.events("NotTriggerScaleUp")[-1]["message"]
        assert "the pool may use 2,232 h of instances a month" in message
        add_jobs(world, 1)  # what ends may use what is left of the month
        world.patch(POOLS, "workers", {"spec": {"limits": {"targetMaxSecondsPerMonth": 3 * MONTH_SECONDS + 7200}}})
        await asyncio.sleep(120)
        assert len(world.cloud.instances) == 4
        await asyncio.sleep(3600)
        assert len(world.cloud.instances) == 4  # whoever took it: no more is left


@pytest.mark.accept("P7")
@simulated
async def test_pods_that_never_end_start_no_more_instances_than_a_scopes_month_has_room_for() -> None:
    limit = {"targetMaxSecondsPerMonth": 2 * MONTH_SECONDS}
    world = await world_with_scope({"name": "workers", "limits": limit}, {"name": "others", "maximum": 1})
    world.run_seconds = None
    async with runtime(world):
        await with_endless_pods(world, 30)
        assert world.desired() == {"workers-a-m5.xlarge": 2, "others-a-m5.xlarge": 1}


@pytest.mark.accept("P7")
@simulated
async def test_an_idle_instance_that_a_groups_minimum_keeps_is_expected_to_use_the_rest_of_the_month() -> None:
    world = World()
    world.add_pool(
        zones=("a",), minimum=1, limits__maxIdleSeconds=120, limits__targetMaxSecondsPerMonth=MONTH_SECONDS + 600
    )
    async with runtime(world):
        await asyncio.sleep(600)
        assert len(world.nodes()) == 1
        for number in range(2):
            world.add_pod(f"p-{number}", cpu="3")
        await asyncio.sleep(600)
        assert len(world.cloud.instances) == 1  # a second one would take 720 seconds
