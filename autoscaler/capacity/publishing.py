"""What InstancePools say about themselves: their groups, their instances, and what is wrong. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from autoscaler import clock
from autoscaler.api import conditions
from autoscaler.api.manifests import Manifest
from autoscaler.api.resources.pools import NODE_GROUPS_MAX, InstancePool
from autoscaler.api.resources.scopes import Scope
from autoscaler.capacity import budgets, offers, templates
from autoscaler.capacity.accounting import Durations, MonthToDate, ScopePool
from autoscaler.capacity.snapshot import Snapshot
from autoscaler.cloud import port as cloud

READY: Final = "Ready"
WITHIN_BUDGET: Final = "WithinBudget"
STEP_SECONDS: Final = 60
"""What is used is written in steps of at least so much."""
CPU: Final = "cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Month:
    """What was used this month, and what the budgets say to it."""

    to_date: MonthToDate
    limits: tuple[budgets.Budget, ...] = ()


def changes(pool: InstancePool, snapshot: Snapshot, month: Month, problem: str | None) -> Manifest:
    """Return the fields of a pool's status that must be written; empty if it says all this already.

    `problem` is why the pool's account cannot be used; None: it can.
    """
    written = pool.status.model_dump(mode="json", by_alias=True, exclude_none=True)
    name = pool.metadata.name
    groups = [group for group in snapshot.groups if group.key.pool == name]
    said = [_ready(pool, groups, problem, snapshot.now)]
    own = [each for each in month.limits if each.pool == name and each.scope is None]
    said += [_budget(pool, each, snapshot.now) for each in own[:1]]
    wanted: dict[str, Any] = {
        "activeInstances": offers.active(snapshot, name),
        "conditions": said,
        **_used(name, month, written),
    }
    if problem is None:  # of an account that cannot be read, what was read last stands
        wanted["nodeGroups"] = [_group(snapshot, group) for group in groups[:NODE_GROUPS_MAX]]
    return {key: value for key, value in wanted.items() if written.get(key) != value}


def scope_changes(scope: Scope, month: Month, pending: int, durations: Mapping[ScopePool, Durations]) -> Manifest:
    """Return the fields of a scope's status that must be written; empty if it says all this already."""
    written = scope.status.model_dump(mode="json", by_alias=True, exclude_none=True)
    before = {each.name: each for each in scope.status.pools}
    pools = []
    for entry in scope.spec.pools:
        key = ScopePool(scope.metadata.name, entry.name)
        known, old = durations.get(key), before.get(entry.name)
        stated: dict[str, Any] = {
            "name": entry.name,
            "secondsThisMonth": _steady(month.to_date.scopes.get(key, 0), old.seconds_this_month if old else None),
            "samples": known.samples if known else old.samples if old else 0,
        }
        mean = known.mean_seconds if known else old.mean_duration_seconds if old else None
        pools.append({**stated, **({} if mean is None else {"meanDurationSeconds": mean})})
    wanted = {"pending": pending, "month": month.to_date.month, "pools": pools}
    return {key: value for key, value in wanted.items() if written.get(key) != value}


def durations_of(scopes: Iterable[Scope]) -> dict[ScopePool, Durations]:
    """Return how long pods run, as scopes remember it."""
    return {
        ScopePool(scope.metadata.name, each.name): Durations(
            mean_seconds=each.mean_duration_seconds, samples=each.samples
        )
        for scope in scopes
        for each in scope.status.pools
        if each.samples
    }


def _used(pool: str, month: Month, written: Mapping[str, Any]) -> Manifest:
    """Return what a pool has used this month; small steps are not worth a write."""
    before = written.get("secondsThisMonth") if written.get("month") == month.to_date.month else None
    used: Manifest = {
        "month": month.to_date.month,
        "secondsThisMonth": _steady(month.to_date.seconds.get(pool, 0), before),
    }
    cost = month.to_date.cost_micros.get(pool, 0)
    if cost and used["secondsThisMonth"] != before:
        used["costThisMonth"] = f"{cost // 1_000_000}.{cost % 1_000_000 // 10_000:02d}"
    return used


def _steady(now: int, before: int | None) -> int:
    return before if before is not None and before <= now < before + STEP_SECONDS else now


def _budget(pool: InstancePool, budget: budgets.Budget, now: float) -> Manifest:
    holds = budget.state is budgets.State.WITHIN
    message = "" if holds else f"{budget.kind}: {budget.limit} a month"
    before = pool.status.conditions
    return conditions.written(WITHIN_BUDGET, holds=holds, reason=budget.state, message=message, before=before, now=now)


def quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    """Write amounts as Kubernetes does."""
    return {name: f"{amount}m" if name == CPU else str(amount) for name, amount in sorted(amounts.items())}


def _group(snapshot: Snapshot, group: cloud.NodeGroup) -> Manifest:
    template = templates.of(snapshot, group)
    unavailable = snapshot.unavailable.get(group.key)
    refused = offers.refusal(snapshot, group, template)
    stated: Manifest = {
        "name": group.name,
        "zone": group.key.zone,
        "instanceType": group.key.instance_type,
        "minimum": group.minimum,
        "maximum": group.maximum,
        "desired": group.desired,
        "instances": len(group.members),
        "allocatable": quantities(template.allocatable) if template else {},
        "labels": dict(sorted(template.labels.items())) if template else {},
        "taints": [taint.model_dump(mode="json", by_alias=True) for taint in group.node.taints],
    }
    if unavailable is not None and unavailable.until > snapshot.now:
        stated["unavailableUntil"] = clock.to_rfc3339(unavailable.until)
        stated["reason"] = f"{unavailable.reason}: {unavailable.message}"[: conditions.MESSAGE_MAX]
    elif refused is not None:
        stated["reason"] = refused[: conditions.MESSAGE_MAX]
    return stated


def _ready(pool: InstancePool, groups: list[cloud.NodeGroup], problem: str | None, now: float) -> Manifest:
    if problem is not None:
        said = (False, "AccountUnusable", problem)
    elif not groups:
        said = (
            False,
            "NoNodeGroups",
            f"no Auto Scaling group is tagged for this cluster and pool {pool.metadata.name}",
        )
    elif not pool.spec.enabled:
        said = (True, "Disabled", "nothing is asked for; what runs goes on")
    else:
        said = (True, "Usable", "")
    holds, reason, message = said
    before = pool.status.conditions
    return conditions.written(READY, holds=holds, reason=reason, message=message, before=before, now=now)
