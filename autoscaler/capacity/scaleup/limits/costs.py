"""What the instances that are there cost an hour. Pure; what has no price costs an unknown amount, and is left out."""

from collections.abc import Iterable, Mapping

from autoscaler.api.resources.instances import Instance
from autoscaler.api.resources.pools import InstancePoolSpec
from autoscaler.cloud.prices import Prices


def hourly_micros(
    instances: Iterable[Instance], pools: Mapping[str, InstancePoolSpec], prices: Prices
) -> dict[str, int]:
    """Return prices by the instances' names, for lives that are not over."""
    found = {}
    for instance in instances:
        spec, kind = pools.get(instance.spec.pool), instance.status.instance_type
        if spec is not None and kind is not None:
            price = prices.hourly_micros.get((kind, spec.specifications.capacity_type))
            if price is not None:
                found[instance.metadata.name] = price
    return found
