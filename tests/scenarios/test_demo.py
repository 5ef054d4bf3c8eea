"""A rehearsal: a stack's file and a trace become a day on the real controllers, the same each time."""

import functools
from pathlib import Path
from typing import Any

import pytest

from autoscaler import __main__ as command
from autoscaler.rehearsal import play, report, stack, trace
from autoscaler.rehearsal.episode import Kind
from autoscaler.rehearsal.episodes import episodes
from autoscaler.rehearsal.record import Record
from components import loading
from components.config import reading

ROOT = Path(__file__).parents[2]
LOCAL = ROOT / "stacks" / "Pulumi.local.yaml"
MORNING: dict[str, Any] = {
    "starts": "2026-06-30T06:00:00Z",
    "lasts": "40m",
    "seed": 3,
    "secondsUsedThisMonth": {"gpu": 359_500},
    "queues": {
        "compile": {
            "namespace": "builds",
            "poolCapacity": 30,
            "idleTimeoutMinutes": 1,
            "requests": {"cpu": "2", "memory": "2Gi"},
            "nodeSelector": {"node.type": "worker"},
            "takes": ["2m", "4m"],
            "arrive": [{"from": "06:02", "to": "06:05", "count": 24}],
        }
    },
    "pods": {
        "training": {
            "namespace": "research",
            "requests": {"cpu": "1", "nvidia.com/gpu": "4"},
            "takes": ["10m", "10m"],
            "arrive": [{"from": "06:15", "to": "06:16", "count": 3}],
        }
    },
    "shortages": [{"zone": "eu-west-1a", "from": "06:01", "to": "06:40"}],
}


@functools.cache
def site() -> stack.Stack:
    return stack.read(LOCAL)


@functools.cache
def morning() -> tuple[Record, tuple[play.Progress, ...]]:
    told: list[play.Progress] = []
    return play.play(site(), trace.parse(MORNING), told.append), tuple(told)


def test_all_jobs_are_done_and_all_that_was_started_goes() -> None:
    record, told = morning()
    (jobs,) = (each for each in record.waits if each.work == "compile")
    assert len(jobs.waits) == 24
    assert all(wait.began_at is not None for wait in jobs.waits)
    workers = [one for one in record.instances if one.key.pool == "workers"]
    assert workers
    assert all(one.ended_at is not None for one in workers)
    assert len(told) == play.PROGRESS_STEPS
    assert max(each.instances for each in told) > told[-1].instances == 3  # one services node in each zone


def test_the_zone_that_has_none_is_passed_by() -> None:
    record, _ = morning()
    assert "eu-west-1a" not in {one.key.zone for one in record.instances if one.key.pool == "workers"}
    (shortage,) = (one for one in episodes(record) if one.kind is Kind.SHORTAGE)
    assert "zone eu-west-1a passed by" in shortage.what


def test_the_budget_of_the_month_holds_what_came_too_late() -> None:
    record, _ = morning()
    (pods,) = (each for each in record.waits if each.work == "training")
    assert pods.scope == "research"
    assert not [one for one in record.instances if one.key.pool == "gpu"]
    assert [wait.began_at for wait in pods.waits] == [None] * 3
    limit = next(one for one in episodes(record) if one.kind is Kind.LIMIT)
    assert limit.why == "99.9 h used and 0.0 h expected, of 100.0 h a month"


def test_the_report_tells_all_of_it() -> None:
    record, _ = morning()
    text = report.report(record, site().scaling.prices)
    assert "27 jobs and pods came." in text
    assert "POOLS (example prices)" in text
    assert len(text.splitlines()) < 60


def test_the_same_trace_gives_the_same_day() -> None:
    begins = trace.parse({**MORNING, "lasts": "10m"})
    first, second = (play.play(site(), begins, lambda _: None) for _ in range(2))
    assert first.instances
    assert first == second


def test_the_demo_fits_its_stack() -> None:
    """`make demo` takes too long for a test; what it reads must go together all the same."""
    day = trace.read(ROOT / "examples" / "traces" / "day.yaml")
    loaded = loading.load(reading.of_file(ROOT / "stacks" / "Pulumi.prod.yaml"))
    (grid,), (listed,) = loaded.grids.values(), loaded.prices.values()
    assert set(day.seconds_used_this_month) <= {group.key.pool for group in grid.groups}
    assert {one.zone for one in day.shortages} <= {group.key.zone for group in grid.groups}
    priced = {(kind, capacity) for kind, by_capacity in listed.hourly.items() for capacity in by_capacity}
    assert {(group.key.instance_type, group.capacity_type) for group in grid.groups} == priced


@pytest.mark.parametrize(
    ("stack_file", "trace_file", "want"),
    [
        ("nowhere.yaml", "examples/traces/day.yaml", "nowhere.yaml"),
        ("stacks/Pulumi.local.yaml", "stacks/Pulumi.local.yaml", "the trace is wrong:\n  starts: Field required"),
    ],
)
def test_files_that_cannot_be_used_are_named(
    stack_file: str, trace_file: str, want: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["simulate", "--stack", str(ROOT / stack_file), "--trace", str(ROOT / trace_file)]) == 1
    assert want in capsys.readouterr().err
