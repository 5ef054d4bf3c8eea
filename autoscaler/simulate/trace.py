"""A trace: the work of a day, and what goes wrong in the cloud. Data only, read from YAML.

It must not say anything about pools, limits or prices: those are the stack's.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final, Self

import pydantic
from pydantic import ConfigDict, Field

from autoscaler.api import names
from autoscaler.api.resources.base import Model
from autoscaler.api.resources.pools import InstanceTypeName, PoolName, ZoneName
from autoscaler.api.resources.types import Count, DnsLabel, DnsName, Labels, Quantities, Seconds, Toleration
from autoscaler.api.resources.worker_pools import IdleTimeoutMinutes, Interval
from autoscaler.simulate import yaml_lines
from autoscaler.simulation import kubelet

DAY_SECONDS: Final = 86_400
YEAR_SECONDS: Final = 366 * DAY_SECONDS
YEARS: Final = (1970, 2999)
WORK_MAX: Final = 1_000_000
"""How many pieces of work may come: each is an object in memory."""
_TIME: Final = re.compile(r"(?P<hour>[01][0-9]|2[0-3]):(?P<minute>[0-5][0-9])")


class TraceError(Exception):
    """A trace cannot be used; the message says where it is wrong."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong in a trace: where, and what."""

    path: yaml_lines.Path
    message: str


def _seconds(given: object) -> object:
    return kubelet.duration(given) if isinstance(given, str) else given


def _time_of_day(given: object) -> object:
    found = _TIME.fullmatch(given) if isinstance(given, str) else None
    if found is None:
        raise ValueError("must be a time of day in quotes, such as '07:30'")
    return int(found["hour"]) * 3600 + int(found["minute"]) * 60


Duration = Annotated[float, pydantic.BeforeValidator(_seconds), Field(gt=0, le=YEAR_SECONDS)]
"""Such as 90s or 1h30m."""
TimeOfDay = Annotated[int, pydantic.BeforeValidator(_time_of_day)]
"""Such as '07:30'; one before the time at which the day starts is on the next date."""


WorkName = Annotated[DnsLabel, Field(max_length=names.WORKER_POOL_MAX)]
"""WorkerPools and Jobs have it, with a number after it, in labels of their pods."""
AtLeastOne = Annotated[Count, Field(ge=1)]
Priority = Annotated[int, Field(ge=-2_147_483_648, le=1_000_000_000)]
"""What people may give a PriorityClass."""


class Part(Model):
    """A part of a trace. Nothing is ignored: a misspelt key would be work that never comes."""

    model_config = ConfigDict(extra="forbid")


class PodToleration(Toleration):
    """A toleration of pods, in which nothing is ignored either."""

    model_config = ConfigDict(extra="forbid")


class Wave(Part):
    """Work that arrives evenly, at random moments, between two times of day."""

    begins: Annotated[TimeOfDay, Field(alias="from")]
    ends: Annotated[TimeOfDay, Field(alias="to")]
    count: Count


class Coming(Part):
    """How long each of one kind takes, and when they come."""

    namespace: DnsLabel
    takes: tuple[Duration, Duration]
    """The shortest and the longest."""
    arrive: tuple[Wave, ...] = ()

    @pydantic.field_validator("takes")
    @classmethod
    def _ordered(cls, takes: tuple[float, float]) -> tuple[float, float]:
        if takes[0] > takes[1]:
            raise ValueError("the shortest must not be longer than the longest")
        return takes


class Work(Coming):
    """What jobs or pods of one kind need."""

    requests: Quantities
    """What one pod asks for."""
    node_selector: Labels = Field(default_factory=dict)
    tolerations: Annotated[tuple[PodToleration, ...], Field(max_length=32)] = ()


class Queue(Work):
    """Jobs in a queue, and the WorkerPool that makes workers for them."""

    pool_capacity: Count
    """The most workers at once."""
    interval: Interval = "00:00:10"
    """How often the queue's length is read."""
    idle_timeout_minutes: IdleTimeoutMinutes = 2
    """After so long without a job, a worker ends."""


class Resize(Part):
    """A time of day at which all Jobs of a name that have come, and have not ended, get another parallelism."""

    at: TimeOfDay
    parallelism: AtLeastOne


class QueuedJob(Work):
    """Jobs (batch/v1) that wait for quota in a LocalQueue. All pods of one Job take equally long."""

    queue: DnsName
    """The LocalQueue, in the namespace of the Jobs."""
    parallelism: AtLeastOne
    """How many pods of a Job run at once."""
    completions: AtLeastOne | None = None
    """How many pods of a Job must succeed. Absent: as many as run at once when it comes."""
    priority_class: DnsName | None = None
    """One of the trace's priorityClasses."""
    resizes: tuple[Resize, ...] = ()


class Guest(Coming):
    """Pods that ask for a machine, each of which runs once. Their Machine says what they get and where they run."""

    group: DnsLabel
    """The Machine."""
    type: DnsLabel
    """One of its types."""


class Shortage(Part):
    """A time in which the provider has no instances of these types in a zone."""

    zone: ZoneName
    instance_types: tuple[InstanceTypeName, ...] = ()
    """None named: of any type."""
    begins: Annotated[TimeOfDay, Field(alias="from")]
    ends: Annotated[TimeOfDay, Field(alias="to")]


class Trace(Part):
    """A day, or a part of one."""

    starts: datetime
    """When it starts, such as 2026-06-30T06:00:00Z."""
    lasts: Annotated[Duration, Field(le=DAY_SECONDS)] = float(DAY_SECONDS)
    """How long it goes on, 24h at most."""
    seed: int = 0
    """Decides all that is random: the same seed, the same day."""
    boot_seconds: Annotated[float, Field(gt=0, le=DAY_SECONDS)] = 45.0
    """From an instance's launch until its node joins."""
    seconds_used_this_month: dict[PoolName, Seconds] = Field(default_factory=dict)
    """What instances of pools have used before this day began."""
    queues: dict[WorkName, Queue] = Field(default_factory=dict)
    pods: dict[WorkName, Work] = Field(default_factory=dict)
    jobs: dict[WorkName, QueuedJob] = Field(default_factory=dict)
    guests: dict[WorkName, Guest] = Field(default_factory=dict)
    priority_classes: dict[DnsName, Priority] = Field(default_factory=dict)
    """The values of PriorityClasses that jobs name."""
    shortages: tuple[Shortage, ...] = ()
    _lines: Mapping[yaml_lines.Path, int] = pydantic.PrivateAttr(default_factory=dict)
    """In which line of its file each value stands."""

    @pydantic.field_validator("starts")
    @classmethod
    def _is_a_moment(cls, starts: datetime) -> datetime:
        if starts.utcoffset() is None:
            raise ValueError("must say its zone, such as 2026-06-30T06:00:00Z")
        if not YEARS[0] <= starts.year <= YEARS[1]:
            raise ValueError(f"must be in a year from {YEARS[0]} to {YEARS[1]}")
        return starts

    @pydantic.model_validator(mode="after")
    def _checked(self) -> Self:
        if (pieces := sum(wave.count for work in self.work().values() for wave in work.arrive)) > WORK_MAX:
            raise ValueError(f"the day has {pieces:,} pieces of work, and at most {WORK_MAX:,} can be played")
        named = Counter([*self.queues, *self.pods, *self.jobs, *self.guests])
        if twice := sorted(name for name, count in named.items() if count > 1):
            where = "queues, pods, jobs and guests"
            raise ValueError(f"{twice[0]} stands twice under {where}: give one of them another name")
        for name, job in self.jobs.items():
            self._check(name, job)
        return self

    def _check(self, name: str, job: QueuedJob) -> None:
        """Refuse what would silently be no priority, or no resize."""
        if job.priority_class is not None and job.priority_class not in self.priority_classes:
            known = ", ".join(sorted(self.priority_classes)) or "none"
            raise ValueError(
                f"jobs.{name}.priorityClass: {job.priority_class} is not among priorityClasses (there are: {known})"
            )
        first = min((self.after_start(wave.begins) for wave in job.arrive), default=float("inf"))
        for index, resize in enumerate(job.resizes):
            if self.after_start(resize.at) <= first:
                raise ValueError(f"jobs.{name}.resizes.{index}.at: none of these jobs has come by then")

    @property
    def starts_at(self) -> float:
        """When it starts, in seconds since the epoch."""
        return self.starts.timestamp()

    def error(self, title: str, problems: Iterable[Problem]) -> TraceError:
        """Say all that is wrong with this trace."""
        return _error(title, problems, self._lines)

    def work(self) -> dict[str, Work | Guest]:
        """Return all that comes, by name."""
        return {**self.queues, **self.pods, **self.jobs, **self.guests}

    def after_start(self, time_of_day: int) -> float:
        """Return how many seconds after the start a time of day is."""
        return float((time_of_day - int(self.starts_at)) % DAY_SECONDS)


def read(file: Path) -> Trace:
    """Read a trace; raise TraceError with everything that is wrong, each with its line."""
    try:
        text = file.read_text(encoding="utf-8")
        return parse(*yaml_lines.read(text))
    except (OSError, UnicodeDecodeError, yaml_lines.UnreadableError) as error:
        raise TraceError(f"the trace {file} cannot be read: {error}") from error


def parse(given: Any, lines: Mapping[yaml_lines.Path, int] | None = None) -> Trace:  # noqa: ANN401  # whatever YAML holds
    """Check a trace, given in which line each value stands; raise TraceError with everything that is wrong."""
    try:
        made = Trace.model_validate(given)
    except pydantic.ValidationError as error:
        problems = (Problem(each["loc"], each["msg"].removeprefix("Value error, ")) for each in error.errors())
        raise _error("the trace is wrong:", problems, lines or {}) from error
    made._lines = lines or {}  # noqa: SLF001  # its own
    return made


def _error(title: str, problems: Iterable[Problem], lines: Mapping[yaml_lines.Path, int]) -> TraceError:
    placed = [(yaml_lines.nearest(lines, each.path), each) for each in problems]
    ordered = sorted(placed, key=lambda found: found[0] or 0)
    return TraceError("\n".join([title, *(_worded(each, line) for line, each in ordered)]))


def _worded(problem: Problem, line: int | None) -> str:
    place = "" if line is None else f"line {line}: "
    path = ".".join(map(str, problem.path))
    return f"  {place}{path}: {problem.message}" if path else f"  {place}{problem.message}"
