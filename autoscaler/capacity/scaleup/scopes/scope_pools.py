"""The pools of a scope, in the order in which its waiting pods try them, with what each may do for it. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from autoscaler.api import keys
from autoscaler.api.resources.scopes import ScopePool
from autoscaler.capacity import work
from autoscaler.capacity.model import Limit
from autoscaler.capacity.records import accounting
from autoscaler.capacity.scaleup import supply
from autoscaler.capacity.scaleup.limits import budgets, offers
from autoscaler.capacity.scaleup.scopes import latency
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.kube import objects

Tiers = tuple[frozenset[str], ...]
Requests = Mapping[str, int]
NO_TARGET: Final = latency.Target()


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A pod that runs and ends by itself."""

    requests: Requests
    began_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Free:
    """Room for pods that wait, on nodes that are there or on their way."""

    pool: str
    requests: Requests
    count: int
    launched_at: float | None = None
    """None: the node is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Pools that are tried together."""

    tiers: Tiers
    target: latency.Target = NO_TARGET
    budget: Limit | None = None
    """The scope's own in this pool."""
    running: tuple[Running, ...] = ()
    """The scope's pods that run there."""

    @property
    def is_plain(self) -> bool:
        """Tell whether it has neither target nor budget."""
        return self.budget is None and self.target == NO_TARGET

    def busy(self, coming: Iterable[Requests], now: float) -> list[latency.Slots]:
        """Return the slots of running pods that any of those that come can take."""
        largest = _largest(coming)
        suiting = [each for each in self.running if latency.makes_room(each.requests, (largest,))]
        return [latency.busy(each.began_at, self.target, now) for each in suiting]

    def taken(self, free: Iterable[Free], coming: Iterable[Requests], now: float) -> list[latency.Slots]:
        """Return the same of pods that have yet to begin, in room that is there or on its way."""
        largest, boot = _largest(coming), self.target.boot_seconds
        return [
            latency.taken(now if each.launched_at is None else each.launched_at + boot, self.target, now, each.count)
            for each in free
            if any(each.pool in tier for tier in self.tiers) and latency.makes_room(each.requests, (largest,))
        ]


@dataclass(slots=True, kw_only=True)
class ScopeBudget:
    """What is left of a scope's budgets, by pool."""

    limits: Mapping[str, Limit] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, snapshot: Snapshot, scope: str) -> "ScopeBudget":
        found = budgets.scope_limits(offers.monthly(snapshot))
        limits = {key.pool: budget for key, budget in found.items() if key.scope == scope}
        return cls(limits=limits, left={pool: budget.left for pool, budget in limits.items()})

    def take(self, stage: Stage, wanted: int, *, is_endless: bool) -> int:
        """Take as many instances as are wanted and affordable."""
        if stage.budget is None:
            return wanted
        pool, each = stage.budget.pool, stage.budget.takes(0, is_endless=is_endless)
        taken = min(wanted, max(0, self.left[pool]) // each)
        self.left[pool] -= taken * each
        return taken

    def give_back(self, stage: Stage, unused: int, *, is_endless: bool) -> None:
        """Take back what was not used."""
        if stage.budget is not None:
            self.left[stage.budget.pool] += unused * stage.budget.takes(0, is_endless=is_endless)

    def reserve(self, free: Iterable[Free]) -> None:
        """Take off what pods that do not end will use of room that is there or on its way."""
        for each in free:
            limit = self.limits.get(each.pool)
            if limit is not None:
                self.left[each.pool] -= each.count * (limit.takes(0, is_endless=True) - limit.takes(0))


def rationed(snapshot: Snapshot, scope: str) -> dict[str, ScopePool]:
    """Return a scope's pools that have a target or a budget."""
    found = snapshot.scopes.get(scope)
    return {
        entry.name: entry
        for entry in (found.pools if found is not None else ())
        if entry.name in snapshot.pools
        and (entry.limits.target_latency_seconds is not None or entry.limits.target_max_seconds_per_month is not None)
    }


def of_scope(snapshot: Snapshot, scope: str, tiers: Tiers, *, may_wait: bool) -> list[Stage]:
    """Return a scope's pools in order; those with neither target nor budget stay together in their tiers.

    Targets are for pods that may wait; budgets are for all.
    """
    entries = rationed(snapshot, scope)
    limits = budgets.scope_limits(offers.monthly(snapshot))
    running = _running(snapshot, scope) if may_wait else {}
    found: list[Stage] = []
    for tier in tiers:
        found += [
            Stage(
                tiers=(frozenset({name}),),
                target=_target(snapshot, scope, entries[name]) if may_wait else NO_TARGET,
                budget=limits.get(accounting.ScopePool(scope, name)),
                running=tuple(running.get(name, ())),
            )
            for name in sorted(tier & entries.keys())
        ]
        others = tier.difference(entries)
        if others and found and found[-1].is_plain:
            found[-1] = Stage(tiers=(*found[-1].tiers, others))
        elif others:
            found.append(Stage(tiers=(others,)))
    return found


def _target(snapshot: Snapshot, scope: str, entry: ScopePool) -> latency.Target:
    pool, known = snapshot.pools[entry.name], snapshot.durations.get(accounting.ScopePool(scope, entry.name))
    instances = [each for each in snapshot.instances if each.spec.pool == entry.name]
    return latency.Target(
        target_seconds=entry.limits.target_latency_seconds,
        boot_seconds=latency.boot_seconds(instances, snapshot.by_provider, pool.registration_timeout_seconds),
        duration_seconds=known.mean_seconds if known is not None else None,
        is_ephemeral=pool.ephemeral,
    )


def _largest(coming: Iterable[Requests]) -> Requests:
    """Return the most that any pod requests of each resource."""
    largest: dict[str, int] = {}
    for each in coming:
        largest |= {name: max(amount, largest.get(name, 0)) for name, amount in each.items()}
    return largest


def _running(snapshot: Snapshot, scope: str) -> dict[str, list[Running]]:
    """Return by pool the scope's pods that will make room when they end."""
    namespaces = {name for name, labels in snapshot.namespaces.items() if labels.get(keys.SCOPE) == scope}
    found: dict[str, list[Running]] = {}
    for node in snapshot.nodes.values():
        pool = node.meta.labels.get(keys.INSTANCE_POOL)
        if pool is None or not supply.is_usable(node):
            continue
        for pod in snapshot.indexed.by_node.get(node.meta.key.name, ()):
            if pod.node_name and pod.meta.key.namespace in namespaces and _ends(pod):
                began_at = next((at for at in (pod.started_at, pod.bound_at) if at is not None), snapshot.now)
                found.setdefault(pool, []).append(Running(requests=pod.shape.requests, began_at=began_at))
    return found


def _ends(pod: objects.Pod) -> bool:
    owner = pod.meta.controller
    return owner is not None and owner.kind in work.FINITE and work.is_work(pod)
