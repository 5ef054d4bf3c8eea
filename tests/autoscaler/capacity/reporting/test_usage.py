"""What was used in a month: by pool and scope, idle time apart, over months, and what nobody has records of."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from autoscaler.api.resources.instances import Instance
from autoscaler.api.resources.pools import InstancePool
from autoscaler.capacity.reporting import usage
from tests import builders

HOUR = 3600
NOW = datetime(2026, 11, 18, tzinfo=UTC).timestamp()


def ended(name: str = "spot-001", months: dict[str, Any] | None = None) -> Instance:
    body = builders.resource("Instance", name=name)
    spec = {"pool": name.rpartition("-")[0], "number": int(name.rpartition("-")[2])}
    return Instance.model_validate({**body, "spec": spec, "status": {"phase": "Terminated", "months": months or {}}})


def living(created: str, **status: Any) -> Instance:
    body = builders.resource("Instance", name="spot-002")
    state = {"phase": "Ready", "instanceCreatedAt": created, **status}
    return Instance.model_validate({**body, "spec": {"pool": "spot", "number": 2}, "status": state})


def pool(cost: str, month: str = "2026-11") -> InstancePool:
    status = {"month": month, "costThisMonth": cost}
    return InstancePool.model_validate({**builders.resource("InstancePool", name="spot"), "status": status})


def told(found: usage.Usage) -> list[tuple[str, str, float, int | None]]:
    return [(row.pool, row.scope, row.seconds / HOUR, row.cost_micros) for row in found.rows]


OCTOBER = {"2026-10": {"seconds": 10 * HOUR, "scopes": {"builds": 6 * HOUR, "ads": HOUR}, "costMicros": 5_000_000}}


def test_a_month_that_is_over_is_told_by_scope_with_idle_time_and_the_cost_shared_out() -> None:
    found = usage.usage([ended(months=OCTOBER)], [], "2026-10", NOW)
    assert told(found) == [
        ("spot", "ads", 1.0, 500_000),
        ("spot", "builds", 6.0, 3_000_000),
        ("spot", "(idle)", 3.0, 1_500_000),
        ("spot", "(all)", 10.0, 5_000_000),
    ]
    assert usage.text(found).splitlines()[3].split() == ["spot", "ads", "1.0", "0.50"]
    assert not found.running


def test_the_present_month_has_what_still_runs_and_the_cost_that_its_pool_tells() -> None:
    runs = [{"podUID": "a", "scope": "builds", "startedAt": "2026-11-17T23:00:00Z", "shareMillionths": 500_000}]
    instance = living("2026-11-17T22:00:00Z", running=runs)
    found = usage.usage([instance], [pool("8.5")], "2026-11", NOW)
    assert told(found) == [
        ("spot", "builds", 0.5, 2_125_000),
        ("spot", "(idle)", 1.5, 6_375_000),
        ("spot", "(all)", 2.0, 8_500_000),
    ]


def test_a_life_that_began_in_a_month_that_is_over_counts_there_and_its_cost_is_told_as_missing() -> None:
    instance = living("2026-10-31T23:00:00Z")
    found = usage.usage([ended(months=OCTOBER), instance], [pool("8.5")], "2026-10", NOW)
    assert found.rows[-1].seconds == pytest.approx(11 * HOUR, abs=1)
    assert found.rows[-1].cost_micros == 5_000_000
    assert "The cost of spot lacks 1 instance of that month, still running." in usage.text(found)


def test_pods_that_together_hold_more_than_a_node_share_its_cost() -> None:
    months = {"2026-10": {"seconds": HOUR, "scopes": {"a": HOUR, "b": HOUR}, "costMicros": 1_000_000}}
    found = usage.usage([ended(months=months)], [], "2026-10", NOW)
    assert [row.cost_micros for row in found.rows] == [500_000, 500_000, 1_000_000]


def test_without_prices_there_is_no_cost_and_without_use_no_row() -> None:
    found = usage.usage([ended(months={"2026-10": {"seconds": HOUR}})], [], "2026-10", NOW)
    assert [row.cost_micros for row in found.rows] == [None, None]
    assert usage.as_csv(found).splitlines()[1] == "2026-10,spot,(idle),3600,"
    assert usage.text(usage.usage([], [], "2026-10", NOW)) == "No instance was used in 2026-10 (UTC)."


def test_programs_and_spreadsheets_get_the_same() -> None:
    found = usage.usage([ended(months=OCTOBER)], [], "2026-10", NOW)
    assert usage.as_csv(found).splitlines()[:2] == ["month,pool,scope,seconds,cost", "2026-10,spot,ads,3600,0.500000"]
    assert json.loads(usage.as_json(found))["rows"][0] == {
        "pool": "spot",
        "scope": "ads",
        "seconds": 3600,
        "cost": "0.500000",
    }


@pytest.mark.parametrize(("month", "want"), [("2026-12", "has not begun yet"), ("2025-10", "13 months are kept")])
def test_a_month_that_nobody_has_records_of_is_refused(month: str, want: str) -> None:
    with pytest.raises(usage.UsageError, match=want):
        usage.usage([], [], month, NOW)
