"""Numbers and times as a person writes them. Pure."""

import time
from collections.abc import Mapping

from autoscaler import units


def at(moment: float) -> str:
    """Write a time of day."""
    return time.strftime("%H:%M", time.gmtime(moment))


def width(seconds: float) -> str:
    """Write how long something short is, to the tenth of a second."""
    return f"{seconds:.3g} s" if seconds < 60 else units.duration(seconds)


def until(first: float, last: float) -> str:
    """Write until when something went on; nothing if it was but a moment."""
    return f" until {at(last)}" if at(first) != at(last) else ""


def instances(count: int) -> str:
    return units.counted(count, "instance")


def pods(count: int) -> str:
    return units.counted(count, "pod")


def counted(counts: Mapping[str, int]) -> str:
    """Write what is how many, by name."""
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items()))
