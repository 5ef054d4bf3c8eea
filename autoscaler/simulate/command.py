"""`python -m autoscaler simulate`: evaluate a stack, play a day on it, print how it goes and what came of it."""

import json
import time
from collections.abc import Callable
from pathlib import Path

from autoscaler.simulate import fitting, play, stack, trace
from autoscaler.simulate.reporting import document, report, words

Say = Callable[[str], None]


class SimulateError(Exception):
    """Nothing was played; the message says why."""


def simulate(stack_file: Path, trace_file: Path, cluster: str | None, say: Say, *, as_json: bool = False) -> float:
    """Play a day and say how it goes, or what came of it as JSON; return how many seconds that took."""
    begun = time.monotonic()
    try:
        day = trace.read(trace_file)
        made = stack.read(stack_file, cluster)
        fitting.check(day, made)
    except (trace.TraceError, stack.StackError) as error:
        raise SimulateError(str(error)) from error
    if as_json:
        record = play.play(made, day, lambda _: None)
        say(json.dumps(document.document(record, made.scaling.prices), indent=2))
        return time.monotonic() - begun
    say(_opening(made, day, stack_file, trace_file))
    record = play.play(made, day, lambda now: say(_line(now)))
    say("")
    say(report.report(record, made.scaling.prices))
    return time.monotonic() - begun


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
