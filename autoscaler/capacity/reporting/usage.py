"""What each pool was used for in a month, and by whom: from the Instance objects, which keep 13 months. Pure.

An instance's time is wall time. A scope's time is its pods' time multiplied by their share of the node, so that what
nobody used is idle time. A scope is charged the pool's cost by its share of the pool's time.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from autoscaler import units
from autoscaler.api.resources.instances import Instance
from autoscaler.api.resources.pools import InstancePool
from autoscaler.capacity.records import accounting
from autoscaler.cloud.prices import MICROS
from autoscaler.control import plans

IDLE: Final = "(idle)"
ALL: Final = "(all)"


class UsageError(Exception):
    """There is nothing to tell of a month; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What a scope used of a pool."""

    pool: str
    scope: str
    """Or `(idle)`: nobody's time; `(all)`: the whole pool's."""
    seconds: int
    cost_micros: int | None
    """None: no price was known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What all pools were used for in a month."""

    month: str
    rows: tuple[Row, ...] = ()
    running: Mapping[str, int] = field(default_factory=dict)
    """Pools of a month that is over whose cost lacks instances that still run, and how many these are."""


def usage(instances: Iterable[Instance], pools: Iterable[InstancePool], month: str, now: float) -> Usage:
    """Sum a month up; raise UsageError for one that nobody has records of."""
    age = accounting.age_in_months(month, now)
    if age < 0:
        raise UsageError(f"{month} has not begun yet")
    if age >= accounting.MONTHS_KEPT:
        raise UsageError(f"{month} is too long ago: {accounting.MONTHS_KEPT} months are kept")
    there, at = list(instances), now if age == 0 else _last_moment(month)
    sums = accounting.month_to_date(there, at)
    stated = {pool.metadata.name: _stated_cost(pool, month) for pool in pools}
    found = [
        row
        for name in sorted({*sums.seconds, *stated})
        for row in _rows(sums, name, stated.get(name) if age == 0 else sums.cost_micros.get(name) or None)
    ]
    running = _running(there, at) if age else {}
    return Usage(month=month, rows=tuple(found), running=running)


def _rows(sums: accounting.MonthToDate, pool: str, cost: int | None) -> Iterator[Row]:
    whole = sums.seconds.get(pool, 0)
    used = {key.scope: seconds for key, seconds in sums.scopes.items() if key.pool == pool and seconds}
    idle = max(0, whole - sum(used.values()))
    shares = {**dict(sorted(used.items())), **({IDLE: idle} if idle else {})}
    for scope, seconds in shares.items():
        charged = None if cost is None or not whole else cost * seconds // max(whole, sum(used.values()))
        yield Row(pool=pool, scope=scope, seconds=seconds, cost_micros=charged)
    if whole or shares:
        yield Row(pool=pool, scope=ALL, seconds=whole, cost_micros=cost)


def _stated_cost(pool: InstancePool, month: str) -> int | None:
    """Return what a pool says that the present month has cost."""
    if pool.status.month != month or pool.status.cost_this_month is None:
        return None
    return int(Decimal(pool.status.cost_this_month) * MICROS)


def _running(instances: Iterable[Instance], at: float) -> dict[str, int]:
    found: dict[str, int] = {}
    for instance in instances:
        created = instance.status.instance_created_at
        if instance.status.phase in accounting.LIVING and created is not None and created.timestamp() < at:
            found[instance.spec.pool] = found.get(instance.spec.pool, 0) + 1
    return found


def _last_moment(month: str) -> float:
    year, number = int(month[:4]), int(month[5:])
    return accounting.month_end(datetime(year, number, 1, tzinfo=UTC).timestamp()) - 0.5


# In words


def text(found: Usage) -> str:
    """Write it for people."""
    rows = [("POOL", "SCOPE", "HOURS", "COST")]
    rows += [(row.pool, row.scope, f"{row.seconds / 3600:,.1f}", _money(row)) for row in found.rows]
    lines = [f"Instances used in {found.month} (UTC)", "", *plans.table(rows)]
    if not found.rows:
        lines = [f"No instance was used in {found.month} (UTC)."]
    lines += [
        plans.wrapped(f"The cost of {pool} lacks {units.counted(count, 'instance')} of that month, still running.")
        for pool, count in sorted(found.running.items())
    ]
    return "\n".join(lines)


def as_csv(found: Usage) -> str:
    """Write it for spreadsheets."""
    written = io.StringIO()
    made = csv.writer(written, lineterminator="\n")
    made.writerow(("month", "pool", "scope", "seconds", "cost"))
    for row in found.rows:
        made.writerow((found.month, row.pool, row.scope, row.seconds, _plain(row) or ""))
    return written.getvalue().rstrip("\n")


def as_json(found: Usage) -> str:
    """Write it for programs."""
    rows: list[dict[str, Any]] = [
        {"pool": row.pool, "scope": row.scope, "seconds": row.seconds, "cost": _plain(row)} for row in found.rows
    ]
    return json.dumps({"month": found.month, "rows": rows, "stillRunning": dict(found.running)}, indent=2)


def _money(row: Row) -> str:
    return "-" if row.cost_micros is None else units.money(row.cost_micros)


def _plain(row: Row) -> str | None:
    return None if row.cost_micros is None else f"{Decimal(row.cost_micros) / MICROS:.6f}"
