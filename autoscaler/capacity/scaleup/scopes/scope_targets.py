"""How many of a scope's waiting pods may start instances in which of its pools. Pure.

A scope may give each of its pools a target latency and a budget. Its pods go through its pools in order: each serves
as many in time as its budget, its limits and its groups allow, and the rest flows on to the next, with that pool's
target. What finds a busy slot in time gets no instance of its own: it waits for the slot, and is told so.

Pods that only work together and pods that never end do not wait for others; budgets hold for them too. Scopes that
give neither targets nor budgets are planned in one go, with all others.
"""

import dataclasses
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from autoscaler import clock
from autoscaler.api import keys
from autoscaler.capacity.indexes import remembered
from autoscaler.capacity.model import (
    Demand,
    Placement,
    Policy,
    Reason,
    Rejection,
    Share,
    Situation,
    Unplaced,
)
from autoscaler.capacity.scaleup import placement, supply
from autoscaler.capacity.scaleup.scopes import latency, scope_pools
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.kube import objects

Pods = Mapping[Demand, tuple[objects.Pod, ...]]
Refusals = Mapping[Demand, tuple[Rejection, ...]]
_MANY: Final = 1_000_000
TRIALS_MAX: Final = 1000
"""So many answers of pools to pods are kept from cycle to cycle."""
_Alike = tuple[scope_pools.Tiers, object]
"""Pools, and pods that are alike, whosever they are."""
_Answers = dict[_Alike, tuple[Rejection, ...] | None]
"""What pools say to pods; None: they take them."""
_UNTRIED: Final[tuple[Rejection, ...]] = (Rejection(reason=Reason.STATED),)
"""Nobody has asked them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Pods that start no instance, and why."""

    demand: Demand
    pods: tuple[objects.Pod, ...]
    rejections: tuple[Rejection, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rationed:
    """Where pods go, and who was not even asked for."""

    placed: Placement
    pods: Pods
    """The pods of each demand that was placed."""
    origins: Mapping[Demand, Demand] = field(default_factory=dict)
    """For demands that were made of another one: of which."""
    held: tuple[Held, ...] = ()
    wake_at: float | None = None
    """When time alone may show that pods which wait for a slot need a new one."""


def place(snapshot: Snapshot, situation: Situation, pods: Pods, policy: Policy) -> Rationed:
    """Place all demands; those of scopes with targets or budgets go through the scope's pools one after the other."""
    batches = [batch for demands in _by_scope(snapshot, pods) for batch in _batches(snapshot, demands, pods)]
    if not batches:
        return Rationed(placed=placement.place(situation, policy), pods=pods)
    taken = {demand for batch in batches for demand in batch.pods}
    free = tuple(demand for demand in situation.demands if demand not in taken)
    whole = [*free, *(demand for batch in batches for demand in batch.whole.values())]
    there = placement.place(dataclasses.replace(situation, demands=tuple(whole), groups=()), policy)
    free_room = _free_room(snapshot, there)
    for batch in batches:
        batch.begin(free_room)
    trials = _Trials(situation)
    while True:
        for batch in batches:
            batch.ask(trials.unfit)
        parts = [part.demand for batch in batches for part in batch.parts]
        placed = placement.place(dataclasses.replace(situation, demands=(*free, *parts)), policy)
        missing = {each.demand: each for each in placed.unplaced}
        if not [batch for batch in batches if batch.goes_on(missing)]:
            return _rationed(placed, pods, batches)


def _by_scope(snapshot: Snapshot, pods: Pods) -> Iterator[list[Demand]]:
    """Yield the demands of each scope that has a target or a budget."""
    found: dict[str, list[Demand]] = {}
    for demand in pods:
        found.setdefault(demand.scope, []).append(demand)
    for scope in sorted(found):
        if scope_pools.rationed(snapshot, scope):
            yield found[scope]


class _Trials:
    """Knows who would not be taken even without a limit: who asks in vain must not crowd out others."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        groups = [(each.key, each.template, each.nodes, each.price_micros, each.refused) for each in situation.groups]
        self._known = _tried("all groups", groups, situation.namespaces)
        if len(self._known) > TRIALS_MAX:
            self._known.clear()

    def unfit(self, demands: Iterable[Demand], stage: scope_pools.Stage) -> Refusals:
        """Return the demands that the pools of a stage would not take."""
        keys = {demand: (stage.tiers, _kind(demand)) for demand in demands}
        said = {key: self._known.get(key, _UNTRIED) for key in keys.values()}  # another thread may forget them now
        new = {key: demand for demand, key in keys.items() if said[key] is _UNTRIED}
        if new:
            tried = self._try(new, stage)
            self._known |= tried
            said |= tried
        return {demand: why for demand, key in keys.items() if (why := said[key]) is not None}

    def _try(self, demands: Mapping[_Alike, Demand], stage: scope_pools.Stage) -> _Answers:
        pools, there = frozenset[str]().union(*stage.tiers), self._situation
        groups = tuple(dataclasses.replace(each, more=_MANY) for each in there.groups if each.key.pool in pools)
        ones = {dataclasses.replace(each, count=1, pools=stage.tiers): key for key, each in demands.items()}
        tried = placement.place(Situation(demands=tuple(ones), groups=groups, namespaces=there.namespaces))
        return {**dict.fromkeys(demands), **{ones[each.demand]: each.rejections for each in tried.unplaced}}


@remembered.RememberedEqual
def _tried(_name: str, _groups: object, _namespaces: object) -> _Answers:
    """Return what was tried while groups are the same but for how many nodes they may get, and namespaces, too."""
    return {}


def _kind(demand: Demand) -> object:
    """Return what decides whether an empty node takes a pod; where rules between pods do, its own self."""
    if demand.shape.affinity is not None or demand.shape.spread:
        return demand
    return demand.shape, demand.zones, frozenset(demand.missed.items())


def _free_room(snapshot: Snapshot, there: Placement) -> Mapping[Demand, list[scope_pools.Free]]:
    """Return the room that demands find without a launch; what was launched first is taken first."""
    found = defaultdict[Demand, list[scope_pools.Free]](list)

    def add(share: Share, pool: str, nodes: int = 1, launched_at: float | None = None) -> None:
        requests, count = share.demand.shape.requests, share.count * nodes
        free = scope_pools.Free(pool=pool, requests=requests, count=count, launched_at=launched_at)
        found[share.demand].append(free)

    for landing in there.landings:
        labels = snapshot.nodes[objects.Key("", landing.room)].meta.labels
        for share in landing.shares:
            add(share, labels.get(keys.INSTANCE_POOL, ""))
    groups = {group.key: group for group in snapshot.groups} if there.expected else {}
    times = {key: iter(supply.launch_times(snapshot, groups[key])) for key in {each.key for each in there.expected}}
    for filling in there.expected:
        for launched_at, nodes in Counter(itertools.islice(times[filling.key], filling.nodes)).items():
            for share in filling.shares:
                add(share, filling.key.pool, nodes, launched_at)
    return found


def _rationed(placed: Placement, pods: Pods, batches: Collection["_Batch"]) -> Rationed:
    made, origins, held = dict(pods), dict[Demand, Demand](), list[Held]()
    for batch in batches:
        left = dict(batch.pods)
        for origin in left:
            made.pop(origin, None)
        for part in batch.parts:
            count = part.demand.count
            made[part.demand], left[part.origin] = left[part.origin][:count], left[part.origin][count:]
            origins[part.demand] = part.origin
        held += [Held(demand=each, pods=rest, rejections=batch.why(each)) for each, rest in left.items() if rest]
    wake_at = clock.earliest(batch.wake_at for batch in batches)
    return Rationed(placed=placed, pods=made, origins=origins, held=tuple(held), wake_at=wake_at)


# Pods of a scope, on their way through its pools


def _batches(snapshot: Snapshot, demands: list[Demand], pods: Pods) -> "Iterator[_Batch]":
    """Yield a scope's pods that wait for nobody, then those that may."""
    scope, tiers = demands[0].scope, demands[0].pools or ()
    scope_budget = scope_pools.ScopeBudget.of(snapshot, scope)
    for may_wait in (False, True):
        chosen = {each: tuple(pod for pod in pods[each] if latency.may_wait(pod) is may_wait) for each in demands}
        chosen = {each: found for each, found in chosen.items() if found}
        if chosen:
            stages = scope_pools.of_scope(snapshot, scope, tiers, may_wait=may_wait)
            yield _Batch(chosen, stages, scope_budget, snapshot.now)


@dataclass(slots=True, kw_only=True)
class _Part:
    """Pods of a demand that may start instances in the pools of a stage."""

    origin: Demand
    demand: Demand
    turn: int


class _Batch:
    """Pods of one scope, all of which may wait for others or none of which may."""

    def __init__(
        self, pods: Pods, turns: list[scope_pools.Stage], scope_budget: scope_pools.ScopeBudget, now: float
    ) -> None:
        self.pods = pods
        self.whole = {origin: dataclasses.replace(origin, count=len(found)) for origin, found in pods.items()}
        self.parts: list[_Part] = []
        self.wake_at: float | None = None
        self._stages = turns
        self._purse = scope_budget
        self._now = now
        self._turn = 0
        self._rest = {origin: sorted(map(_waits_since, found)) for origin, found in pods.items()}
        """Since when the pods wait that no stage so far serves."""
        self._free: dict[Demand, list[scope_pools.Free]] = {}
        self._room: dict[Demand, int] = {}
        """The pods for which there is room or will be, until they are part of what is asked for."""
        self._why: dict[Demand, list[Rejection]] = {origin: [] for origin in pods}
        self._asking = _Asking()

    def begin(self, there: Mapping[Demand, list[scope_pools.Free]]) -> None:
        """Take note of the room that is there or on its way."""
        self._free = {origin: there.get(whole, []) for origin, whole in self.whole.items()}
        self._room = {origin: sum(each.count for each in free) for origin, free in self._free.items()}
        for origin, free in self._free.items():
            if origin.is_endless:
                self._purse.reserve(free)

    def why(self, origin: Demand) -> tuple[Rejection, ...]:
        """Return why pods of a demand were not asked for."""
        return tuple(dict.fromkeys(self._why[origin]))

    def ask(self, unfit: Callable[[Iterable[Demand], scope_pools.Stage], Refusals]) -> None:
        """Ask the next pools that take any of the pods for as much as target and budget say."""
        while self._turn < len(self._stages):
            stage, waiting = self._stages[self._turn], [origin for origin, rest in self._rest.items() if rest]
            refused = unfit(waiting, stage)
            for origin, rejections in refused.items():
                self._why[origin] += rejections
            fitting = [origin for origin in waiting if origin not in refused]
            if fitting:
                self._ask(stage, fitting)
                return
            self._turn += 1
        for origin in [origin for origin, count in self._room.items() if count]:
            self._add(origin, 0, ())

    def goes_on(self, missing: Mapping[Demand, Unplaced]) -> bool:
        """Let flow on what the stage does not serve; False if nothing does, or there is no other pool."""
        if self._turn >= len(self._stages):
            return False
        stage, here = self._stages[self._turn], [part for part in self.parts if part.turn == self._turn]
        lost = {part.origin: missing[part.demand] for part in here if part.demand in missing}
        self._serve(stage, {origin: each.count for origin, each in lost.items()})
        self._turn += 1
        if not any(self._rest.values()) or self._turn >= len(self._stages):
            self._turn = len(self._stages)
            return any(self._room.values())
        for kind, origin in enumerate(self._asking.fitting):
            unused = min(self._asking.given[kind], lost[origin].count) if origin in lost else 0
            self._purse.give_back(stage, unused, is_endless=origin.is_endless)
        for part in here:
            if part.origin in lost:
                self._why[part.origin] += lost[part.origin].rejections
                count = part.demand.count - lost[part.origin].count
                part.demand = dataclasses.replace(part.demand, count=count)
        self.parts = [part for part in self.parts if part.demand.count]
        return True

    def _ask(self, stage: scope_pools.Stage, fitting: list[Demand]) -> None:
        requests = [origin.shape.requests for origin in fitting]
        busy = stage.busy(requests, self._now)
        taken = stage.taken((free for origin in fitting for free in self._free[origin]), requests, self._now)
        rooms = {origin: self._room[origin] for origin in fitting}
        self._asking = _Asking(fitting=tuple(fitting), rooms=rooms, slots=(*busy, *taken))
        found = self._schedule(stage, self._asking)
        given: Counter[int] = Counter()
        for each in found.new:
            given[each.kind] += self._purse.take(stage, each.count, is_endless=fitting[each.kind].is_endless)
        is_cut = given.total() < sum(each.count for each in found.new)
        why = self._reasons(stage, found, busy=len(busy))
        for number, origin in enumerate(fitting):
            self._why[origin] += [*why, *_over_budget(stage, origin)] if is_cut else why
            self._add(origin, given[number], stage.tiers)
        self._asking = dataclasses.replace(self._asking, given=given, is_cut=is_cut, wake_at=found.wake_at)

    def _schedule(
        self, stage: scope_pools.Stage, asking: "_Asking", most: Mapping[int, int] | None = None
    ) -> latency.Schedule:
        """Give slots to the pods that have no room, of each demand those that came last."""
        queued = [
            latency.Queued(kind=number, since=since, count=count)
            for number, origin in enumerate(asking.fitting)
            for since, count in Counter(self._rest[origin][asking.rooms[origin] :]).items()
        ]
        return latency.schedule(queued, asking.slots, stage.target, now=self._now, most=most)

    def _reasons(self, stage: scope_pools.Stage, found: latency.Schedule, *, busy: int) -> list[Rejection]:
        if not found.waiting:
            return []
        waiting = sum(len(self._rest[origin]) for origin in self._asking.fitting)
        patience = latency.Patience(waiting=waiting, slots=waiting - found.waiting, target=stage.target, busy=busy)
        return [Rejection(reason=Reason.PATIENCE, numbers=patience)]

    def _add(self, origin: Demand, more: int, tiers: scope_pools.Tiers) -> None:
        count = self._room[origin] + more
        self._room[origin] = 0
        if count:
            demand = dataclasses.replace(origin, count=count, pools=tiers, turn=self._turn)
            self.parts.append(_Part(origin=origin, demand=demand, turn=self._turn))

    def _serve(self, stage: scope_pools.Stage, lost: Mapping[Demand, int]) -> None:
        """Take those out of the batch that the stage serves, at once or in time."""
        asking, late = self._asking, tuple[latency.Queued, ...]()
        if lost or asking.is_cut:
            most = {kind: max(0, asking.given[kind] - lost.get(each, 0)) for kind, each in enumerate(asking.fitting)}
            gone = {each: max(0, lost.get(each, 0) - asking.given[kind]) for kind, each in enumerate(asking.fitting)}
            rooms = {origin: count - gone[origin] for origin, count in asking.rooms.items()}
            found = self._schedule(stage, dataclasses.replace(asking, rooms=rooms), most)
            late, wake_at = found.late, found.wake_at
        else:
            wake_at = asking.wake_at
        self.wake_at = clock.earliest((self.wake_at, wake_at))
        self._rest |= {origin: [] for origin in asking.fitting}
        for each in late:
            self._rest[asking.fitting[each.kind]] += [each.since] * each.count


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asking:
    """What is asked of the stage whose turn it is."""

    fitting: tuple[Demand, ...] = ()
    """Those that it would take."""
    rooms: Mapping[Demand, int] = field(default_factory=dict)
    """How many pods of each need no new slot."""
    slots: tuple[latency.Slots, ...] = ()
    given: Counter[int] = field(default_factory=Counter)
    """How many new slots are asked for, by the place in `fitting`."""
    is_cut: bool = False
    """Whether a budget allowed less than was wanted."""
    wake_at: float | None = None


def _over_budget(stage: scope_pools.Stage, origin: Demand) -> list[Rejection]:
    """Say how much of the scope's budget one more instance for such pods would take."""
    if stage.budget is None:
        return []
    each = stage.budget.takes(0, is_endless=origin.is_endless)
    return [Rejection(reason=Reason.LIMIT, numbers=dataclasses.replace(stage.budget, each=each))]


def _waits_since(pod: objects.Pod) -> float:
    return pod.meta.created_at if pod.unschedulable_since is None else pod.unschedulable_since
