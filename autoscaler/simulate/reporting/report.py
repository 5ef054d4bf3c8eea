"""The summary of a day, for somebody who has never seen Sluice. Pure: a record in, lines out."""

import textwrap
from typing import Final

from autoscaler import units
from autoscaler.api.settings.scaling import PriceList
from autoscaler.cloud.prices import Prices
from autoscaler.simulate.observation.record import Record
from autoscaler.simulate.reporting import chart, episodes, guest_tables, job_tables, never_ran, tables, targets, words
from autoscaler.simulate.reporting.episode import Episode

TELLING: Final = 16
WIDTH: Final = 110


def report(record: Record, given: PriceList) -> str:
    """Write the summary."""
    prices = Prices.of(given)
    found = episodes.episodes(record)
    chosen = episodes.most_telling(found, TELLING)
    block = words.width(chart.block_seconds(record))
    note = " (example prices)" if given.example else ""
    cost = f"{given.currency} {units.money(tables.cost_micros(record, record.instances, prices))}"
    stranded = never_ran.lines(record)
    parts = [
        *([stranded] if stranded else []),
        [f"{_short(record)}, for {cost}{note}."],
        [f"INSTANCES OVER TIME (a block is {block}; the tallest of a pool is its most)", *chart.chart(record)],
        [f"POOLS{note}", *tables.pools(record, prices, given.currency)],
        ["HOW LONG WORK WAITED until it ran", *tables.waits(record)],
        *_targets(record),
        *_queued(record),
        *_guests(record),
        [f"THE MOST TELLING {len(chosen)} OF {len(found)} DECISIONS, with their reasons", *_told(chosen)],
    ]
    return "\n\n".join("\n".join(part) for part in parts)


def _targets(record: Record) -> list[list[str]]:
    """Write about target latencies, if there are any."""
    if not record.targets:
        return []
    return [["TARGET LATENCIES: how long pods of a scope waited for a node of a pool", *targets.lines(record)]]


def _queued(record: Record) -> list[list[str]]:
    """Write about queued jobs, if there were any."""
    if not record.queued.lives:
        return []
    quota = [*job_tables.quotas(record.queued), job_tables.checked(record.queued)]
    return [
        ["QUEUED JOBS: how long they waited for quota, and what became of them", *job_tables.jobs(record)],
        ["QUOTA that they used", *quota],
    ]


def _guests(record: Record) -> list[list[str]]:
    """Write about guests of machines, if there were any."""
    if not record.guests.lives:
        return []
    title = "MACHINES: how long guests waited until they ran, with room held when they came and without"
    return [[title, *guest_tables.machines(record), guest_tables.checked(record.guests)]]


def _short(record: Record) -> str:
    work = sum(len(each.waits) for each in record.waits) + len(record.queued.lives) + len(record.guests.lives)
    most = chart.most_at_once(record.instances, record.starts_at, record.ends_at)
    started = "1 instance was" if len(record.instances) == 1 else f"{len(record.instances):,} instances were"
    return f"{work:,} jobs and pods came. {started} started, at most {most} at once"


def _told(chosen: list[Episode]) -> list[str]:
    return [line for each in chosen for line in _lines(each)]


def _lines(each: Episode) -> list[str]:
    """Write a decision on one line if it fits."""
    text = f"{each.what}. Why: {each.why}"
    return textwrap.wrap(text, WIDTH, initial_indent=f"{words.at(each.at)}  ", subsequent_indent=" " * 7)
