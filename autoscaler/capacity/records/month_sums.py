"""What was used this month, as sums that follow each change of an Instance object. Pure: it costs what changed.

Time that is over stands in the objects' months. Of time that still runs a count and a sum of starts are kept, which say
at any moment how many seconds that is; of a scope's time the same, weighted with the shares of nodes its pods have.
Parts of a second are added up before they are cut off, where `accounting` cuts them off for each instance: so a scope's
sum may differ from that by a second for each instance, and a cost by a millionth.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from autoscaler.api.resources.instances import Instance
from autoscaler.api.resources.pools import InstancePoolSpec
from autoscaler.capacity.records import accounting
from autoscaler.capacity.records.accounting import MonthToDate, ScopePool
from autoscaler.cloud.prices import Prices
from autoscaler.kube import incremental, objects, store

Record = objects.Custom[Instance]


@dataclass(slots=True)
class Starts:
    """When times began that still run, by the month of their start: a sum of weights, and one of weighted starts."""

    weights: Counter[str] = field(default_factory=Counter)
    sums: Counter[str] = field(default_factory=Counter)

    def change(self, start: int, weight: int) -> None:
        """Add a time that runs; one of a negative weight takes it back."""
        month = accounting.month_of(start)
        self.weights[month] += weight
        self.sums[month] += weight * start
        if not self.weights[month]:
            del self.weights[month], self.sums[month]

    def until(self, now: float) -> int:
        """Return the weighted seconds of this month; a start that is yet to come counts nothing."""
        month, ended = accounting.month_of(now), math.floor(now)
        earlier = sum(weight for name, weight in self.weights.items() if name < month)
        lately = max(0, self.weights[month] * ended - self.sums[month])
        return earlier * (ended - accounting.month_start(now)) + lately


@dataclass(slots=True)
class PoolSums:
    """What was used of one pool's instances."""

    records: int = 0
    seconds: Counter[str] = field(default_factory=Counter)
    """Of lives that are over, by month; the same for the next two."""
    costs: Counter[str] = field(default_factory=Counter)
    scopes: Counter[tuple[str, str]] = field(default_factory=Counter)
    lives: defaultdict[str, Starts] = field(default_factory=lambda: defaultdict(Starts))
    """Of instances that are there, by type."""
    pods: defaultdict[str, Starts] = field(default_factory=lambda: defaultdict(Starts))
    """Of pods that run, by scope, weighted with millionths of a node."""
    rests: Counter[str] = field(default_factory=Counter)
    """Millionths of a second that no month has yet, of scopes whose pods run."""

    def add(self, record: Record) -> None:
        """Take an object in."""
        self._change(record.resource, 1)

    def remove(self, record: Record) -> None:
        """Give an object up."""
        self._change(record.resource, -1)

    def __len__(self) -> int:
        return self.records

    def _change(self, instance: Instance, sign: int) -> None:
        self.records += sign
        for month, usage in instance.status.months.items():
            self.seconds[month] += sign * usage.seconds
            self.costs[month] += sign * (usage.cost_micros or 0)
            for scope, seconds in usage.scopes.items():
                self.scopes[month, scope] += sign * seconds
        if instance.status.phase in accounting.LIVING and instance.status.instance_created_at is not None:
            self._change_open(instance, sign)

    def _change_open(self, instance: Instance, sign: int) -> None:
        """Add what runs, or take it back."""
        status = instance.status
        created = status.instance_created_at
        if created is not None:
            _change_starts(self.lives, status.instance_type or "", math.ceil(created.timestamp()), sign)
        charged = [pod for pod in status.running if pod.scope is not None]
        for pod in charged:
            start = math.ceil(pod.started_at.timestamp())
            _change_starts(self.pods, pod.scope or "", start, sign * accounting.share_of(pod))
        for scope in {pod.scope for pod in charged}:
            self.rests[scope or ""] += sign * status.remainders.get(scope or "", 0)


def _change_starts(starts: defaultdict[str, Starts], name: str, start: int, weight: int) -> None:
    starts[name].change(start, weight)
    if not starts[name].weights:
        del starts[name]


class MonthSums:
    """The sums of all pools, kept current with a table of Instance objects."""

    def __init__(self, table: store.Table[Record]) -> None:
        self._index: incremental.IncrementalIndex[str, Record, PoolSums] = incremental.IncrementalIndex(
            table, groups_of=_pools_of, make=PoolSums
        )

    def said(self) -> object:
        """Return the sums of each pool."""
        return self._index.as_dict()

    def heal(self) -> None:
        """Make them anew from all objects."""
        self._index.heal()

    def to_date(self, now: float, pools: Mapping[str, InstancePoolSpec], prices: Prices) -> MonthToDate:
        """Return what was used of the month that `now` lies in; what has no price costs nothing."""
        month, scopes = accounting.month_of(now), dict[ScopePool, int]()
        seconds, costs = dict[str, int](), dict[str, int]()
        for pool, sums in self._index.as_dict().items():
            running = {kind: starts.until(now) for kind, starts in sums.lives.items()}
            seconds[pool] = sums.seconds[month] + sum(running.values())
            costs[pool] = sums.costs[month] + _cost(running, pools.get(pool), prices)
            scopes |= {ScopePool(scope, pool): used for scope, used in _of_scopes(sums, now).items() if used}
        return MonthToDate(month=month, seconds=seconds, cost_micros=costs, scopes=scopes)


def _pools_of(record: Record) -> Collection[str]:
    return (record.resource.spec.pool,)


def _cost(seconds: Mapping[str, int], spec: InstancePoolSpec | None, prices: Prices) -> int:
    """Return what seconds of instance types cost, rounded up; what has no price costs an unknown amount."""
    if spec is None:
        return 0
    capacity = spec.specifications.capacity_type
    return sum(prices.cost_micros(kind, capacity, seconds=count) or 0 for kind, count in seconds.items())


def _of_scopes(sums: PoolSums, now: float) -> dict[str, int]:
    """Return the whole seconds of each scope."""
    month = accounting.month_of(now)
    used = Counter({scope: seconds for (name, scope), seconds in sums.scopes.items() if name == month})
    for scope, starts in sums.pods.items():
        used[scope] += (starts.until(now) + sums.rests[scope]) // accounting.WHOLE
    return dict(used)
