"""Which target latencies were met, and what was in the way where one was not. Pure: a record in, lines out."""

import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from autoscaler import units
from autoscaler.capacity import messages
from autoscaler.capacity.model import Reason, Rejection
from autoscaler.simulate.observation.record import Record, Target
from autoscaler.simulate.observation.waits import PodWait
from autoscaler.simulate.reporting import episodes, tables, words

SHARE: Final = 0.95
"""A target is met if so large a share of the pods began in time."""
WIDTH: Final = 80
NOTHING: Final = "no limit, budget or missing offering: work or boot took longer than expected"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How long a scope's pods waited that ran in a pool, or might have."""

    target: Target
    seconds: tuple[float, ...]
    """Of each pod, the shortest first."""
    obstacles: tuple[tuple[str, int], ...] = ()
    """What was in the way of pods that waited for too long, with how many, the most first."""

    @property
    def is_met(self) -> bool:
        return not self.seconds or self.at(SHARE) <= self.target.seconds

    @property
    def late(self) -> int:
        return sum(each > self.target.seconds for each in self.seconds)

    def at(self, share: float) -> float:
        return tables.quantile(self.seconds, share)


def outcomes(record: Record) -> list[Outcome]:
    """Return what became of each target. Pods that still wait count where their scope's pods go first."""
    firsts: dict[str, str] = {}
    for target in record.targets:
        firsts.setdefault(target.scope, target.pool)
    found: dict[tuple[str, str], list[PodWait]] = {}
    for pod in record.pods:
        found.setdefault((pod.scope, pod.pool or firsts.get(pod.scope, "")), []).append(pod)
    return [_outcome(record, target, found.get((target.scope, target.pool), [])) for target in record.targets]


def lines(record: Record) -> list[str]:
    """Write a table of targets, and below it why some were missed."""
    found = outcomes(record)
    head = ("scope", "pool", "target", "pods", "50 %", "95 %", "worst", "")
    return [*tables.table(head, map(_row, found), left=2), *(line for each in found for line in _missed(each))]


def _outcome(record: Record, target: Target, pods: list[PodWait]) -> Outcome:
    outcome = Outcome(target=target, seconds=tuple(sorted(pod.wait.seconds(record.ends_at) for pod in pods)))
    if outcome.is_met:
        return outcome
    obstacles: Counter[str] = Counter()
    for pod in pods:
        if pod.wait.seconds(record.ends_at) > target.seconds:
            obstacles.update(set(_in_the_way(record, target, pod)) or {NOTHING})
    return Outcome(target=target, seconds=outcome.seconds, obstacles=tuple(sorted(obstacles.items(), key=_most_first)))


def _most_first(obstacle: tuple[str, int]) -> tuple[int, str]:
    what, count = obstacle
    return -count, what


def _in_the_way(record: Record, target: Target, pod: PodWait) -> Iterator[str]:
    """Yield what the runtime said of the pool and the cluster while a pod waited."""
    until = record.ends_at if pod.wait.began_at is None else pod.wait.began_at
    for line in record.logs:
        if not pod.wait.came_at <= line.at <= until:
            continue
        if line.event == "no_scale_up":
            limits = map(episodes.limit, line.fields["limits"])
            yield from (
                messages.lasting(Rejection(reason=Reason.LIMIT, numbers=each))
                for each in limits
                if each.pool in {"", target.pool} and each.scope in {"", target.scope}
            )
        elif line.event == "launch_failed" and record.groups[line.fields["group"]].pool == target.pool:
            group = record.groups[line.fields["group"]]
            yield f"the provider had no {group.instance_type} in {group.zone}"


def _row(each: Outcome) -> tuple[str, ...]:
    shown = [units.duration(each.at(share)) if each.seconds else "" for share in (0.5, SHARE, 1.0)]
    met = "" if not each.seconds else "met" if each.is_met else "missed"
    target = each.target
    return (target.scope, target.pool, units.duration(target.seconds), f"{len(each.seconds):,}", *shown, met)


def _missed(each: Outcome) -> list[str]:
    if each.is_met:
        return []
    why = "; ".join(f"{what} ({words.pods(count)})" for what, count in each.obstacles)
    text = f"{each.target.scope} in {each.target.pool}: {words.pods(each.late)} late. In the way: {why}"
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ")
