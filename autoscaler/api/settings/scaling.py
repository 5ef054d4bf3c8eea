"""How a stack wants its nodes scaled: ceilings, the choice among groups, and prices. What it tells the runtime.

Values only. It must not choose, reckon or look anything up: the runtime's capacity controller does the first two, and
the prices are the stack's data.
"""

from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from autoscaler.api.resources.base import Model
from autoscaler.api.resources.pools import CapacityType, InstanceTypeName
from autoscaler.api.resources.types import Count

PRICE_PLACES: Final = 6
"""Prices have so many decimal places: the runtime reckons in millionths."""

Currency = Annotated[str, Field(pattern=r"^[A-Z]{3}$")]
"""Such as USD."""
Price = Annotated[Decimal, Field(gt=0, le=100_000, decimal_places=PRICE_PLACES)]
"""Of an hour."""


class Expander(StrEnum):
    """How to choose among groups that fit; each keeps the best and leaves ties to the next."""

    LEAST_WASTE = "least-waste"
    """Most of a node is used: mean of cpu and memory, and devices that nobody asked for weigh as much as both."""
    PRICE = "price"
    """Cheapest for what is used; groups without a price come last."""
    BALANCED = "balanced"
    """Fewest nodes of the pool in the zone, so that equal groups of several zones fill evenly."""


EXPANDERS: Final = (Expander.LEAST_WASTE, Expander.BALANCED)
"""How to choose where nobody says otherwise."""


class PriceList(Model):
    """What instances cost an hour."""

    currency: Currency = "USD"
    """The currency of all prices, and of limits of money."""
    example: bool = False
    """True for numbers that nobody has checked against AWS."""
    hourly: dict[InstanceTypeName, dict[CapacityType, Price]] = Field(default_factory=dict)
    """By instance type and kind of capacity."""


class Scaling(Model):
    """How nodes are scaled."""

    nodes: Count | None = None
    """The most instances of all pools together. None: no limit."""
    cores: Count | None = None
    """The most virtual processors of all pools together. None: no limit."""
    launches_per_minute: Count | None = None
    """The most instances that are asked for within a minute. None: no limit."""
    expanders: tuple[Expander, ...] = EXPANDERS
    """How to choose among groups that fit."""
    prices: PriceList = PriceList()
    """What instances cost."""
