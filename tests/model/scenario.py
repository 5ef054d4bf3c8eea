"""What an exploration is given: the cluster at the start, and how often what may happen to it."""

from dataclasses import dataclass, field
from typing import NamedTuple

from autoscaler.admission.writes import Step


class Start(NamedTuple):
    """A Job that is there from the start."""

    name: str
    size: int
    priority_class: str = ""
    completions: int | None = None
    queue: str = "door"


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """Something that people do, a limited number of times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize(Happening):
    job: str
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Create(Happening):
    """Create a Job of a name, if there is none; it is another one each time."""

    job: Start


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete(Happening):
    job: str
    orphan: bool = False
    """Whether its pods and Workload are to stay (`--cascade=orphan`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePod(Happening):
    """Delete any pod that lives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LosePod(Happening):
    """Lose any pod at once, as with its node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndPod(Happening):
    """Let any open pod succeed whose Job counts completions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deactivate(Happening):
    """Set `spec.active` of a job's Workload to false, or back to true."""

    job: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseWorkload(Happening):
    """Let a job's Workload be gone at once, as somebody can who takes its finalizer away."""

    job: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspend(Happening):
    """Suspend a Job by hand, or resume it."""

    job: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse(Happening):
    """Refuse to open a pod's gate, for good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One exploration."""

    name: str
    quota: int
    jobs: tuple[Start, ...]
    happenings: tuple[tuple[Happening, int], ...] = ()
    preempts: bool = False
    from_rest: bool = False
    """Whether to begin when the jobs have been served, and nothing moves any more."""
    crashes: int = 0
    lost: int = 0
    """How many writes are never answered; such a write may take effect at any later time, or never."""
    lost_steps: frozenset[Step] = frozenset(Step)
    lagging: int = 1
    """How many objects the runtime may be behind with at once."""
    pods_start: bool = False
    """Whether open pods become Ready, at some time."""
    pods_end: bool = False
    """Whether open pods succeed, at some time."""
    jumps: tuple[float, ...] = field(default=())
    """Times, in seconds after the start, to which the clock jumps, one after the other."""
