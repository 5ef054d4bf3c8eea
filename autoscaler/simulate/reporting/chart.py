"""How many instances each pool had in each zone over the day, as lines of blocks. Pure."""

from collections.abc import Sequence
from typing import Final

from autoscaler.simulate.observation.record import InstanceLife, Record
from autoscaler.simulate.reporting import words

COLUMNS: Final = 48
_BLOCKS: Final = "▁▂▃▄▅▆▇█"
_NONE: Final = "·"
_LABEL: Final = 24
_POOL: Final = 11
"""The least width of names, and of pools among them."""


def chart(record: Record) -> list[str]:
    """Draw a line for each pool and zone; the tallest block is the largest number of the pool."""
    rows: dict[tuple[str, str], list[InstanceLife]] = {}
    for instance in record.instances:
        rows.setdefault((instance.key.pool, instance.key.zone), []).append(instance)
    counts = {row: columns(record, lives) for row, lives in sorted(rows.items())}
    most: dict[str, int] = {}
    for (pool, _), line in counts.items():
        most[pool] = max(most.get(pool, 0), *line)
    name = max(_POOL, *(len(pool) + 1 for pool in most)) if most else _POOL
    left = max(_LABEL, *(name + len(zone) + 2 for _, zone in counts)) if counts else _LABEL
    lines = [f"{'':{left}}{_hours(record)}  most"]
    previous = ""
    for (pool, zone), line in counts.items():
        label = f"{'' if pool == previous else pool:{name}}{zone}"
        previous = pool
        lines.append(f"{label:{left}}{''.join(block(each, most[pool]) for each in line)}  {max(line):4}")
    return lines


def block_seconds(record: Record) -> float:
    """Return how long a block stands for."""
    return (record.ends_at - record.starts_at) / COLUMNS


def columns(record: Record, lives: Sequence[InstanceLife]) -> list[int]:
    """Return how many instances there were in each part of the day, at most at once."""
    width = block_seconds(record)
    starts = [record.starts_at + width * column for column in range(COLUMNS)]
    return [most_at_once(lives, start, start + width) for start in starts]


def most_at_once(lives: Sequence[InstanceLife], start: float, end: float) -> int:
    """Return the most instances there were at one moment; it is always one at which an instance came, or the start."""
    moments = [start, *(one.launched_at for one in lives if start < one.launched_at < end)]
    return max(sum(one.is_there(moment) for one in lives) for moment in moments)


def block(count: int, most: int) -> str:
    """Draw a number as a block."""
    return _NONE if count == 0 else _BLOCKS[-(-count * len(_BLOCKS) // most) - 1]


def _hours(record: Record) -> str:
    """Write the hour over every fourth block, or hour and minute over every eighth where these are closer."""
    is_close = block_seconds(record) * 4 < 3600
    blocks, digits = (8, 5) if is_close else (4, 2)
    times = (record.starts_at + block_seconds(record) * blocks * tick for tick in range(COLUMNS // blocks))
    return "".join(f"{words.at(time)[:digits]:{blocks}}" for time in times)
