"""The numbers of queues, as a scrape shows them, in virtual time."""

import asyncio

from prometheus_client import parser

from tests.autoscaler.kube.cluster import simulated
from tests.scenarios.admission_world import CLUSTER_QUEUES, WORKLOADS, World, runtime


@simulated
async def test_metrics_say_how_queues_stand_and_go_with_them() -> None:
    world = World()
    world.add_queue("team", cpu=2)
    world.add_queue("idle", cpu=1)
    async with runtime(world) as replica:
        world.add_job("first", pods=2, completions=10)
        await asyncio.sleep(20)
        world.resize("first", 3)
        world.add_job("second", pods=2)
        await asyncio.sleep(100)
        shown = _shown(replica.metrics.render())
        of = {"cluster_queue": "team"}
        cpu = {**of, "flavor": "standard", "resource": "cpu"}
        want = {"pending_workloads": 1, "admitted_workloads": 1, "gated_pods": 1, "admissions_total": 1}
        assert {name: shown[name, frozenset(of.items())] for name in want} == want
        assert (shown["usage", frozenset(cpu.items())], shown["quota", frozenset(cpu.items())]) == (2, 2)
        assert 95 <= shown["oldest_pending_seconds", frozenset(of.items())] <= 105
        cycles, seconds = (shown[f"cycle_seconds_{each}", frozenset()] for each in ("count", "sum"))
        assert 0 < seconds < cycles
        workload = world.workload("first")["metadata"]["name"]
        world.patch(WORKLOADS, workload, {"spec": {"active": False}})
        await asyncio.sleep(60)
        shown = _shown(replica.metrics.render())
        assert shown["evictions_total", frozenset({**of, "reason": "Deactivated"}.items())] == 1
        world.delete(CLUSTER_QUEUES, "idle")
        await asyncio.sleep(5)
        assert not [labels for _, labels in _shown(replica.metrics.render()) if ("cluster_queue", "idle") in labels]


@simulated
async def test_what_is_used_of_a_flavor_that_a_queue_has_no_more_is_shown_too() -> None:
    world = World(is_audited=False)  # usage is above quota
    world.add_queue("team", cpu=2)
    world.add_flavor("spot")
    async with runtime(world) as replica:
        world.add_job("first", pods=2)
        await asyncio.sleep(20)
        world.set_quota("team", spot=3)
        await asyncio.sleep(20)
        shown = _shown(replica.metrics.render())
    cpu = {"cluster_queue": "team", "resource": "cpu"}
    places = [frozenset({**cpu, "flavor": flavor}.items()) for flavor in ("standard", "spot")]
    assert [(shown["usage", each], shown["quota", each]) for each in places] == [(2, 0), (0, 3)]


def _shown(text: bytes) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    families = parser.text_string_to_metric_families(text.decode())
    return {
        (sample.name.removeprefix("sluice_admission_"), frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
        if sample.name.startswith("sluice_admission_")
    }
