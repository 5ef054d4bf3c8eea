"""What instances cost, where somebody has said so. Pure, in whole millionths of the currency of the prices."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from autoscaler.api.resources.pools import CapacityType
from autoscaler.api.settings.scaling import PriceList

MICROS: Final = 1_000_000
_HOUR_SECONDS: Final = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Prices by instance type and kind of capacity; what has none costs an unknown amount, not nothing."""

    hourly_micros: Mapping[tuple[str, CapacityType], int] = field(default_factory=dict)
    currency: str = "USD"

    @classmethod
    def of(cls, listed: PriceList) -> Self:
        """Take the prices that a stack gives."""
        return cls(
            hourly_micros={
                (kind, capacity): int(price * MICROS)
                for kind, by_capacity in listed.hourly.items()
                for capacity, price in by_capacity.items()
            },
            currency=listed.currency,
        )

    def cost_micros(self, instance_type: str, capacity_type: CapacityType, *, seconds: int) -> int | None:
        """Return what so many seconds cost, rounded up so that a limit is never passed unseen; None without a price."""
        hourly = self.hourly_micros.get((instance_type, capacity_type))
        return None if hourly is None else -(-hourly * seconds // _HOUR_SECONDS)
