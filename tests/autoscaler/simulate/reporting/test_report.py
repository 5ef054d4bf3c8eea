"""The report's parts say what the record says: counts over the day, waits, and money."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.api.resources.pools import CapacityType
from autoscaler.api.settings.scaling import PriceList
from autoscaler.cloud.prices import Prices
from autoscaler.simulate.observation.job_record import QueuedJobs
from autoscaler.simulate.reporting import chart, report, tables, words
from tests.autoscaler.simulate import records
from tests.autoscaler.simulate.records import DAY, HOUR, START, instance

PRICES = Prices(hourly_micros={("m7i.4xlarge", CapacityType.SPOT): 300_000})


def test_the_chart_shows_each_zone_against_the_most_of_its_pool() -> None:
    instances = (
        instance("1", 0),
        instance("2", 0, DAY / 2),
        instance("3", HOUR, 2 * HOUR, group="spot.b"),
        instance("4", 0, group="gpu.a"),
    )
    head, gpu, spot_a, spot_b = chart.chart(records.record(instances=instances))
    assert head.split() == [*(f"{hour % 24:02d}" for hour in range(6, 30, 2)), "most"]
    assert gpu.split() == ["gpu", "a", "█" * 48, "1"]
    assert spot_a.split() == ["spot", "a", "█" * 24 + "▄" * 24, "2"]
    assert spot_b.split() == ["b", "··▄▄" + "·" * 44, "1"]


def test_long_names_move_the_chart_to_the_right_and_touch_nothing() -> None:
    pool = "bench-worker-of-somebody"
    key = instance("1", 0).key.model_copy(update={"pool": pool, "zone": "eu-west-1a"})
    head, line = chart.chart(records.record(instances=(dataclasses.replace(instance("1", 0), key=key),)))
    assert line.split() == [pool, "eu-west-1a", "█" * 48, "1"]
    assert head.index("06") == line.index("█")


@pytest.mark.parametrize(
    ("lasts", "block", "head"),
    [(DAY, "30 min", "06  08  10"), (600, "12.5 s", "06:00   06:01   06:03"), (HOUR, "1 min 15 s", "06:00   06:10")],
)
def test_a_short_play_is_told_in_its_own_width(lasts: float, block: str, head: str) -> None:
    record = dataclasses.replace(records.record(instances=(instance("1", 0),)), ends_at=START + lasts)
    assert words.width(chart.block_seconds(record)) == block
    assert chart.chart(record)[0].strip().startswith(head)


def test_an_instance_that_came_and_went_between_two_marks_is_seen() -> None:
    lives = (instance("1", 60, 120), instance("2", 90, 100))
    assert chart.most_at_once(lives, START, START + HOUR) == 2
    assert chart.most_at_once(lives, START + HOUR, START + DAY) == 0


@given(st.integers(1, 500), st.data())
def test_a_taller_block_is_never_fewer(most: int, data: st.DataObject) -> None:
    few = data.draw(st.integers(0, most))
    many = data.draw(st.integers(few, most))
    order = "·▁▂▃▄▅▆▇█"
    assert order.index(chart.block(few, most)) <= order.index(chart.block(many, most))
    assert chart.block(most, most) == "█"


def test_pools_are_summed_up_with_what_they_cost() -> None:
    instances = (instance("1", 0, 2 * HOUR), instance("2", HOUR, 1.5 * HOUR), instance("3", 23 * HOUR, group="gpu.a"))
    record = records.record(instances=instances, pods_by_pool={"spot": 7})
    rows = [line.split() for line in tables.pools(record, PRICES, "USD")]
    assert rows[1:] == [
        ["gpu", "spot", "1", "1", "1.0", "0.30", "0"],
        ["spot", "spot", "2", "2", "2.5", "0.75", "7"],
        ["all", "spot", "3", "2", "3.5", "1.05", "7"],
    ]


def test_a_day_without_instances_has_a_row_of_zeros() -> None:
    assert [line.split() for line in tables.pools(records.record(), PRICES, "USD")][1:] == [
        ["all", "0", "0", "0.0", "0.00", "0"]
    ]


def test_waits_are_told_by_median_and_worst_and_who_waits_still() -> None:
    record = records.record(waits=(records.waits(*range(1, 101)), records.waits(0, None, scope="", work="late")))
    _, first, second = tables.waits(record)
    assert first.split() == [
        "compile",
        "builds",
        "100",
        "jobs",
        "50",
        "s",
        "1",
        "min",
        "35",
        "s",
        "1",
        "min",
        "40",
        "s",
        "none",
    ]
    assert second.split() == ["late", "none", "2", "jobs", "0", "s", "24", "h", "24", "h", "1"]


def test_the_whole_is_short_and_says_where_prices_come_from() -> None:
    logs = tuple(records.desired(each * 1000, "spot.a", each, each + 1) for each in range(20))
    lines = report.report(
        records.record(instances=(instance("1", 0),), logs=logs), PriceList(example=True)
    ).splitlines()
    assert lines[0] == "0 jobs and pods came. 1 instance was started, at most 1 at once, for USD 0.00 (example prices)."
    assert "THE MOST TELLING 16 OF 20 DECISIONS, with their reasons" in lines
    assert len(lines) < 60


def test_work_that_never_ran_is_told_first_with_the_last_reason() -> None:
    refused = "no node can be started: LimitReached: the pool has 10 of at most 10"
    record = records.record(
        waits=(records.waits(1, None, None), records.waits(0, work="docs")),
        queued=QueuedJobs(lives=(records.job(),)),
        guests=records.guests(records.guest(waited=None)),
        told=(
            records.told("NotTriggerScaleUp", 1, "another reason"),
            records.told("NotTriggerScaleUp", 2, refused, name="compile-2"),
            records.told("TriggeredScaleUp", 3, "a node is started", name="compile-3"),
            records.told("Waiting", 4, "position 3 in the queue", name="ranking-0001"),
        ),
    )
    first = report.report(record, PriceList()).partition("\n\n")[0].splitlines()
    assert first == [
        "NEVER RAN: 4 pieces of work still waited at the end",
        f"2 of compile. Last told: {refused}",
        "1 of ranking. Last told: position 3 in the queue",
        "1 of notebook. Nothing was told about it.",
    ]


def test_a_day_on_which_all_ran_says_nothing_of_that() -> None:
    assert "NEVER RAN" not in report.report(records.record(waits=(records.waits(1),)), PriceList())
