"""Admission policies: what must happen when an object is written, checked by the API server itself with CEL.

There is no webhook: these hold while the runtime is away. Each policy stands in a module of its own with its twin, the
same rule in Python, which the simulated cluster runs; a test on the real API server holds the two to each other.
"""

from dataclasses import dataclass, field

from autoscaler.api.manifests import Manifest
from autoscaler.api.policies import identities, leaving, pod_stamps, writers
from autoscaler.api.policies.base import MutatingPolicy, ValidatingPolicy
from autoscaler.api.policies.jobs import job_gates, job_queue, redis_cleanup, workloads
from autoscaler.api.policies.machines import (
    machine_group,
    machine_guests,
    machine_injection,
    machine_keepers,
    machine_known,
)
from autoscaler.api.policies.pools import (
    daemon_sets,
    exclusive_pools,
    namespace_scope,
    node_preference,
    placement_gate,
    pool_tolerations,
)

Policy = ValidatingPolicy | MutatingPolicy

_JOBS: tuple[Policy, ...] = (job_gates.JOB, job_gates.RAY_CLUSTER, job_queue.JOB, job_queue.RAY_CLUSTER)
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
    *_JOBS,
    redis_cleanup.POLICY,
    machine_guests.LABELS,
    machine_guests.BINDINGS,
    machine_guests.SIZE,
    machine_guests.HALF,
)
"""Those that hold whoever the runtime is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """Who the runtime is to the API server, and who may end it."""

    namespace: str
    service_account: str
    deployers: leaving.Deployers = field(default_factory=leaving.Deployers)

    @property
    def user(self) -> str:
        return identities.account_user(self.namespace, self.service_account)


def for_runtime(runtime: Runtime) -> tuple[Policy, ...]:
    """Return all policies, for this runtime."""
    return (*POLICIES, *about_runtime(runtime))


def about_runtime(runtime: Runtime) -> tuple[Policy, ...]:
    """Return the policies about what this runtime keeps and only it may do, and about who may end it."""
    return (
        *about_guests(runtime.namespace),
        machine_keepers.sleepers(runtime.namespace),
        machine_keepers.catalogue(runtime.user, runtime.namespace),
        *writers.policies(runtime.user),
        workloads.kept_by(runtime.user),
        placement_gate.kept_by(runtime.user),
        pod_stamps.kept_by(runtime.user),
        leaving.policy(runtime.namespace, runtime.deployers),
    )


def about_guests(namespace: str) -> tuple[Policy, ...]:
    """Return the policies by which guests wait for a machine, for a runtime that keeps its catalogue here."""
    return (
        machine_injection.policy(namespace),
        machine_known.policy(namespace),
        machine_guests.made_in_order(namespace),
    )


def about_jobs(user: str) -> tuple[Policy, ...]:
    """Return the policies that hold queued jobs to their quota, for a runtime that is this user."""
    return (
        *_JOBS,
        *(policy for policy in writers.policies(user) if policy.match.resources == ("workloads",)),
        workloads.kept_by(user),
        placement_gate.kept_by(user),
        pod_stamps.kept_by(user),
    )


def manifests(runtime: Runtime | None = None) -> tuple[Manifest, ...]:
    """Make the objects of all policies: each policy, then its binding. Without a runtime, of those that need none."""
    chosen = POLICIES if runtime is None else for_runtime(runtime)
    return tuple(manifest for policy in chosen for manifest in policy.manifests())
