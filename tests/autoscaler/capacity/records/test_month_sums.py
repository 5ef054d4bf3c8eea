"""Sums that follow each change say what adding everything up again does, but for parts of a second."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from autoscaler.api.resources.instances import MonthUsage
from autoscaler.capacity.records import accounting, month_sums
from autoscaler.capacity.scaleup.limits import costs
from autoscaler.cloud.prices import Prices
from autoscaler.kube import store
from tests.autoscaler.capacity import books, seen

NOW = books.at(2026, 12, 5, 12)
POOLS = {"gpu": seen.pool(), "cpu": seen.pool()}
PRICES = Prices(hourly_micros={("m5.xlarge", POOLS["gpu"].specifications.capacity_type): 192_001})
AGES = st.integers(0, 40 * 86400)
PODS = st.fixed_dictionaries(
    {
        "scope": st.sampled_from(["team", "lab", None]),
        "startedAt": AGES.map(lambda age: books.date(NOW - age)),
        "shareMillionths": st.integers(0, 1_000_000),
    }
)
MONTHS = st.dictionaries(
    st.sampled_from(["2026-11", "2026-12"]),
    st.builds(
        lambda seconds, cost, scopes: MonthUsage(seconds=seconds, cost_micros=cost, scopes=scopes),
        st.integers(0, 10**6),
        st.none() | st.integers(0, 10**9),
        st.dictionaries(st.sampled_from(["team", "lab"]), st.integers(1, 10**6)),
    ),
)
STATUS = st.fixed_dictionaries(
    {
        "phase": st.sampled_from(["Launching", "Ready", "Draining", "Terminated"]),
        "instanceCreatedAt": AGES.map(lambda age: books.date(NOW - age)),
        "instanceType": st.sampled_from(["m5.xlarge", "m5.large"]),
        "running": st.lists(PODS, max_size=4),
        "months": MONTHS,
        "remainders": st.dictionaries(st.sampled_from(["team", "lab"]), st.integers(1, 999_999)),
    }
)
STEPS = st.lists(st.tuples(st.integers(1, 4), st.sampled_from(["gpu", "cpu"]), st.none() | STATUS), max_size=20)


def record(number: int, pool: str, version: int, status: dict[str, Any]) -> month_sums.Record:
    pods = [{**pod, "podUID": f"p{at}"} for at, pod in enumerate(status.get("running", ()))]
    return books.instance(number, pool=pool, version=version, **{**status, "running": pods})


@given(STEPS, st.integers(0, 86400))
def test_sums_follow_each_change(steps: list[tuple[int, str, dict[str, Any] | None]], later: int) -> None:
    table: store.Table[month_sums.Record] = store.Table()
    sums = month_sums.MonthSums(table)
    for version, (number, pool, status) in enumerate(steps, start=1):
        made = record(number, pool, version, status or {})
        table.seen(made) if status is not None else table.gone(made.meta)
    now = NOW + later
    there = [each.resource for each in table]
    want = accounting.month_to_date(there, now, costs.hourly_micros(there, POOLS, PRICES))
    got = sums.to_date(now, POOLS, PRICES)
    assert (got.month, got.seconds) == (want.month, want.seconds)
    for key in got.scopes.keys() | want.scopes.keys():
        assert abs(got.scopes.get(key, 0) - want.scopes.get(key, 0)) <= len(there)
    for pool in want.cost_micros:
        assert 0 <= want.cost_micros[pool] - got.cost_micros[pool] <= len(there)
    assert month_sums.MonthSums(table).to_date(now, POOLS, PRICES) == got  # to the last second


def test_a_start_that_is_yet_to_come_counts_nothing() -> None:
    table: store.Table[month_sums.Record] = store.Table()
    table.seen(record(1, "gpu", 1, {"phase": "Ready", "instanceCreatedAt": books.date(NOW + 60)}))
    assert month_sums.MonthSums(table).to_date(NOW, POOLS, PRICES).seconds == {"gpu": 0}


def test_parts_of_a_second_of_several_instances_are_added_up() -> None:
    table: store.Table[month_sums.Record] = store.Table()
    half = {"scope": "team", "startedAt": books.date(NOW - 1), "shareMillionths": 500_000}
    for number in (1, 2):
        status = {"phase": "Ready", "instanceCreatedAt": books.date(NOW - 1), "running": [half]}
        table.seen(record(number, "gpu", number, status))
    got = month_sums.MonthSums(table).to_date(NOW, POOLS, PRICES)
    assert got.scopes == {accounting.ScopePool("team", "gpu"): 1}
