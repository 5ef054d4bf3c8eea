"""Admission policies: what must happen when an object is written, checked by the API server itself with CEL.

There is no webhook: these hold while the runtime is away. Each policy stands in a module of its own with its twin, the
same rule in Python, which the simulated cluster runs; a test on the real API server holds the two to each other.
"""

from autoscaler.api.manifests import Manifest
from autoscaler.api.policies import (
    daemon_sets,
    exclusive_pools,
    machine_group,
    namespace_scope,
    node_preference,
    placement_gate,
    pool_tolerations,
    writers,
)
from autoscaler.api.policies.base import MutatingPolicy, ValidatingPolicy

Policy = ValidatingPolicy | MutatingPolicy

POLICIES: tuple[Policy, ...] = (
    machine_group.POLICY,
    node_preference.POLICY,
    placement_gate.POLICY,
    pool_tolerations.GRANT,
    pool_tolerations.FOREIGN,
    pool_tolerations.UNFOUNDED,
    daemon_sets.POLICY,
    exclusive_pools.UNOWNED,
    exclusive_pools.LISTED_ELSEWHERE,
    exclusive_pools.LISTS_ANOTHERS,
    namespace_scope.POLICY,
)
"""Those that hold whoever the runtime is."""


def for_runtime(user: str) -> tuple[Policy, ...]:
    """Return all policies, for a runtime that is this user; `writers.account_user` names a ServiceAccount's."""
    return (*POLICIES, *about_runtime(user))


def about_runtime(user: str) -> tuple[ValidatingPolicy, ...]:
    """Return the policies about what only the runtime may do, if it is this user."""
    return (*writers.policies(user), placement_gate.kept_by(user))


def manifests(runtime: str | None = None) -> tuple[Manifest, ...]:
    """Make the objects of all policies: each policy, then its binding. Without a runtime, of those that need none."""
    chosen = POLICIES if runtime is None else for_runtime(runtime)
    return tuple(manifest for policy in chosen for manifest in policy.manifests())
