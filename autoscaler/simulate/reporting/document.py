"""The summary of a day as data, for programs: what `simulate --output json` prints. Pure."""

from typing import Any

from autoscaler.api.settings.scaling import PriceList
from autoscaler.cloud.prices import Prices
from autoscaler.simulate.observation.record import Record
from autoscaler.simulate.observation.waits import Waits
from autoscaler.simulate.reporting import tables, targets


def document(record: Record, given: PriceList) -> dict[str, Any]:
    """Return instances and money by pool, waits by kind of work, and what became of target latencies."""
    prices = Prices.of(given)
    pools = sorted({one.key.pool for one in record.instances})
    return {
        "currency": given.currency,
        "examplePrices": given.example,
        "pools": [_pool(record, name, prices) for name in pools],
        "work": [_work(record, each) for each in record.waits],
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


def _work(record: Record, each: Waits) -> dict[str, Any]:
    seconds = sorted(wait.seconds(record.ends_at) for wait in each.waits)
    still = sum(wait.began_at is None for wait in each.waits)
    return {"work": each.work, "scope": each.scope, "count": len(seconds), **_quantiles(seconds), "stillWaiting": still}


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
