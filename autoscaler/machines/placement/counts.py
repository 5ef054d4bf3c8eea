"""How many guests and sleepers of a type there are, and how many more may be opened: all is derived from pods.

Open sleepers, bound or not and on any node, and open guests, bound, unbound, refused or terminating, are never more
than the type's maximum. That is checked here, before every opening of either. Counts are kept current as guests and
sleepers come and go; a plan counts what it opens in a copy.
"""

from dataclasses import dataclass

from autoscaler.machines.model import Guest, Phase, Sleeper, Usage


@dataclass(slots=True)
class Count:
    """What there is of one type, and what the plan in hand opens besides."""

    maximum: int = 0
    open_guests: int = 0
    open_sleepers: int = 0
    """Terminating ones among them."""
    used: int = 0
    waiting: int = 0
    """Guests that are looked at and have no node."""
    unbound: int = 0
    """Guests that have no node, those that are not looked at among them."""
    reserved: int = 0
    """Sleepers that are bound to ready nodes."""

    @property
    def may_open(self) -> bool:
        """Tell whether one more guest or sleeper may be opened."""
        return self.open_guests + self.open_sleepers < self.maximum

    @property
    def sleepers_wanted(self) -> int:
        """Return how many sleepers should be open at most."""
        return max(0, self.maximum - self.used - self.waiting)

    @property
    def usage(self) -> Usage:
        """Return what status shows."""
        return Usage(maximum=self.maximum, reserved=self.reserved, used=self.used, waiting=self.unbound)

    def count_guest(self, guest: Guest, by: int) -> None:
        """Count a guest in, by 1, or out, by -1."""
        self.open_guests += by * guest.is_open
        self.used += by * guest.is_used
        self.waiting += by * guest.is_waiting
        self.unbound += by * (guest.phase is not Phase.BOUND)

    def count_sleeper(self, sleeper: Sleeper, by: int) -> None:
        """Count a sleeper in, by 1, or out, by -1."""
        self.open_sleepers += by * sleeper.is_open
