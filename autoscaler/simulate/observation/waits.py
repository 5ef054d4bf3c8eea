"""How long work waited until it began: values only."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """How long something waited until it began; None: it still waits."""

    came_at: float
    began_at: float | None

    def seconds(self, now: float) -> float:
        return (now if self.began_at is None else self.began_at) - self.came_at


@dataclass(frozen=True, slots=True, kw_only=True)
class PodWait:
    """How long a pod waited for a node."""

    scope: str
    """Empty: its namespace is in none."""
    pool: str
    """Where it began; empty: it still waits, or a node without a pool took it."""
    wait: Wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """The waits of one kind of work."""

    scope: str
    work: str
    """The queue's name, or that of the kind of pods."""
    what: str
    """jobs or pods."""
    waits: tuple[Wait, ...]
