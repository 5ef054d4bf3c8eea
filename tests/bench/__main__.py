"""Run measurements: `python -m tests.bench [NAME …] [--scale F]`. Each prints JSON lines; see docs/performance.md."""

import argparse
import sys
from collections.abc import Callable, Mapping
from typing import Final

from tests.bench import (
    admitting,
    capacity_cycles,
    large,
    machine_groups,
    machine_rush,
    planning,
    previewing,
    quota_cycles,
    reacting,
    removing,
    simulating,
    starting,
    ungating,
    watching,
    working,
)


def _cycles(scale: float) -> None:
    """What one cycle of admission and of capacity costs, beside much that does not change."""
    quota_cycles.cycles(scale)
    capacity_cycles.cycles(scale)


ALL: Final[Mapping[str, Callable[[float], None]]] = {
    "baseline": admitting.baseline,
    "burst": admitting.burst,
    "cycles": _cycles,
    "day": simulating.day,
    "events": watching.events,
    "informer": watching.informer,
    "machine_changes": machine_groups.machine_changes,
    "machine_rush": machine_rush.machine_rush,
    "machine_storms": machine_groups.machine_storms,
    "planning": planning.planning,
    "planning-shapes": planning.shapes,
    "preview": previewing.preview,
    "reacting": reacting.reacting,
    "large": large.large,
    "idle_calls": reacting.idle_calls,
    "removals": removing.removals,
    "starting": starting.starting,
    "sync": watching.sync,
    "growth": working.growth,
    "ungating": ungating.ungating,
    "workers": working.workers,
    "polls": working.polls,
    "pool_memory": working.pool_memory,
}


def main() -> int:
    """Run what was named, or everything."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(ALL)}; default: all")
    parser.add_argument("--scale", type=float, default=1.0, help="shrink the work, for a quick look (default 1)")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in ALL]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(ALL)}")
    for name in options.names or ALL:
        print(f"# {name}: {ALL[name].__doc__}", file=sys.stderr)
        ALL[name](options.scale)
    return 0


if __name__ == "__main__":
    sys.exit(main())
