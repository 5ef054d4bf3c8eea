"""What was seen of queued jobs and of quota: values only, from which the report is made."""

from dataclasses import dataclass
from enum import StrEnum

from autoscaler.simulate.observation.waits import Wait


class StepKind(StrEnum):
    """What happened to the quota of a job."""

    ADMITTED = "admitted"
    GREW = "grew"
    SHRANK = "shrank"
    EVICTED = "evicted"
    """It was told to give its quota back; it has it until its pods are gone."""
    RELEASED = "released"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One change of what a job may run."""

    at: float
    kind: StepKind
    before: int
    """How many pods were granted."""
    after: int
    wanted: int
    """How many pods the job asked for."""
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLife:
    """A queued job from its arrival to its end; None: it has not ended."""

    namespace: str
    name: str
    work: str
    """Its name in the trace."""
    queue: str
    """Its LocalQueue."""
    came_at: float
    ended_at: float | None = None
    steps: tuple[Step, ...] = ()

    @property
    def wait(self) -> Wait:
        """How long it waited until it was admitted for the first time."""
        first = next((step.at for step in self.steps if step.kind is StepKind.ADMITTED), None)
        return Wait(came_at=self.came_at, began_at=first)

    @property
    def evictions(self) -> int:
        return sum(step.kind is StepKind.EVICTED for step in self.steps)

    @property
    def added(self) -> int:
        """How many pods were granted to it beyond what it was admitted with, each time it grew."""
        return sum(step.after - step.before for step in self.steps if step.kind is StepKind.GREW)

    def granted(self, at: float) -> int:
        """Return how many pods it might run at a moment."""
        return next((step.after for step in reversed(self.steps) if step.at <= at), 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaUse:
    """How one resource of a flavor of a ClusterQueue was used over the day: cpu in millis, all else in units."""

    cluster_queue: str
    flavor: str
    resource: str
    nominal: int
    most: int
    mean: float

    @property
    def most_borrowed(self) -> int:
        return max(0, self.most - self.nominal)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedJobs:
    """All queued jobs of a day, and the quota they used."""

    lives: tuple[JobLife, ...] = ()
    quotas: tuple[QuotaUse, ...] = ()
    beyond_quota: int = 0
    """How many more pods of a job ran at a moment than were granted to it, at the worst moment."""
