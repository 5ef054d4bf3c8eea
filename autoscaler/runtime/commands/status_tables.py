"""The state of the whole system as tables, and what is wrong. Pure: objects in, rows out."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from autoscaler import clock, units
from autoscaler.api import conditions, keys, resources
from autoscaler.api.resources.base import Condition, ConditionStatus
from autoscaler.control import plans
from autoscaler.kube import objects

VERSION: Final = 1
_GOOD: Final = frozenset({"Ready", "Active", "WithinBudget", "NodesReady"})
"""Conditions that tell of trouble where they do not hold."""
_BAD: Final = frozenset({"RoomMissing", conditions.RUNTIME_PAUSED})
"""Conditions that tell of trouble where they hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was read of a cluster; what could not be is named in `unread`."""

    at: float
    leaders: tuple[str, ...] = ()
    worker_pools: tuple[objects.Custom[resources.WorkerPool], ...] = ()
    pools: tuple[objects.Custom[resources.InstancePool], ...] = ()
    scopes: tuple[objects.Custom[resources.Scope], ...] = ()
    accounts: tuple[objects.Custom[resources.ProviderAccount], ...] = ()
    queues: tuple[objects.Custom[resources.ClusterQueue], ...] = ()
    machines: tuple[objects.Custom[resources.Machine], ...] = ()
    waiting: tuple[objects.Pod, ...] = ()
    """Pods without a node."""
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Their labels."""
    unread: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One table: a name for programs, a title for people."""

    name: str
    title: str
    fields: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


def text(seen: Seen) -> str:
    """Write the state for people."""
    lines = [f"{clock.to_rfc3339(seen.at)}, led by {', '.join(seen.leaders) or 'nobody: does the runtime run?'}"]
    for section in sections(seen):
        if section.rows:
            head = tuple(_spaced(name).upper() for name in section.fields)
            rows = [head, *(tuple(_shown(cell) for cell in row) for row in section.rows)]
            lines += ["", section.title, *plans.table(rows)]
    trouble = list(_trouble(seen))
    readable = " with what could be read" if seen.unread else ""
    lines += ["", "What is wrong"] if trouble else ["", f"Nothing is wrong{readable}, as far as statuses say."]
    lines += [plans.wrapped(f"{kind} {name}: {reason}: {message}") for kind, name, reason, message in trouble]
    lines += [plans.wrapped(f"Not read: {each}") for each in seen.unread]
    return "\n".join(lines)


def as_json(seen: Seen) -> str:
    """Write the state for programs."""
    tables = {
        section.name: [dict(zip(section.fields, row, strict=True)) for row in section.rows]
        for section in sections(seen)
    }
    names = ("kind", "name", "reason", "message")
    told: dict[str, Any] = {
        "version": VERSION,
        "at": clock.to_rfc3339(seen.at),
        "leaders": list(seen.leaders),
        **tables,
        "trouble": [dict(zip(names, each, strict=True)) for each in _trouble(seen)],
        "unread": list(seen.unread),
    }
    return json.dumps(told, indent=2)


def sections(seen: Seen) -> Iterator[Section]:
    """Yield all tables, empty ones too."""
    yield _worker_pools(seen.worker_pools)
    yield _pools(seen.pools)
    yield _scopes(seen)
    yield _queues(seen.queues)
    yield _machines(seen.machines)


def _worker_pools(pools: Iterable[objects.Custom[resources.WorkerPool]]) -> Section:
    rows = [
        (
            f"{pool.meta.key.namespace}/{pool.meta.key.name}",
            pool.resource.status.queue_size,
            pool.resource.status.running_workers,
            pool.resource.status.pending_workers,
            pool.resource.status.failed_workers,
            pool.resource.spec.pool_capacity,
            str(pool.resource.spec.status),
        )
        for pool in pools
    ]
    fields = ("pool", "queued", "running", "pending", "failed", "capacity", "status")
    return Section(name="workerPools", title="Worker pools", fields=fields, rows=tuple(rows))


def _pools(pools: Iterable[objects.Custom[resources.InstancePool]]) -> Section:
    rows = [
        (
            pool.meta.key.name,
            pool.resource.status.active_instances,
            pool.resource.spec.limits.max_active_instances,
            _hours(pool.resource.status.seconds_this_month),
            _hours(pool.resource.spec.limits.target_max_seconds_per_month),
            pool.resource.status.cost_this_month,
            pool.resource.spec.limits.target_max_cost_per_month,
        )
        for pool in pools
    ]
    fields = ("pool", "instances", "atMost", "monthHours", "ofHours", "monthCost", "ofCost")
    return Section(name="instancePools", title="Instance pools", fields=fields, rows=tuple(rows))


def _scopes(seen: Seen) -> Section:
    """Say who waits for nodes, and since when; pods of namespaces without a scope are in a row of their own."""
    known = [scope.meta.key.name for scope in seen.scopes]
    found: dict[str, list[objects.Pod]] = {name: [] for name in known}
    for pod in seen.waiting:
        scope = seen.namespaces.get(pod.meta.key.namespace, {}).get(keys.SCOPE, "")
        found.setdefault(scope if scope in known else "", []).append(pod)
    used = {
        scope.meta.key.name: sum(pool.seconds_this_month for pool in scope.resource.status.pools)
        for scope in seen.scopes
    }
    rows = [
        (
            name or "none",
            sum(not pod.gates for pod in pods),
            sum(bool(pod.gates) for pod in pods),
            units.duration(max(0, seen.at - min(pod.meta.created_at for pod in pods))) if pods else None,
            _hours(used.get(name)),
        )
        for name, pods in found.items()
    ]
    fields = ("scope", "podsWaiting", "behindGates", "oldest", "monthHours")
    return Section(name="scopes", title="Scopes, and pods without a node", fields=fields, rows=tuple(rows))


def _queues(queues: Iterable[objects.Custom[resources.ClusterQueue]]) -> Section:
    rows = [
        (
            queue.meta.key.name,
            queue.resource.spec.cohort,
            queue.resource.status.pending,
            queue.resource.status.admitted,
            _usage(queue.resource) or None,
        )
        for queue in queues
    ]
    fields = ("queue", "cohort", "waiting", "admitted", "used")
    return Section(name="clusterQueues", title="ClusterQueues", fields=fields, rows=tuple(rows))


def _usage(queue: resources.ClusterQueue) -> str:
    """Say how much of each quota is used: `cpu 12 of 32`."""
    nominal = {
        (flavor.name, each.name): each.nominal_quota
        for group in queue.spec.resource_groups
        for flavor in group.flavors
        for each in flavor.resources
    }
    used = {(flavor.name, each.name): each.total for flavor in queue.status.usage for each in flavor.resources}
    return ", ".join(f"{name} {used.get((flavor, name), '0')} of {most}" for (flavor, name), most in nominal.items())


def _machines(machines: Iterable[objects.Custom[resources.Machine]]) -> Section:
    rows = [
        (
            machine.meta.key.name,
            each.name,
            each.usage.maximum,
            each.usage.reserved,
            each.usage.used,
            each.usage.waiting,
        )
        for machine in machines
        for each in machine.resource.status.available_machines
    ]
    fields = ("group", "type", "machines", "free", "used", "waiting")
    return Section(name="machines", title="Machines", fields=fields, rows=tuple(rows))


def _trouble(seen: Seen) -> Iterator[tuple[str, str, str, str]]:
    """Yield what conditions say is wrong: kind, name, reason and message."""
    kinds: Sequence[tuple[str, Iterable[Any]]] = (
        ("workerpool", seen.worker_pools),
        ("instancepool", seen.pools),
        ("scope", seen.scopes),
        ("provideraccount", seen.accounts),
        ("clusterqueue", seen.queues),
        ("machine", seen.machines),
    )
    for kind, found in kinds:
        for each in found:
            place = f"{each.meta.key.namespace}/" if each.meta.key.namespace else ""
            wrong = filter(_is_trouble, each.resource.status.conditions)
            yield from ((kind, f"{place}{each.meta.key.name}", one.reason, one.message) for one in wrong)


def _is_trouble(condition: Condition) -> bool:
    if condition.type in _BAD:
        return condition.status is ConditionStatus.TRUE
    return condition.type in _GOOD and condition.status is ConditionStatus.FALSE


def _hours(seconds: int | None) -> float | None:
    return None if seconds is None else round(seconds / 3600, 1)


def _shown(cell: object) -> str:
    if cell is None:
        return "-"
    return f"{cell:,}" if isinstance(cell, int | float) else str(cell)


def _spaced(name: str) -> str:
    """Write a field's name as words."""
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name)
