"""The cloud's own bill for a run, to compare our accounts with. Pure."""

from collections.abc import Iterable, Mapping

from autoscaler.cloud import prices
from autoscaler.simulation.cloud.model import Machine


def seconds_by_pool(machines: Iterable[Machine], now: float) -> Mapping[str, float]:
    """Return how long the machines of each pool have lived, from launch to the order to end."""
    total: dict[str, float] = {}
    for machine in machines:
        total[machine.key.pool] = total.get(machine.key.pool, 0.0) + machine.seconds(now)
    return dict(sorted(total.items()))


def cost_micros(machines: Iterable[Machine], given: prices.Prices, now: float) -> int:
    """Return what all machines with a price have cost, each by the begun second."""
    costs = (
        given.cost_micros(machine.key.instance_type, machine.capacity_type, seconds=-int(-machine.seconds(now) // 1))
        for machine in machines
    )
    return sum(cost for cost in costs if cost is not None)
