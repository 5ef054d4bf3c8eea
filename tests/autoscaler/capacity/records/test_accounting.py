"""Months add up to the life, scopes never get more than the true time, and nothing is lost on the way."""

import calendar
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.api.resources.instances import MonthUsage, RunningPod
from autoscaler.capacity.records import accounting
from autoscaler.capacity.records.accounting import Durations, Ledger, ScopePool, UsageShare
from tests.autoscaler.capacity import books

TIMES = st.floats(min_value=books.at(2020, 1, 1), max_value=books.at(2032, 1, 1))
SHARES = st.integers(0, accounting.WHOLE)


def running(start: float, *, share: int | None = None, scope: str | None = "team", uid: str = "p") -> RunningPod:
    return RunningPod(pod_uid=uid, scope=scope, started_at=books.date(start), share_millionths=share)


def test_a_time_over_midnight_of_the_first_is_split() -> None:
    got = accounting.by_month(books.at(2026, 11, 30, 23), books.at(2026, 12, 1, 2))
    assert got == (UsageShare("2026-11", 3600), UsageShare("2026-12", 7200))


def test_months_are_as_long_as_they_are() -> None:
    got = accounting.by_month(books.at(2027, 12, 31), books.at(2028, 3, 2))
    want = (
        UsageShare("2027-12", 86400),
        UsageShare("2028-01", 31 * 86400),
        UsageShare("2028-02", 29 * 86400),  # a leap year
        UsageShare("2028-03", 86400),
    )
    assert got == want


@given(TIMES, TIMES)
def test_the_parts_of_a_time_add_up_to_its_whole_seconds(one: float, other: float) -> None:
    start, end = sorted((one, other))
    parts = accounting.by_month(start, end)
    assert end - start - 2 < sum(part.seconds for part in parts) <= end - start
    for part in parts:
        days = calendar.monthrange(int(part.month[:4]), int(part.month[5:]))[1]
        assert 0 < part.seconds <= days * 86400
    assert [part.month for part in parts] == sorted({part.month for part in parts})


@given(TIMES, TIMES, TIMES)
def test_a_time_cut_at_a_whole_second_has_the_same_parts(one: float, two: float, three: float) -> None:
    start, cut, end = (float(int(each)) for each in sorted((one, two, three)))
    whole = Ledger().with_life(start, end)
    assert Ledger().with_life(start, cut).with_life(cut, end) == whole


@given(TIMES)
def test_a_month_ends_where_the_next_one_begins(now: float) -> None:
    end = accounting.month_end(now)
    assert now < end
    assert accounting.month_of(end - 1) == accounting.month_of(now) < accounting.month_of(end)


def test_what_ends_before_it_begins_took_no_time() -> None:
    assert accounting.by_month(100, 50) == ()


@pytest.mark.parametrize(
    ("requests", "want"),
    [
        ({"cpu": 1000}, 250_000),
        ({"cpu": 1000, "memory": 8 * 2**30}, 500_000),
        ({"cpu": 8000}, 1_000_000),
        ({}, 9090),  # one of 110 places for pods
        ({"nvidia.com/gpu": 1}, 9090),  # the node has none
    ],
)
def test_a_share_is_that_of_the_resource_of_which_the_pod_holds_most(requests: dict[str, int], want: int) -> None:
    assert accounting.share_millionths(requests, books.ALLOCATABLE) == want


def test_a_pods_time_is_charged_by_its_share_to_its_scope() -> None:
    start = books.at(2026, 11, 30, 23, 50)
    ledger = Ledger().with_work(running(start, share=250_000), start + 1200)
    assert {month: dict(usage.scopes) for month, usage in ledger.months.items()} == {
        "2026-11": {"team": 150},
        "2026-12": {"team": 150},
    }
    assert ledger.durations == {"team": 300}


def test_a_pod_of_no_scope_is_charged_to_nobody() -> None:
    assert Ledger().with_work(running(books.START, scope=None), books.START + 100) == Ledger()


def test_short_pods_that_hold_little_add_up() -> None:
    ledger = Ledger()
    for number in range(1000):
        ledger = ledger.with_work(running(books.START + number, share=100_000), books.START + number + 1)
    assert ledger.durations == {"team": 100}


@given(st.lists(st.tuples(st.integers(0, 5_000_000), st.integers(0, 100_000), SHARES), max_size=30))
def test_a_scope_gets_the_true_time_less_a_part_of_a_second(pods: list[tuple[int, int, int]]) -> None:
    ledger, true = Ledger(), Fraction(0)
    for offset, seconds, share in pods:
        start = books.START + offset
        ledger = ledger.with_work(running(start, share=share), start + seconds)
        true += Fraction(seconds * share, accounting.WHOLE)
    charged = sum(usage.scopes.get("team", 0) for usage in ledger.months.values())
    assert true - 1 < charged <= true
    assert charged == ledger.durations.get("team", 0)


def test_thirteen_months_are_kept() -> None:
    ledger = Ledger().with_life(books.at(2024, 1, 1), books.at(2026, 11, 16)).kept(books.at(2026, 11, 16))
    assert (len(ledger.months), min(ledger.months), max(ledger.months)) == (13, "2025-11", "2026-11")


def test_a_life_costs_what_its_seconds_cost_in_each_month() -> None:
    ledger = Ledger().with_life(books.at(2026, 11, 30, 23), books.at(2026, 12, 1, 2), hourly_micros=192_000)
    assert {month: usage.cost_micros for month, usage in ledger.months.items()} == {
        "2026-11": 192_000,
        "2026-12": 384_000,
    }


def test_the_month_to_date_has_what_is_over_and_what_runs() -> None:
    now = books.at(2026, 12, 1, 1)
    used = MonthUsage(seconds=50, scopes={"team": 5})
    over = books.instance(1, phase="Terminated", instanceCreatedAt=books.date(now - 999), months={"2026-12": used})
    alive = books.instance(
        2,
        phase="Ready",
        instanceCreatedAt=books.date(now - 7200),
        running=[running(now - 1800, share=500_000).model_dump(by_alias=True)],
        months={"2026-11": MonthUsage(seconds=9999), "2026-12": MonthUsage(seconds=7)},
    )
    got = accounting.month_to_date([over.resource, alive.resource], now, {"gpu-002": 3_600_000})
    assert got.month == "2026-12"
    assert got.seconds == {"gpu": 50 + 7 + 3600}
    assert got.scopes == {ScopePool("team", "gpu"): 5 + 900}
    assert got.cost_micros == {"gpu": 3_600_000}


@given(TIMES, st.integers(0, 60 * 86400), st.lists(st.tuples(st.integers(0, 60 * 86400), SHARES), max_size=5))
def test_the_month_to_date_is_what_would_be_written_if_all_ended_now(
    now: float, age: int, pods: list[tuple[int, int]]
) -> None:
    begun = float(int(now)) - age
    entries = [running(now - min(age, since), share=share, uid=f"p{n}") for n, (since, share) in enumerate(pods)]
    status: dict[str, Any] = {"phase": "Ready", "instanceCreatedAt": books.date(begun), "running": entries}
    one = books.instance(1, **status).resource
    ledger = Ledger().with_life(begun, now)
    for entry in entries:
        ledger = ledger.with_work(entry, now)
    got, want = accounting.month_to_date([one], now), ledger.months.get(accounting.month_of(now), MonthUsage())
    assert got.seconds["gpu"] == want.seconds
    assert got.scopes.get(ScopePool("team", "gpu"), 0) == want.scopes.get("team", 0)


@given(st.lists(st.integers(0, 1_000_000), min_size=1, max_size=300))
def test_a_mean_stays_within_what_was_seen(seconds: list[int]) -> None:
    mean = Durations()
    for each in seconds:
        mean = mean.with_sample(each)
    assert mean.samples == len(seconds)
    assert mean.mean_seconds is not None
    assert min(seconds) <= mean.mean_seconds <= max(seconds)


def test_a_mean_of_many_pods_still_follows_them() -> None:
    mean = Durations(mean_seconds=600, samples=100_000)
    for _ in range(500):
        mean = mean.with_sample(60)
    want = 60
    assert mean.mean_seconds == want
