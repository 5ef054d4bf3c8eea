"""What was seen of guests and of machines: values only, from which the report is made.

Nothing is decided or counted here: `guest_watching` fills them, `guest_tables` and `guest_episodes` read them.
"""

from dataclasses import dataclass

from autoscaler.simulate.observation.waits import Wait


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class MachineName:
    """A machine type of a group."""

    group: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestLife:
    """A guest from its arrival to its start; None: it still waits."""

    namespace: str
    name: str
    machine: MachineName
    came_at: float
    began_at: float | None = None
    is_room_held: bool
    """Whether room was held for it when it came: more of it than guests waited for."""

    @property
    def wait(self) -> Wait:
        return Wait(came_at=self.came_at, began_at=self.began_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineUse:
    """How the machines of one type were used over the day."""

    machine: MachineName
    maximum: int
    most_used: int
    """How many had a guest at once, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guests:
    """All guests of a day, and the machines they used."""

    lives: tuple[GuestLife, ...] = ()
    uses: tuple[MachineUse, ...] = ()
    """Of all machine types, those that nobody used among them."""
    beyond_maximum: int = 0
    """How many more pods of a type, guests and sleepers, were let through at a moment than it has machines, at the
    worst moment."""
