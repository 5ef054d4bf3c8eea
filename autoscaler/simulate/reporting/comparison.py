"""Two stacks on the same work, side by side: what the change costs, and how long work waits. Pure.

Both days are given as the data that `simulate --format json` prints. What is equal is said once.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from autoscaler import units
from autoscaler.simulate.reporting import tables

Day = Mapping[str, Any]
Row = Mapping[str, Any]
NOTHING: Final = "-"
_WAITS: Final[Sequence[tuple[str, str, Sequence[str]]]] = (
    ("How long work waited until it ran", "work", ("work", "scope")),
    ("How long queued jobs waited for quota", "queuedJobs", ("work", "queue")),
    ("How long guests waited for a machine", "guests", ("group", "type")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A table of before and after."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    names: int
    """So many columns, the first ones, say what a row is about."""


def document(before: Day, after: Day) -> dict[str, Any]:
    """Return both days as data."""
    return {"before": dict(before), "after": dict(after)}


def text(before: Day, after: Day) -> str:
    """Write the comparison for a terminal."""
    compared = _tables(before, after)
    parts = [[each.title.upper(), *tables.table(each.head, each.rows, left=each.names)] for each in compared]
    return "\n\n".join("\n".join(part) for part in (list(_summary(before, after)), *parts))


def markdown(before: Day, after: Day) -> str:
    """Write the comparison for a comment on a pull request."""
    first, *more = _summary(before, after)
    parts = [[f"**{first}**", "", *(f"- {line}" for line in more)], *map(_section, _tables(before, after))]
    return "\n\n".join("\n".join(part) for part in parts)


def _section(each: Compared) -> list[str]:
    rule = ["---"] * each.names + ["--:"] * (len(each.head) - each.names)
    return [f"#### {each.title}", "", *(f"| {' | '.join(line)} |" for line in (each.head, rule, *each.rows))]


def _summary(before: Day, after: Day) -> Iterator[str]:
    """Say what changed in all: work that never ran first, for no saving makes up for it."""
    stranded = _stranded(before), _stranded(after)
    if any(stranded):
        yield f"{_cell(*(f'{sum(each.values()):,}' for each in stranded))} jobs and pods never ran"
        yield from (
            f"{name}: {_cell(*(f'{each.get(name, 0):,}' for each in stranded))} never ran"
            for name in sorted(stranded[0].keys() | stranded[1].keys())
        )
    costs = [sum(pool["costMicros"] for pool in day["pools"]) for day in (before, after)]
    note = " (example prices)" if before["examplePrices"] or after["examplePrices"] else ""
    currency = _cell(before["currency"], after["currency"])
    yield f"{currency} {_cell(*map(units.money, costs))}{_percent(*costs)}{note}"
    started = [sum(pool["instances"] for pool in day["pools"]) for day in (before, after)]
    most = _cell(*(f"{day['mostAtOnce']:,}" for day in (before, after)))
    yield f"{_cell(*(f'{count:,}' for count in started))} instances started, at most {most} at once"
    missed = [sum(not each["met"] for each in day["targets"]) for day in (before, after)]
    if before["targets"] or after["targets"]:
        count = _cell(*(str(len(day["targets"])) for day in (before, after)))
        yield f"{_cell(*map(str, missed))} of {count} target latencies missed"


def _stranded(day: Day) -> dict[str, int]:
    """Return what never ran, by name."""
    found = [row for _, field, _ in _WAITS for row in day[field]]
    names = [row.get("work") or f"{row['group']}/{row['type']}" for row in found]
    return {name: row["stillWaiting"] for name, row in zip(names, found, strict=True) if row["stillWaiting"]}


def _tables(before: Day, after: Day) -> Iterator[Compared]:
    if before["pools"] or after["pools"]:
        yield Compared(
            title="Pools",
            head=("pool", "started", "instance hours", f"cost ({after['currency']})", "pods run"),
            rows=tuple(_rows(before["pools"], after["pools"], ("pool",), _POOL)),
            names=1,
        )
    if before["targets"] or after["targets"]:
        yield Compared(
            title="Target latencies",
            head=("scope", "pool", "target", "95 % within", "worst", "late", ""),
            rows=tuple(_rows(before["targets"], after["targets"], ("scope", "pool"), _TARGET)),
            names=2,
        )
    for title, field, names in _WAITS:
        if before[field] or after[field]:
            yield Compared(
                title=title,
                head=(*names, "came", "median", "95 % within", "worst", "never"),
                rows=tuple(_rows(before[field], after[field], names, _WAIT)),
                names=len(names),
            )


def _rows(
    before: Sequence[Row], after: Sequence[Row], names: Sequence[str], shown: Sequence[Callable[[Row], str]]
) -> Iterator[tuple[str, ...]]:
    """Yield a row for all that is in one of the days, in the order of the second one, then of the first."""
    days = [{tuple(row[name] for name in names): row for row in rows} for rows in (before, after)]
    for key in (*days[1], *(key for key in days[0] if key not in days[1])):
        found = [day.get(key) for day in days]
        cells = (_cell(*(NOTHING if row is None else show(row) for row in found)) for show in shown)
        yield (*(str(name) or "none" for name in key), *cells)


def _cell(before: str, after: str) -> str:
    return after if before == after else f"{before} → {after}"


def _percent(before: int, after: int) -> str:
    return f" ({100 * (after - before) / before:+.1f} %)" if before and before != after else ""


def _duration(field: str) -> Callable[[Row], str]:
    return lambda row: units.duration(row[field]) if field in row else NOTHING


def _count(field: str) -> Callable[[Row], str]:
    return lambda row: f"{row[field]:,}"


_POOL: Final[Sequence[Callable[[Row], str]]] = (
    _count("instances"),
    lambda row: f"{row['instanceSeconds'] / 3600:,.1f}",
    lambda row: units.money(row["costMicros"]),
    _count("podsRun"),
)
_WAIT: Final[Sequence[Callable[[Row], str]]] = (
    _count("count"),
    _duration("medianSeconds"),
    _duration("p95Seconds"),
    _duration("worstSeconds"),
    _count("stillWaiting"),
)
_TARGET: Final[Sequence[Callable[[Row], str]]] = (
    _duration("targetSeconds"),
    _duration("p95Seconds"),
    _duration("worstSeconds"),
    _count("late"),
    lambda row: "met" if row["met"] else "missed",
)
