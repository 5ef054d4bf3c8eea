"""What the runtime decided, from its own log and events: what belongs together becomes one episode. Pure.

A burst that raises a group forty times is one decision to whoever reads about the day. Nothing is made up: an episode
is a sum of lines that the runtime wrote.
"""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from autoscaler import units
from autoscaler.capacity import messages
from autoscaler.capacity.model import Limit, LimitKind
from autoscaler.capacity.scaleup.limits import budgets
from autoscaler.cloud.port import Verdict
from autoscaler.simulate.observation.record import Logged, Record
from autoscaler.simulate.reporting import guest_episodes, job_episodes, words
from autoscaler.simulate.reporting.episode import Episode, Kind, together

PAUSE_SECONDS: Final = 180.0
"""Growth or removals of a pool that are further apart are two episodes."""
SHORTAGE_PAUSE_SECONDS: Final = 3600.0
LIMIT_PAUSE_SECONDS: Final = 1800.0


def episodes(record: Record) -> list[Episode]:
    """Return everything that was decided, in order of time."""
    found = itertools.chain(
        _shortages(record),
        _budgets(record),
        _limits(record),
        job_episodes.episodes(record.queued),
        guest_episodes.episodes(record),
        _growth(record),
        _removals(record),
        _workers(record),
    )
    return sorted(found, key=lambda each: (each.at, each.kind, each.what))


def most_telling(found: Iterable[Episode], count: int) -> list[Episode]:
    """Choose some, in order of time: of each kind the largest in turn, so that every kind has its say."""
    ranked = sorted(found, key=lambda one: (-one.size, one.at, one.what))
    turns = itertools.zip_longest(*([one for one in ranked if one.kind is kind] for kind in Kind))
    chosen = [one for turn in turns for one in turn if one is not None][:count]
    return sorted(chosen, key=lambda one: (one.at, one.kind, one.what))


# One kind each


def _growth(record: Record) -> Iterator[Episode]:
    """Tell of pools that grew; what was taken back at once, because the provider had none, does not count."""
    changed = _done(record, "desired_set")
    for pool, lines in together(changed, lambda line: record.groups[line.fields["group"]].pool, PAUSE_SECONDS):
        zones: Counter[str] = Counter()
        for line in lines:
            zones[_zone(record, line)] += _more(line)
        zones = +zones
        first, last, count = lines[0].at, lines[-1].at, zones.total()
        if not count:
            continue
        yield Episode(
            at=first,
            kind=Kind.GROWTH,
            size=count,
            what=f"{words.instances(count)} of {pool} started{words.until(first, last)} ({words.counted(zones)})",
            why=_who_waited(record, pool, first, last),
        )


def _who_waited(record: Record, pool: str, first: float, last: float) -> str:
    pods = {
        tuple(pod)
        for line in record.logs
        if line.event == "scale_up" and first <= line.at <= last + 1
        for pod in line.fields["pods"]
        if any(record.groups[name].pool == pool for name in line.fields["groups"])
    }
    namespaces = Counter(namespace for namespace, _ in pods)
    return f"no room for {words.pods(len(pods))} ({words.counted(namespaces)})"


def _shortages(record: Record) -> Iterator[Episode]:
    failed = [line for line in record.logs if line.event == "launch_failed"]
    for name, lines in together(failed, lambda line: _zone(record, line), SHORTAGE_PAUSE_SECONDS):
        first, last = lines[0].at, lines[-1].at
        types = sorted({record.groups[line.fields["group"]].instance_type for line in lines})
        elsewhere = sum(
            _more(line)
            for line in _raised(record)
            if first <= line.at <= last + PAUSE_SECONDS and _zone(record, line) != name
        )
        started = words.instances(elsewhere)
        yield Episode(
            at=first,
            kind=Kind.SHORTAGE,
            size=len(lines),
            what=f"zone {name} passed by{words.until(first, last)}, {started} started in other zones",
            why=f"the provider had no {' or '.join(types)} there, asked {len(lines)} times",
        )


_STATES: Final = {
    budgets.State.NEAR: "is nearly used up",
    budgets.State.COMMITTED: "allows no more instances",
    budgets.State.SPENT: "is used up: idle instances end at once",
}


def _budgets(record: Record) -> Iterator[Episode]:
    """Tell each state of a budget once, the first time."""
    seen: set[tuple[str, str]] = set()
    for line in record.logs:
        if line.event == "budget_changed" and (line.fields["state"], line.fields["pool"]) not in seen:
            state, budget = line.fields["state"], limit(line.fields)
            seen.add((state, budget.pool))
            yield Episode(
                at=line.at,
                kind=Kind.BUDGET,
                size=list(_STATES).index(state),
                what=f"the month's budget of {budget.pool} {_STATES[state]}",
                why=messages.limit(budget),
            )


def _limits(record: Record) -> Iterator[Episode]:
    refused = [line for line in record.logs if line.event == "no_scale_up" and line.fields["limits"]]
    for (_, pool, scope), lines in together(refused, _which_limit, LIMIT_PAUSE_SECONDS):
        first, last = lines[0].at, lines[-1].at
        pods = Counter(namespace for namespace, _ in {tuple(pod) for line in lines for pod in line.fields["pods"]})
        said = messages.limit(limit(lines[0].fields["limits"][0]))
        yield Episode(
            at=first,
            kind=Kind.LIMIT,
            size=pods.total(),
            what=f"no instance for {words.pods(pods.total())}{words.until(first, last)} ({words.counted(pods)})",
            why=f"{pool}: {said}" if pool and not scope else said,
        )


def _which_limit(line: Logged) -> tuple[LimitKind, str, str]:
    """Return of what and whose the limit is by which refusals belong together."""
    first = limit(line.fields["limits"][0])
    return first.kind, first.pool, first.scope


def limit(fields: Mapping[str, Any]) -> Limit:
    """Read a limit from a line of the log."""
    return Limit(**{each.name: fields[each.name] for each in dataclasses.fields(Limit)})


def _removals(record: Record) -> Iterator[Episode]:
    keys = {instance.id: instance.key for instance in record.instances}
    marked = {line.fields["node"]: line for line in record.logs if line.event == "node_marked"}
    ended = [line for line in _done(record, "instance_ended") if line.fields["instance"] in keys]

    def pool_and_reason(line: Logged) -> tuple[str, str]:
        mark = marked.get(line.fields["node"])
        return keys[line.fields["instance"]].pool, str(mark.fields["reason"]) if mark else ""

    for (pool, reason), lines in together(ended, pool_and_reason, PAUSE_SECONDS):
        first, last = lines[0].at, lines[-1].at
        mark = marked.get(lines[0].fields["node"])
        idle = units.duration(mark.at - mark.fields["idle_since"]) if mark else "a while"
        yield Episode(
            at=first,
            kind=Kind.REMOVAL,
            size=len(lines),
            what=f"{words.instances(len(lines))} of {pool} ended{words.until(first, last)}",
            why=f"no work on them for {idle}" + ("" if reason == "Idle" else f" ({reason})"),
        )


def _workers(record: Record) -> Iterator[Episode]:
    full = [told for told in record.told if told.reason == "CapacityReached"]
    for pool, lines in together(full, lambda told: told.name, LIMIT_PAUSE_SECONDS):
        yield Episode(
            at=lines[0].at,
            kind=Kind.WORKERS,
            size=len(lines),
            what=f"no more workers for the queue {pool}{words.until(lines[0].at, lines[-1].at)}",
            why=lines[0].message,
        )


# What they share


def _done(record: Record, event: str) -> list[Logged]:
    """Return the lines of one event that tell of something that was done."""
    return [line for line in record.logs if line.event == event and line.fields["verdict"] is not Verdict.NOT_DONE]


def _raised(record: Record) -> list[Logged]:
    """Return the lines that tell of a group that got more instances."""
    return [line for line in _done(record, "desired_set") if _more(line) > 0]


def _more(line: Logged) -> int:
    return int(line.fields["after"]) - int(line.fields["before"])


def _zone(record: Record, line: Logged) -> str:
    return record.groups[line.fields["group"]].zone
