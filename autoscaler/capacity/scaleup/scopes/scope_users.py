"""Who uses a scope, and which scopes are held for it. Pure.

A scope is used by the namespaces whose label names it. While one does, a deleted scope stays in force: without it their
pods would lose its order of pools, its targets and its budgets. Pools that are for one scope alone are told, but hold
nothing: a stack deletes scopes before pools. When the whole stack leaves nothing is started any more, so nothing is
held; nor is anything without the drain object, since nobody would say then that the stack leaves.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from autoscaler.api import conditions, keys
from autoscaler.api.manifests import Manifest
from autoscaler.api.resources.base import Condition
from autoscaler.api.resources.pools import InstancePool
from autoscaler.api.resources.scopes import IN_USE, Scope
from autoscaler.capacity.snapshot import ScopeUse, Snapshot
from autoscaler.kube import objects

NAMED_MAX: Final = 3
"""So many namespaces or pools are told by name."""


class Reason(StrEnum):
    """What the condition InUse says."""

    NAMESPACES = "Namespaces"
    """Namespaces use it: its deletion would wait for them."""
    POOLS = "Pools"
    """Only pools are left that are for this scope alone."""
    DELETION_HELD = "DeletionHeld"
    """It is being deleted, and in force until no namespace uses it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Which scopes get our finalizer, and which lose it."""

    held: tuple[str, ...] = ()
    let_go: tuple[str, ...] = ()


NOTHING: Final = Plan()


def uses(
    scopes: Mapping[objects.Key, objects.Custom[Scope]],
    namespaces: Mapping[objects.Key, objects.Simple],
    pools: Mapping[objects.Key, objects.Custom[InstancePool]],
) -> dict[str, ScopeUse]:
    """Return who uses each scope."""
    labelled = _by_scope(namespaces.values())
    alone = _by_scope(pool for pool in pools.values() if not pool.resource.spec.instance_wide)
    return {
        key.name: ScopeUse(
            namespaces=labelled.get(key.name, ()),
            pools=alone.get(key.name, ()),
            is_held=keys.FINALIZER in scope.meta.finalizers,
            deleted_at=scope.meta.deleted_at,
        )
        for key, scope in scopes.items()
    }


def decide(snapshot: Snapshot) -> Plan:
    """Hold scopes that namespaces use; let go of the others, and of all once the stack leaves."""
    held, let_go = [], []
    for name, use in sorted(snapshot.scope_use.items()):
        must_hold = bool(use.namespaces) and snapshot.may_hold_scopes
        if must_hold and not use.is_held and use.deleted_at is None:
            held.append(name)
        elif use.is_held and not must_hold:
            let_go.append(name)
    return Plan(held=tuple(held), let_go=tuple(let_go))


def reason(use: ScopeUse) -> Reason | None:
    """Say in a word how a scope is used; None: by nobody."""
    if use.namespaces:
        return Reason.DELETION_HELD if use.deleted_at is not None and use.is_held else Reason.NAMESPACES
    return Reason.POOLS if use.pools else None


def message(use: ScopeUse) -> str:
    """Say who uses a scope, and what that means for its deletion."""
    named = (("namespaces", use.namespaces), ("pools of this scope alone", use.pools))
    users = "; ".join(f"{what}: {_some(who)}" for what, who in named if who)
    if reason(use) is not Reason.DELETION_HELD:
        return users
    held = f"it is being deleted, and stays in force until no namespace has the label {keys.SCOPE} with its name"
    return f"{held}; {users}"


def conditions_of(use: ScopeUse, before: Iterable[Condition], now: float) -> list[Manifest]:
    """Write who uses a scope; nothing where nobody does."""
    why = reason(use)
    if why is None:
        return []
    return [conditions.written(IN_USE, holds=True, reason=why, message=message(use), before=before, now=now)]


def _by_scope(labelled: Iterable[objects.Stored]) -> dict[str, tuple[str, ...]]:
    """Return the names of what is labelled with each scope and stays, in order."""
    found: dict[str, list[str]] = {}
    for each in labelled:
        if each.meta.deleted_at is None and (scope := each.meta.labels.get(keys.SCOPE)):
            found.setdefault(scope, []).append(each.meta.key.name)
    return {scope: tuple(sorted(names)) for scope, names in found.items()}


def _some(names: Sequence[str]) -> str:
    more = len(names) - NAMED_MAX
    return ", ".join(names[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
