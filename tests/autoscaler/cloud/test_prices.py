"""What instances cost: rounded up, and unknown rather than nothing."""

from decimal import Decimal

import hypothesis
from hypothesis import strategies

from autoscaler.api.resources.pools import CapacityType
from autoscaler.api.settings.scaling import PriceList
from autoscaler.cloud.prices import Prices

PRICES = Prices(hourly_micros={("m5.large", CapacityType.ON_DEMAND): 107_000})


def test_a_price_is_by_type_and_kind_of_capacity() -> None:
    assert PRICES.cost_micros("m5.large", CapacityType.ON_DEMAND, seconds=7200) == 214_000
    assert PRICES.cost_micros("m5.large", CapacityType.SPOT, seconds=7200) is None
    assert PRICES.cost_micros("m5.xlarge", CapacityType.ON_DEMAND, seconds=7200) is None


def test_the_prices_of_a_stack_are_taken_exactly() -> None:
    listed = PriceList(hourly={"m5.large": {CapacityType.ON_DEMAND: Decimal("0.107")}})
    assert Prices.of(listed) == PRICES


@hypothesis.given(strategies.integers(0, 10**7))
def test_a_cost_is_never_below_the_price(seconds: int) -> None:
    cost = PRICES.cost_micros("m5.large", CapacityType.ON_DEMAND, seconds=seconds)
    assert cost is not None
    assert 0 <= cost * 3600 - 107_000 * seconds < 3600
