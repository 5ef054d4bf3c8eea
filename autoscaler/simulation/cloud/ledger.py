"""The cloud's own bill for a run, to compare our accounts with. Pure."""

from collections.abc import Iterable, Mapping

from autoscaler.cloud import prices
from autoscaler.simulation.cloud.model import SimulatedInstance


def seconds_by_pool(instances: Iterable[SimulatedInstance], now: float) -> Mapping[str, float]:
    """Return how long the instances of each pool have lived, from launch to the order to end."""
    total: dict[str, float] = {}
    for instance in instances:
        total[instance.key.pool] = total.get(instance.key.pool, 0.0) + instance.seconds(now)
    return dict(sorted(total.items()))


def cost_micros(instances: Iterable[SimulatedInstance], given: prices.Prices, now: float) -> int:
    """Return what all instances with a price have cost, each by the begun second."""
    costs = (
        given.cost_micros(instance.key.instance_type, instance.capacity_type, seconds=-int(-instance.seconds(now) // 1))
        for instance in instances
    )
    return sum(cost for cost in costs if cost is not None)
