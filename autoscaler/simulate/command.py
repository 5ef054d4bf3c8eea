"""`python -m autoscaler simulate`: evaluate a stack, play a day on it, print how it goes and what came of it.

With another stack to compare with, the same day is played on both, and what the change does is told.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from autoscaler.api.settings.scaling import PriceList
from autoscaler.simulate import fitting, play, stack, trace
from autoscaler.simulate.observation.record import Record
from autoscaler.simulate.reporting import comparison, document, report, words

Say = Callable[[str], None]
Format = Literal["text", "json", "markdown"]


class SimulateError(Exception):
    """Nothing was played; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to play, and how to tell of it."""

    stack: Path
    trace: Path
    against: Path | None = None
    """Another stack, such as the main branch's: what `stack` changes is told."""
    cluster: str | None = None
    format: Format = "text"


def simulate(request: Request, say: Say) -> float:
    """Play a day, or the same day on two stacks, and say what came of it; return how many seconds that took."""
    begun = time.monotonic()
    try:
        day = trace.read(request.trace)
        files = [file for file in (request.against, request.stack) if file is not None]
        stacks = [(file, _fitting(day, file, request.cluster)) for file in files]
    except (trace.TraceError, stack.StackError) as error:
        raise SimulateError(str(error)) from error
    records = [_play(made, day, request, file, say) for file, made in stacks]
    if len(records) == 1:
        say(_told(records[0], stacks[0][1].scaling.prices, request.format))
    else:
        days = [
            document.document(record, made.scaling.prices) for record, (_, made) in zip(records, stacks, strict=True)
        ]
        say(_compared(days[0], days[1], request.format))
    return time.monotonic() - begun


def _fitting(day: trace.Trace, file: Path, cluster: str | None) -> stack.Stack:
    """Read a stack; what is wrong is told with its file, since there may be two."""
    try:
        made = stack.read(file, cluster)
        fitting.check(day, made)
    except stack.StackError as error:
        raise stack.StackError(f"{file}: {error}") from error
    except trace.TraceError as error:
        raise trace.TraceError(f"{file}: {error}") from error
    return made


def _play(made: stack.Stack, day: trace.Trace, request: Request, file: Path, say: Say) -> Record:
    """Play a day; people are shown how it goes on."""
    if request.format != "text":
        return play.play(made, day, lambda _: None)
    say(_opening(made, day, file, request.trace))
    record = play.play(made, day, lambda now: say(_line(now)))
    say("")
    return record


def _told(record: Record, prices: PriceList, told: Format) -> str:
    if told == "json":
        return json.dumps(document.document(record, prices), indent=2)
    said = report.report(record, prices)
    return said if told == "text" else f"```\n{said}\n```"


def _compared(before: comparison.Day, after: comparison.Day, told: Format) -> str:
    if told == "json":
        return json.dumps(comparison.document(before, after), indent=2)
    return comparison.text(before, after) if told == "text" else comparison.markdown(before, after)


def _opening(made: stack.Stack, day: trace.Trace, stack_file: Path, trace_file: Path) -> str:
    pools = {group.key.pool for group in made.groups.groups}
    zones = {group.key.zone for group in made.groups.groups}
    return (
        f"{stack_file} makes {len(made.groups.groups)} Auto Scaling groups: "
        f"{len(pools)} pools in {len(zones)} zones of {made.groups.region}.\n"
        f"{trace_file} tells the work of a day (seed {day.seed}). Sluice's own controllers now run through it, on a\n"
        f"simulated cluster and cloud, from {day.starts:%A %Y-%m-%d %H:%M} UTC on:\n"
    )


def _line(now: play.Progress) -> str:
    return (
        f"  {words.at(now.at)}  {now.instances:4} instances  {now.running:5} pods run  {now.waiting:4} wait for a place"
        f"  {now.queued:5} jobs queued  {now.without_quota:3} without quota"
    )
