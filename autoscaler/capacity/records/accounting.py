"""How much time was used of an instance, by month and by scope. Pure sums: who used what when is decided elsewhere.

Months are Gregorian, in UTC; what runs over midnight of the 1st is split there. An instance's time is its wall time in
whole seconds. A scope's time is its pods' wall time multiplied by the share of the node that each holds; a scope's part
of a second is carried over to its next pod, so that a sum is never more than the true time, and less by one second at
most. Idle time is charged to no scope.
"""

import functools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, NamedTuple

from autoscaler.api.resources.instances import Instance, InstanceStatus, MonthUsage, Phase, RunningPod
from autoscaler.capacity.model import PODS

WHOLE: Final = 1_000_000
"""All of a node, and a second: both are counted in millionths."""
MONTHS_KEPT: Final = 13
DAY_SECONDS: Final = 86_400
LIVING: Final = frozenset({Phase.LAUNCHING, Phase.READY, Phase.DRAINING})


class UsageShare(NamedTuple):
    """The part of a time of use that lies in one month."""

    month: str
    seconds: int


class ScopePool(NamedTuple):
    """A scope's use of a pool."""

    scope: str
    pool: str


# Months


def month_of(at: float) -> str:
    """Name the month that a time lies in, such as 2026-11."""
    return _month(math.floor(at) // DAY_SECONDS).name


def month_end(at: float) -> int:
    """Return when the month of a time is over."""
    return _month(math.floor(at) // DAY_SECONDS).end


def month_start(at: float) -> int:
    """Return when the month of a time began."""
    return _month(math.floor(at) // DAY_SECONDS).start


def by_month(start: float, end: float) -> tuple[UsageShare, ...]:
    """Split the whole seconds between two times by month; nothing if the end is not after the start."""
    return tuple(_usage_shares(math.ceil(start), math.floor(end)))


def _usage_shares(start: int, end: int) -> Iterator[UsageShare]:
    while start < end:
        stop = min(end, month_end(start))
        yield UsageShare(month_of(start), stop - start)
        start = stop


class _Month(NamedTuple):
    name: str
    start: int
    end: int


@functools.lru_cache(maxsize=1000)
def _month(day: int) -> _Month:
    """Return the month of a day, as counted from the epoch: asked again and again, and each time of the same few."""
    first = datetime.fromtimestamp(day * DAY_SECONDS, UTC).replace(day=1)
    following = datetime(first.year + first.month // 12, first.month % 12 + 1, 1, tzinfo=UTC)
    return _Month(name=f"{first:%Y-%m}", start=int(first.timestamp()), end=int(following.timestamp()))


# Shares


def share_millionths(requests: Mapping[str, int], allocatable: Mapping[str, int]) -> int:
    """Return the largest part of any resource of a node that a pod holds, its place among the node's pods included.

    Rounded down, and never more than the node: what a pod asks for and the node does not have counts nothing.
    """
    wanted = {**requests, PODS: 1}
    parts = (amount * WHOLE // allocatable[name] for name, amount in wanted.items() if allocatable.get(name, 0) > 0)
    return min(WHOLE, max(parts, default=0))


def share_of(pod: RunningPod) -> int:
    """Return the share that a pod was recorded with."""
    return WHOLE if pod.share_millionths is None else pod.share_millionths


# The ledger of one instance


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """What was used of an instance, as its status keeps it. Adding is the only thing that can be done to it."""

    months: Mapping[str, MonthUsage] = field(default_factory=dict)
    durations: Mapping[str, int] = field(default_factory=dict)
    """Seconds by scope in this life."""
    remainders: Mapping[str, int] = field(default_factory=dict)
    """Millionths of a second by scope that no sum has yet."""

    @classmethod
    def of(cls, status: InstanceStatus) -> "Ledger":
        return cls(months=status.months, durations=status.durations_by_scope, remainders=status.remainders)

    def with_life(self, start: float, end: float, *, hourly_micros: int | None = None) -> "Ledger":
        """Add the time for which the instance existed, and what it cost where it has a price."""
        months = dict(self.months)
        for part in by_month(start, end):
            before = months.get(part.month, MonthUsage())
            cost = _cost(before.cost_micros, part.seconds, hourly_micros)
            months[part.month] = before.model_copy(
                update={"seconds": before.seconds + part.seconds, "cost_micros": cost}
            )
        return Ledger(months=months, durations=self.durations, remainders=self.remainders)

    def with_work(self, pod: RunningPod, end: float) -> "Ledger":
        """Add the time of a pod that ended; a pod of no scope is charged to nobody."""
        if pod.scope is None:
            return self
        months, added, rest = dict(self.months), 0, self.remainders.get(pod.scope, 0)
        for part in by_month(pod.started_at.timestamp(), end):
            whole, rest = divmod(part.seconds * share_of(pod) + rest, WHOLE)
            months[part.month] = _with_scope(months.get(part.month, MonthUsage()), pod.scope, whole)
            added += whole
        return Ledger(
            months=months,
            durations={**self.durations, pod.scope: self.durations.get(pod.scope, 0) + added},
            remainders={scope: micros for scope, micros in {**self.remainders, pod.scope: rest}.items() if micros},
        )

    def kept(self, now: float) -> "Ledger":
        """Forget the months that are too long ago."""
        months = {name: usage for name, usage in self.months.items() if age_in_months(name, now) < MONTHS_KEPT}
        return Ledger(months=months, durations=self.durations, remainders=self.remainders)


def _cost(before: int | None, seconds: int, hourly_micros: int | None) -> int | None:
    """Round up, as prices do, so that a limit is never passed unseen."""
    return before if hourly_micros is None else (before or 0) - (-hourly_micros * seconds // 3600)


def _with_scope(usage: MonthUsage, scope: str, seconds: int) -> MonthUsage:
    if not seconds:
        return usage
    return usage.model_copy(update={"scopes": {**usage.scopes, scope: usage.scopes.get(scope, 0) + seconds}})


def age_in_months(month: str, now: float) -> int:
    """Return how many months ago a month began, the present one being 0."""
    present = month_of(now)
    return (int(present[:4]) - int(month[:4])) * 12 + int(present[5:]) - int(month[5:])


# Sums over instances


@dataclass(frozen=True, slots=True, kw_only=True)
class MonthToDate:
    """What was used in the present month, what still runs included."""

    month: str
    seconds: Mapping[str, int] = field(default_factory=dict)
    """By pool: for how long instances existed."""
    cost_micros: Mapping[str, int] = field(default_factory=dict)
    """By pool: what that cost, as far as prices are known."""
    scopes: Mapping[ScopePool, int] = field(default_factory=dict)
    """Seconds of work."""


def month_to_date(
    instances: Iterable[Instance], now: float, hourly_micros: Mapping[str, int] | None = None
) -> MonthToDate:
    """Sum up the month that `now` lies in; prices are by instance name, for lives that are not over."""
    month, prices = month_of(now), hourly_micros or {}
    seconds: Counter[str] = Counter()
    costs: Counter[str] = Counter()
    scopes: Counter[ScopePool] = Counter()
    for instance in instances:
        pool, open_part = instance.spec.pool, _open_part(instance.status, now, prices.get(instance.metadata.name))
        for usage in (instance.status.months.get(month, MonthUsage()), open_part):
            seconds[pool] += usage.seconds
            costs[pool] += usage.cost_micros or 0
            for scope, used in usage.scopes.items():
                scopes[ScopePool(scope, pool)] += used
    return MonthToDate(month=month, seconds=dict(seconds), cost_micros=dict(costs), scopes=dict(scopes))


def _open_part(status: InstanceStatus, now: float, hourly_micros: int | None) -> MonthUsage:
    """Return what a life and the pods that run in it have used of this month, and no sum has yet."""
    if status.phase not in LIVING or status.instance_created_at is None:
        return MonthUsage()
    begun, ended = month_start(now), math.floor(now)
    rests, scopes = dict(status.remainders), Counter[str]()
    for pod in status.running:
        if pod.scope is not None:
            started = min(ended, _whole(pod.started_at))
            earlier, now_on = max(0, begun - started), ended - max(begun, started)
            rest = (rests.get(pod.scope, 0) + earlier * share_of(pod)) % WHOLE  # a part of a second is carried over
            whole, rests[pod.scope] = divmod(now_on * share_of(pod) + rest, WHOLE)
            scopes[pod.scope] += whole
    seconds = max(0, ended - max(begun, _whole(status.instance_created_at)))
    return MonthUsage(
        seconds=seconds,
        scopes={scope: amount for scope, amount in scopes.items() if amount},
        cost_micros=_cost(None, seconds, hourly_micros),
    )


def _whole(at: datetime) -> int:
    return math.ceil(at.timestamp())


# How long pods take


@dataclass(frozen=True, slots=True, kw_only=True)
class Durations:
    """The mean duration of pods that ended, and of how many."""

    WEIGHT_MAX = 100
    """No more pods than this outweigh a new one, so that the mean follows what pods do now."""

    mean_seconds: int | None = None
    samples: int = 0

    def with_sample(self, seconds: int) -> "Durations":
        """Add a pod that ended. It is rounded towards the new one: the mean never sticks, nor leaves what was seen."""
        if self.mean_seconds is None or not self.samples:
            return Durations(mean_seconds=seconds, samples=1)
        weight = min(self.samples, self.WEIGHT_MAX)
        away = seconds - self.mean_seconds
        step = -(-abs(away) // (weight + 1))
        return Durations(mean_seconds=self.mean_seconds + (step if away > 0 else -step), samples=self.samples + 1)
