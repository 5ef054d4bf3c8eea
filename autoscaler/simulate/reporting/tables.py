"""Aligned columns, and the two tables of a report: what pools cost and how long work waited. Pure."""

import math
from collections.abc import Iterable, Sequence

from autoscaler import units
from autoscaler.cloud.prices import Prices
from autoscaler.simulate.observation.record import InstanceLife, Record
from autoscaler.simulate.observation.waits import Waits
from autoscaler.simulate.reporting import chart


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1) -> list[str]:
    """Align rows under their head; the first columns to the left, numbers to the right."""
    everything = [tuple(head), *map(tuple, rows)]
    widths = [max(map(len, column)) for column in zip(*everything, strict=True)]

    def line(row: Sequence[str]) -> str:
        cells = (
            cell.ljust(width) if index < left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        return "  ".join(cells).rstrip()

    return [line(row) for row in everything]


def pools(record: Record, prices: Prices, currency: str) -> list[str]:
    """Say of each pool how many instances it had, for how long, and what they cost."""
    by_pool: dict[str, list[InstanceLife]] = {}
    for instance in record.instances:
        by_pool.setdefault(instance.key.pool, []).append(instance)
    rows = [_pool(record, name, lives, prices) for name, lives in sorted(by_pool.items())]
    every = _pool(record, "all", record.instances, prices)
    head = ("pool", "bought", "started", "most at once", "instance hours", f"cost ({currency})", "pods run")
    return table(head, [*rows, every], left=2)


def _pool(record: Record, name: str, lives: Sequence[InstanceLife], prices: Prices) -> tuple[str, ...]:
    kinds = sorted({one.capacity_type for one in lives})
    seconds = sum(one.seconds(record.ends_at) for one in lives)
    ran = record.pods_by_pool.get(name, 0) if name != "all" else sum(record.pods_by_pool.values())
    return (
        name,
        kinds[0] if len(kinds) == 1 else "",
        f"{len(lives):,}",
        f"{chart.most_at_once(lives, record.starts_at, record.ends_at):,}",
        f"{seconds / 3600:,.1f}",
        f"{cost_micros(record, lives, prices) / 1_000_000:,.2f}",
        f"{ran:,}",
    )


def cost_micros(record: Record, lives: Iterable[InstanceLife], prices: Prices) -> int:
    """Return what instances cost, each by the begun second; those without a price cost nothing here."""
    costs = (
        prices.cost_micros(one.key.instance_type, one.capacity_type, seconds=math.ceil(one.seconds(record.ends_at)))
        for one in lives
    )
    return sum(cost for cost in costs if cost is not None)


def waits(record: Record) -> list[str]:
    """Say of each kind of work how long it waited until it began."""
    rows = [_wait(record, each) for each in record.waits]
    head = ("work", "scope", "", "median", "95 % within", "worst", "still waiting")
    return table(head, rows, left=2)


def _wait(record: Record, each: Waits) -> tuple[str, ...]:
    seconds = sorted(wait.seconds(record.ends_at) for wait in each.waits)
    still = sum(wait.began_at is None for wait in each.waits)
    shown = [units.duration(quantile(seconds, share)) if seconds else "" for share in (0.5, 0.95, 1.0)]
    return (each.work, each.scope or "none", f"{len(seconds):,} {each.what}", *shown, f"{still:,}" if still else "none")


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest value that so large a share does not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
