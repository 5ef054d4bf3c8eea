"""The summary of a day as data, for programs: what `simulate --format json` prints. Pure."""

from collections.abc import Iterable
from typing import Any

from autoscaler.api.settings.scaling import PriceList
from autoscaler.cloud.prices import Prices
from autoscaler.simulate.observation.record import Record
from autoscaler.simulate.observation.waits import Wait
from autoscaler.simulate.reporting import chart, tables, targets


def document(record: Record, given: PriceList) -> dict[str, Any]:
    """Return instances and money by pool, waits by kind of work, and what became of target latencies."""
    prices = Prices.of(given)
    pools = sorted({one.key.pool for one in record.instances})
    return {
        "currency": given.currency,
        "examplePrices": given.example,
        "mostAtOnce": chart.most_at_once(record.instances, record.starts_at, record.ends_at),
        "pools": [_pool(record, name, prices) for name in pools],
        "work": [{"work": each.work, "scope": each.scope, **_waited(record, each.waits)} for each in record.waits],
        "queuedJobs": _queued_jobs(record),
        "guests": _guests(record),
        "targets": [_target(each) for each in targets.outcomes(record)],
    }


def _pool(record: Record, name: str, prices: Prices) -> dict[str, Any]:
    lives = [one for one in record.instances if one.key.pool == name]
    return {
        "pool": name,
        "instances": len(lives),
        "instanceSeconds": round(sum(one.seconds(record.ends_at) for one in lives)),
        "costMicros": tables.cost_micros(record, lives, prices),
        "podsRun": record.pods_by_pool.get(name, 0),
    }


def _queued_jobs(record: Record) -> list[dict[str, Any]]:
    """Return how long jobs waited until they were first admitted, by name and LocalQueue."""
    found: dict[tuple[str, str], list[Wait]] = {}
    for life in record.queued.lives:
        found.setdefault((life.work, f"{life.namespace}/{life.queue}"), []).append(life.wait)
    return [{"work": work, "queue": queue, **_waited(record, waits)} for (work, queue), waits in found.items()]


def _guests(record: Record) -> list[dict[str, Any]]:
    """Return how long guests waited until they ran, by machine."""
    found: dict[tuple[str, str], list[Wait]] = {}
    for life in record.guests.lives:
        found.setdefault((life.machine.group, life.machine.type), []).append(life.wait)
    return [{"group": group, "type": kind, **_waited(record, waits)} for (group, kind), waits in found.items()]


def _waited(record: Record, waits: Iterable[Wait]) -> dict[str, Any]:
    waited = list(waits)
    seconds = sorted(wait.seconds(record.ends_at) for wait in waited)
    still = sum(wait.began_at is None for wait in waited)
    return {"count": len(seconds), **_quantiles(seconds), "stillWaiting": still}


def _target(each: targets.Outcome) -> dict[str, Any]:
    return {
        "scope": each.target.scope,
        "pool": each.target.pool,
        "targetSeconds": each.target.seconds,
        "pods": len(each.seconds),
        **_quantiles(each.seconds),
        "met": each.is_met,
        "late": each.late,
        "inTheWay": [{"what": what, "pods": count} for what, count in each.obstacles],
    }


def _quantiles(ordered: list[float] | tuple[float, ...]) -> dict[str, float]:
    names = {"medianSeconds": 0.5, "p95Seconds": targets.SHARE, "worstSeconds": 1.0}
    return {name: round(tables.quantile(ordered, share), 1) for name, share in names.items()} if ordered else {}
