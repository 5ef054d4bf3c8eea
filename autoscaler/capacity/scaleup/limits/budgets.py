"""How many more instances pools may start within the seconds and the money that a month may take. Pure.

Launches look ahead, on what is committed: used this month, plus what runs is expected to use until the month is over,
plus one expected life for each instance that would start. Removals look back: once as much is used as may be, idle
instances go. Work that runs is never ended for a budget.

What an instance is expected to use: if it has work, until its longest pod has run as long as pods do and it was idle
for as long as it may be; if it is idle, the rest of that; if it starts, the rest of a whole life. As nobody can tell
for whom an instance starts, it counts for every scope. A life lasts as long as those of the pool that are over did on
average; while there is none, as long as a pod and the time that an instance may be idle. What runs or starts for pods
that do not end, and what a group's minimum keeps, is expected to be there until the month is over.
"""

import functools
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from autoscaler.api.resources.instances import Instance, Phase, RunningPod
from autoscaler.api.resources.pools import InstancePoolSpec
from autoscaler.api.resources.scopes import ScopeSpec
from autoscaler.capacity.model import Limit, LimitKind, Reason, Rejection
from autoscaler.capacity.records import accounting, pool_lives
from autoscaler.capacity.scaleup.limits.lasting import Lasting
from autoscaler.capacity.scaleup.scopes import latency
from autoscaler.cloud.prices import MICROS, Prices

WARNING_PERCENT: Final = 80
NOTHING_LASTS: Final = Lasting(pods=frozenset(), instances=frozenset(), unrecorded=Counter())


class State(StrEnum):
    """How a budget stands."""

    WITHIN = "WithinBudget"
    NEAR = "BudgetNearlyUsed"
    """A warning: so much is used that a person should know."""
    COMMITTED = "BudgetCommitted"
    """Nothing more is started: what runs is expected to use the rest."""
    SPENT = "BudgetSpent"
    """Idle instances go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """All that budgets are made from."""

    now: float
    pools: Mapping[str, InstancePoolSpec]
    scopes: Mapping[str, ScopeSpec] = field(default_factory=dict)
    instances: Collection[Instance] = ()
    lives: Mapping[str, pool_lives.PoolLives] | None = None
    """The same, by pool; None: nobody has kept them, and they are gathered."""
    unrecorded: Mapping[str, int] = field(default_factory=dict)
    """By pool: instances that are asked for or start and have no Instance object yet."""
    durations: Mapping[accounting.ScopePool, accounting.Durations] = field(default_factory=dict)
    prices: Prices = field(default_factory=Prices)
    lasting: Lasting = NOTHING_LASTS


def budgets(books: Books, used: accounting.MonthToDate) -> tuple[Limit, ...]:
    """Return all limits of the month with the numbers compared: pools by name, each before its scopes."""
    lives = pool_lives.lives(books.instances) if books.lives is None else books.lives
    found = []
    for name in sorted(limited_pools(books.pools, books.scopes)):
        outlook = _Outlook(books, name, books.pools[name], lives.get(name, pool_lives.NONE))
        found += [*_of_pool(outlook, used), *_of_scopes(outlook, used)]
    return tuple(found)


def limited_pools(pools: Mapping[str, InstancePoolSpec], scopes: Mapping[str, ScopeSpec]) -> frozenset[str]:
    """Return the pools that have a limit for a month, or of which a scope may use no more than one."""
    own = {name for name, spec in pools.items() if _is_limited(spec)}
    entries = [entry for scope in scopes.values() for entry in scope.pools]
    return frozenset(
        own | {each.name for each in entries if each.limits.target_max_seconds_per_month is not None} & pools.keys()
    )


def limits(found: Iterable[Limit]) -> tuple[Limit, ...]:
    """Return the limits of pools, for placement. Those of scopes are no such limits: they hold for one scope's pods."""
    return tuple(each for each in found if not each.scope)


def scope_limits(found: Iterable[Limit]) -> dict[accounting.ScopePool, Limit]:
    """Return the limits of scopes. An instance serves a pod at least: plan no more pods than `more` there."""
    return {accounting.ScopePool(each.scope, each.pool): each for each in found if each.scope}


def spent_pools(found: Iterable[Limit]) -> dict[str, Limit]:
    """Return the pools whose idle instances should go, each with a budget that says so."""
    return {each.pool: each for each in found if not each.scope and is_spent(each)}


def is_spent(budget: Limit) -> bool:
    """Tell whether as much is used as may be."""
    return budget.used >= budget.most


def is_near(budget: Limit) -> bool:
    """Tell whether so much is used that a person should know."""
    return budget.used * 100 >= budget.most * WARNING_PERCENT


def state(budget: Limit) -> State:
    """Tell how a budget stands."""
    if is_spent(budget):
        return State.SPENT
    if budget.more() == 0:
        return State.COMMITTED
    return State.NEAR if is_near(budget) else State.WITHIN


def excess(spec: InstancePoolSpec, active: int) -> int:
    """Return how many instances a pool has beyond the most it may have; so many idle ones should go."""
    most = spec.limits.max_active_instances
    return 0 if most is None else max(0, active - most)


def unpriced(spec: InstancePoolSpec, instance_type: str, known: Prices) -> Rejection | None:
    """Return why an instance type may not be started under a limit of money; None if it may."""
    limit, kind = spec.limits.target_max_cost_per_month, spec.specifications.capacity_type
    if limit is None or (instance_type, kind) in known.hourly_micros:
        return None
    return Rejection(reason=Reason.NO_PRICE, what=f"{instance_type} {kind}", wanted=limit)


def _is_limited(spec: InstancePoolSpec) -> bool:
    limits = spec.limits
    return limits.target_max_seconds_per_month is not None or limits.target_max_cost_per_month is not None


# What is expected


class _Outlook:
    """What a pool's instances are expected to use until the month is over."""

    def __init__(self, books: Books, name: str, spec: InstancePoolSpec, lives: pool_lives.PoolLives) -> None:
        self.books, self.name, self.spec = books, name, spec
        self.left = accounting.month_end(books.now) - int(books.now)
        self.living = lives.living.values()
        self.unrecorded = books.unrecorded.get(name, 0)
        idle = spec.limits.max_idle_seconds
        mean = lives.mean_seconds()
        self.life = self._mean_duration() + idle if mean is None else mean
        self.idle_after_work = 0 if spec.ephemeral else idle
        self._durations: dict[str | None, int] = {}

    @property
    def each(self) -> int:
        return self.clipped(self.life)

    def clipped(self, seconds: float) -> int:
        """Return the part of the coming seconds that lies in this month."""
        return max(0, min(self.left, int(seconds)))

    @functools.cached_property
    def rests(self) -> list[int]:
        """How long each living instance is expected to exist yet, this month, in their order."""
        return [self.rest(each) for each in self.living]

    def rest(self, instance: Instance) -> int:
        """Return for how long an instance is expected to exist yet, this month."""
        status, now = instance.status, self.books.now
        if instance.metadata.name in self.books.lasting.instances:
            return self.left
        if status.phase is Phase.LAUNCHING and status.instance_created_at is not None:
            return self.clipped(self.life - (now - status.instance_created_at.timestamp()))
        if status.idle_since is not None:
            return self.clipped(self.spec.limits.max_idle_seconds - (now - status.idle_since.timestamp()))
        work = max(map(self.rest_of_pod, status.running), default=0)
        return self.clipped(work + self.idle_after_work)

    def rest_of_pod(self, pod: RunningPod) -> int:
        """Return for how long a pod is expected to run yet."""
        if pod.pod_uid in self.books.lasting.pods:
            return self.left
        return max(0, int(self.duration(pod.scope) - max(0.0, self.books.now - pod.started_at.timestamp())))

    def coming(self, scope: str) -> int:
        """Return what pods of a scope are expected to use that do not end and are not recorded yet."""
        return self.books.lasting.unrecorded[accounting.ScopePool(scope, self.name)] * self.left

    def duration(self, scope: str | None) -> int:
        """Return how long a scope's pods run here."""
        if scope not in self._durations:  # asked for each pod that runs
            known = self.books.durations.get(accounting.ScopePool(scope or "", self.name))
            mean = known.mean_seconds if known is not None else None
            self._durations[scope] = latency.DURATION_SECONDS if mean is None else mean
        return self._durations[scope]

    def _mean_duration(self) -> int:
        """Return how long pods of all scopes run here, rounded up."""
        known = [each for key, each in self.books.durations.items() if key.pool == self.name and each.samples]
        samples = sum(each.samples for each in known)
        total = sum((each.mean_seconds or 0) * each.samples for each in known)
        return -(-total // samples) if samples else latency.DURATION_SECONDS


def _of_pool(outlook: _Outlook, used: accounting.MonthToDate) -> Iterator[Limit]:
    limits = outlook.spec.limits
    if limits.target_max_seconds_per_month is not None:
        yield Limit(
            kind=LimitKind.POOL_SECONDS,
            pool=outlook.name,
            most=limits.target_max_seconds_per_month,
            used=used.seconds.get(outlook.name, 0),
            expected=sum(outlook.rests) + outlook.unrecorded * outlook.each,
            each=outlook.each,
            each_endless=outlook.left,
        )
    if limits.target_max_cost_per_month is not None:
        yield _of_money(outlook, used, limits.target_max_cost_per_month)


def _of_money(outlook: _Outlook, used: accounting.MonthToDate, limit: int) -> Limit:
    """Reckon with the dearest type that the pool may start: nobody knows yet which one it will be."""
    capacity, known = outlook.spec.specifications.capacity_type, outlook.books.prices
    kinds = {*outlook.spec.specifications.instance_types, *(one.status.instance_type or "" for one in outlook.living)}
    each, each_endless = (
        max((known.cost_micros(kind, capacity, seconds=seconds) or 0 for kind in kinds), default=0)
        for seconds in (outlook.each, outlook.left)
    )
    rests = (
        known.cost_micros(one.status.instance_type or "", capacity, seconds=rest) or 0
        for one, rest in zip(outlook.living, outlook.rests, strict=True)
    )
    return Limit(
        kind=LimitKind.POOL_COST,
        pool=outlook.name,
        most=limit * MICROS,
        used=used.cost_micros.get(outlook.name, 0),
        expected=sum(rests) + outlook.unrecorded * each,
        each=each,
        each_endless=each_endless,
    )


def _of_scopes(outlook: _Outlook, used: accounting.MonthToDate) -> Iterator[Limit]:
    limits = dict(_scope_limits(outlook))
    if not limits:
        return
    starting = outlook.unrecorded + sum(one.status.phase is Phase.LAUNCHING for one in outlook.living)
    work = _expected_work(outlook)
    for name, limit in limits.items():
        yield Limit(
            kind=LimitKind.SCOPE_SECONDS,
            pool=outlook.name,
            scope=name,
            most=limit,
            used=used.scopes.get(accounting.ScopePool(name, outlook.name), 0),
            expected=-(-work[name] // accounting.WHOLE) + starting * outlook.each + outlook.coming(name),
            each=outlook.each,
            each_endless=outlook.left,
        )


def _scope_limits(outlook: _Outlook) -> Iterator[tuple[str, int]]:
    """Yield the scopes that may use no more than so many seconds of a pool, by name."""
    for name, scope in sorted(outlook.books.scopes.items()):
        entry = next((each for each in scope.pools if each.name == outlook.name), None)
        limit = entry.limits.target_max_seconds_per_month if entry is not None else None
        if limit is not None:
            yield name, limit


def _expected_work(outlook: _Outlook) -> Counter[str]:
    """Return by scope what its pods are expected to use yet, in millionths of a second."""
    found: Counter[str] = Counter()
    for instance in outlook.living:
        for pod in instance.status.running:
            if pod.scope is not None:
                rest = outlook.clipped(outlook.rest_of_pod(pod))
                found[pod.scope] += rest * accounting.share_of(pod)
    return found
