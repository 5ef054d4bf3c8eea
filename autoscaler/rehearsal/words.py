"""Numbers and times as a person writes them. Pure."""

import time
from collections.abc import Mapping


def at(moment: float) -> str:
    """Write a time of day."""
    return time.strftime("%H:%M", time.gmtime(moment))


def until(first: float, last: float) -> str:
    """Write until when something went on; nothing if it was but a moment."""
    return f" until {at(last)}" if at(first) != at(last) else ""


def duration(seconds: float) -> str:
    """Write how long something took, in the two largest units."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min" + (f" {whole % 60} s" if whole % 60 and whole < 600 else "")
    return f"{whole // 3600} h" + (f" {whole % 3600 // 60} min" if whole % 3600 // 60 else "")


def money(micros: int, currency: str) -> str:
    return f"{currency} {micros / 1_000_000:,.2f}"


def instances(count: int) -> str:
    return _plural(count, "instance")


def pods(count: int) -> str:
    return _plural(count, "pod")


def counted(counts: Mapping[str, int]) -> str:
    """Write what is how many, by name."""
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items()))


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
