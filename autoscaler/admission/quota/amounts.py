"""Amounts of resources by flavor, as integers, and how people read them. Pure.

What a queue may use is not known here.
"""

from collections.abc import Mapping
from typing import NamedTuple

from autoscaler.kube import shapes


class FlavorResource(NamedTuple):
    """One resource of one flavor: what quota is counted by."""

    flavor: str
    resource: str


Amounts = Mapping[FlavorResource, int]
"""cpu in millis, all else in units."""


def add(total: dict[FlavorResource, int], more: Amounts, times: int = 1) -> None:
    """Add amounts to a sum, or take them away; what is zero is not kept."""
    for key, amount in more.items():
        value = total.get(key, 0) + amount * times
        if value:
            total[key] = value
        else:
            total.pop(key, None)


def worded(resource: str, amount: int) -> str:
    """Write an amount as people do: `2.5 cpu`, `8Gi memory`, `3 nvidia.com/gpu`."""
    return f"{shapes.worded(resource, amount)} {resource}"
