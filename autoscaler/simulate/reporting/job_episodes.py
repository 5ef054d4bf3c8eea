"""What the runtime decided about queued jobs, from what it wrote into their Workloads. Pure."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Final

from autoscaler import units
from autoscaler.simulate.observation.job_record import JobLife, QueuedJobs, Step, StepKind
from autoscaler.simulate.reporting import words
from autoscaler.simulate.reporting.episode import Episode, Kind, together

PAUSE_SECONDS: Final = 3600.0
"""Growth of a job that is granted in parts, further apart than this, is two episodes."""
ENDING_SECONDS: Final = 180.0
"""A job that shrinks so shortly before its end does not get smaller: it comes to its end."""


def episodes(queued: QueuedJobs) -> Iterator[Episode]:
    """Tell what was decided about all jobs."""
    for life in queued.lives:
        yield from _admissions(life)
        yield from _evictions(life)
        yield from _resizes(life)


def _admissions(life: JobLife) -> Iterator[Episode]:
    since, waited = life.came_at, "it came"
    for step in life.steps:
        if step.kind is StepKind.EVICTED:
            since, waited = step.at, "it gave way"
        elif step.kind is StepKind.ADMITTED:
            is_first = waited == "it came"
            count = words.pods(step.after) if step.after == step.wanted else f"{step.after} of {step.wanted} pods"
            yield Episode(
                at=step.at,
                kind=Kind.ADMISSION,
                size=step.wanted,
                what=f"{_name(life)} {'was admitted' if is_first else 'came back'} with {count}",
                why=f"{step.why}, {units.duration(step.at - since)} after {waited}",
            )


def _evictions(life: JobLife) -> Iterator[Episode]:
    for step in life.steps:
        if step.kind is StepKind.EVICTED:
            what = f"{_name(life)} gave way with all its {words.pods(step.before)}"
            yield Episode(at=step.at, kind=Kind.EVICTION, size=step.before, what=what, why=step.why)


def _resizes(life: JobLife) -> Iterator[Episode]:
    """Tell of growth and shrinking, each as one as long as the job was not admitted anew in between."""
    admissions = itertools.accumulate(step.kind is StepKind.ADMITTED for step in life.steps)
    turns = {id(step): (step.kind, turn) for step, turn in zip(life.steps, admissions, strict=True)}
    resized = [step for step in life.steps if step.kind in {StepKind.GREW, StepKind.SHRANK}]
    for (kind, _), steps in together(resized, lambda step: turns[id(step)], PAUSE_SECONDS):
        if kind is StepKind.GREW:
            yield _growth(life, steps)
        elif life.ended_at is None or life.ended_at - steps[-1].at > ENDING_SECONDS:
            yield _shrinking(life, steps)


def _growth(life: JobLife, steps: Sequence[Step]) -> Episode:
    first, last = steps[0], steps[-1]
    by_minute = {words.at(step.at): step.after for step in steps}
    parts = [f"{count} at {at}" for at, count in by_minute.items()]
    missing = last.wanted - last.after
    return Episode(
        at=first.at,
        kind=Kind.RESIZE,
        size=last.after - first.before,
        what=f"{_name(life)} grew from {first.before} to {words.pods(last.after)}"
        + (f" ({', '.join(parts)})" if len(parts) > 1 else ""),
        why=f"it wants {last.wanted}, and quota was free for {'them' if not missing else 'so many'}",
    )


def _shrinking(life: JobLife, steps: Sequence[Step]) -> Episode:
    first, last = steps[0], steps[-1]
    return Episode(
        at=first.at,
        kind=Kind.RESIZE,
        size=first.before - last.after,
        what=f"{_name(life)} shrank from {first.before} to {words.pods(last.after)}{words.until(first.at, last.at)}",
        why="it wants no more; its quota is free for others",
    )


def _name(life: JobLife) -> str:
    return f"job {life.name} of {life.namespace}"
