"""Work that never ran, and what the runtime last said of it: the first thing that somebody should know. Pure."""

import textwrap
from collections.abc import Iterator
from typing import Final

from autoscaler import units
from autoscaler.capacity import messages
from autoscaler.simulate.observation.record import Record

WIDTH: Final = 110


def lines(record: Record) -> list[str]:
    """Say of each kind of work how much of it never ran, and why; nothing if all of it did."""
    stranded = {name: count for name, count in _counts(record).items() if count}
    if not stranded:
        return []
    title = f"NEVER RAN: {units.counted(sum(stranded.values()), 'piece')} of work still waited at the end"
    return [title, *(line for name, count in stranded.items() for line in _told(record, name, count))]


def _counts(record: Record) -> dict[str, int]:
    """Return how many of each kind still wait."""
    found = {each.work: sum(wait.began_at is None for wait in each.waits) for each in record.waits}
    for job in record.queued.lives:
        found[job.work] = found.get(job.work, 0) + (job.wait.began_at is None)
    for guest in record.guests.lives:
        work = guest.name.rpartition("-")[0]
        found[work] = found.get(work, 0) + (guest.began_at is None)
    return found


def _told(record: Record, work: str, count: int) -> Iterator[str]:
    said = _last_said(record, work)
    why = f" Last told: {said}" if said else " Nothing was told about it."
    yield from textwrap.wrap(f"{count:,} of {work}.{why}", WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def _last_said(record: Record, work: str) -> str:
    """Return what was last told of an object of this kind of work: why no node was started for it, before all else."""
    about = [told for told in record.told if told.name == work or told.name.startswith(f"{work}-")]
    refused = [told for told in about if told.reason == messages.NOT_TRIGGERED]
    last = (refused or about)[-1:]
    return last[0].message if last else ""
