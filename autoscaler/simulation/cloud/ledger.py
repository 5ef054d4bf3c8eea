"""The cloud's own bill for a run, to compare our accounts with. Pure."""

from collections.abc import Iterable

from autoscaler.cloud import prices
from autoscaler.simulation.cloud.model import SimulatedInstance


def cost_micros(instances: Iterable[SimulatedInstance], given: prices.Prices, now: float) -> int:
    """Return what all instances with a price have cost, each by the begun second."""
    costs = (
        given.cost_micros(instance.key.instance_type, instance.capacity_type, seconds=-int(-instance.seconds(now) // 1))
        for instance in instances
    )
    return sum(cost for cost in costs if cost is not None)
