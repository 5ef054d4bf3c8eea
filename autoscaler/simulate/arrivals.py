"""When which work comes, and how long each piece takes. Pure: a trace in, a list out, the same for the same seed."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from autoscaler.simulate.trace import DAY_SECONDS, Coming, Queue, Trace, Wave


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Arrival:
    """One piece of a queue's work, pod, Job or guest that comes."""

    after_seconds: float
    """From the start of the day."""
    name: str
    """Of the queue, or of the kind of pods, Jobs or guests."""
    number: int
    """Its number among those of this name, from 1."""
    takes_seconds: float
    """How long it takes; of a Job, each of its pods."""
    in_queue: bool
    """Whether it waits in a queue that workers empty."""


def arrivals(trace: Trace) -> list[Arrival]:
    """Return all work of a day in the order in which it comes."""
    return sorted(each for name, one in sorted(trace.work().items()) for each in _of(trace, name, one))


def _of(trace: Trace, name: str, work: Coming) -> Iterator[Arrival]:
    """Draw from a source of its own for each name, so that new work does not change the rest of the day."""
    source = random.Random(f"{trace.seed} {name}")  # noqa: S311  # a simulation, not cryptography
    moments = sorted(moment for wave in work.arrive for moment in _moments(trace, wave, source))
    for number, moment in enumerate(moments, start=1):
        yield Arrival(
            after_seconds=moment,
            name=name,
            number=number,
            takes_seconds=round(source.uniform(*work.takes), 3),
            in_queue=isinstance(work, Queue),
        )


def _moments(trace: Trace, wave: Wave, source: random.Random) -> Iterator[float]:
    begins = trace.after_start(wave.begins)
    length = (wave.ends - wave.begins) % DAY_SECONDS
    for _ in range(wave.count):
        yield round(begins + source.uniform(0, length), 3)
