"""Targets are told with what became of them, and a missed one with what the runtime said meanwhile."""

import dataclasses
from typing import Any

import pytest

from autoscaler.api.settings.scaling import PriceList
from autoscaler.capacity.model import Limit, LimitKind
from autoscaler.simulate.observation.record import Record, Target
from autoscaler.simulate.observation.waits import PodWait, Wait
from autoscaler.simulate.reporting import document, report, targets
from tests.autoscaler.simulate import records
from tests.autoscaler.simulate.records import START

FULL = Limit(kind=LimitKind.POOL_INSTANCES, pool="gpu", most=8, used=8)


def pods(*seconds: float | None, scope: str = "research", pool: str = "gpu") -> tuple[PodWait, ...]:
    """Make pods that waited for so long; None: they still wait, nowhere."""
    return tuple(
        PodWait(
            scope=scope,
            pool=pool if each is not None else "",
            wait=Wait(came_at=START, began_at=None if each is None else START + each),
        )
        for each in seconds
    )


def refused(seconds: float, *limits: Limit) -> Any:
    fields = [dataclasses.asdict(limit) for limit in limits]
    return records.logged("no_scale_up", seconds, limits=fields, pods=[("research", "p")])


def day(*waits: PodWait, **more: Any) -> Record:
    made = (Target(scope="builds", pool="spot", seconds=120), Target(scope="research", pool="gpu", seconds=600))
    return records.record(pods=waits, targets=made, **more)


def test_a_target_is_met_if_95_of_100_pods_began_in_time() -> None:
    builds, research = targets.outcomes(day(*pods(*[100] * 95, *[900] * 5, scope="builds", pool="spot")))
    assert builds.is_met
    assert builds.late == 5
    assert research.is_met  # nobody came
    (builds, _) = targets.outcomes(day(*pods(*[100] * 94, *[900] * 6, scope="builds", pool="spot")))
    assert not builds.is_met


@pytest.mark.accept("P11", part="a missed target is told with what was in the way")
def test_a_missed_target_names_the_limits_and_offerings_in_the_way_while_its_pods_waited() -> None:
    other = Limit(kind=LimitKind.POOL_INSTANCES, pool="spot", most=1, used=1)
    ceiling = Limit(kind=LimitKind.CLUSTER_NODES, most=10, used=10)
    budget = Limit(kind=LimitKind.SCOPE_SECONDS, pool="gpu", scope="builds", most=10, used=10)
    logs = (
        refused(300, FULL, other),
        refused(650, ceiling, budget),
        refused(900, Limit(kind=LimitKind.POOL_SECONDS, pool="gpu", most=7200, used=7200)),
        records.logged("launch_failed", 400, group="gpu.a", reason="InsufficientCapacity"),
        records.logged("launch_failed", 400, group="spot.a", reason="InsufficientCapacity"),
    )
    _, outcome = targets.outcomes(day(*pods(10, 610, 700), logs=logs))
    assert dict(outcome.obstacles) == {
        "the pool has 8 of at most 8 instances": 2,
        "the provider had no m7i.4xlarge in a": 2,
        "the cluster has 10 of at most 10 nodes": 1,
    }


def test_pods_that_still_wait_count_where_their_scope_goes_first() -> None:
    _, outcome = targets.outcomes(day(*pods(10, None)))
    assert (outcome.late, outcome.at(1.0)) == (1, records.DAY)
    assert outcome.obstacles == ((targets.NOTHING, 1),)


def test_the_table_fits_80_columns_and_a_program_reads_the_same() -> None:
    logs = (refused(300, FULL, Limit(kind=LimitKind.POOL_SECONDS, pool="gpu", most=4_000_000, used=4_000_000)),)
    record = day(*pods(48, 24_000), *pods(74, scope="builds", pool="spot"), logs=logs)
    text = report.report(record, PriceList())
    lines = text[text.index("TARGET LATENCIES") :].split("\n\n")[0].splitlines()
    assert lines[1:] == [
        "scope     pool  target  pods        50 %        95 %       worst",
        "builds    spot   2 min     1  1 min 14 s  1 min 14 s  1 min 14 s     met",
        "research  gpu   10 min     2        48 s  6 h 40 min  6 h 40 min  missed",
        "research in gpu: 1 pod late. In the way: the pool has 8 of at most 8 instances",
        "  (1 pod); the pool may use 1,111 h 6 min of instances a month (1 pod)",
    ]
    assert max(map(len, lines)) <= targets.WIDTH
    met, missed = document.document(record, PriceList())["targets"]
    assert (met["met"], met["p95Seconds"], met["inTheWay"]) == (True, 74.0, [])
    assert (missed["met"], missed["late"], missed["targetSeconds"]) == (False, 1, 600)
    assert missed["inTheWay"][0] == {"what": "the pool has 8 of at most 8 instances", "pods": 1}


def test_a_stack_without_targets_has_no_table() -> None:
    assert "TARGET" not in report.report(records.record(), PriceList())
