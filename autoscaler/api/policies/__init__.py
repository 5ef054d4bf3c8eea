"""Admission policies: what must happen when an object is written, checked by the API server itself with CEL.

There is no webhook: these hold while the runtime is away. Each policy stands in a module of its own with its twin, the
same rule in Python, which the simulated cluster runs; a test on the real API server holds the two to each other.
"""

from autoscaler.api.manifests import Manifest
from autoscaler.api.policies import machine_group
from autoscaler.api.policies.base import MutatingPolicy, ValidatingPolicy

POLICIES: tuple[ValidatingPolicy | MutatingPolicy, ...] = (machine_group.POLICY,)


def manifests() -> tuple[Manifest, ...]:
    """Make the objects of all policies: each policy, then its binding."""
    return tuple(manifest for policy in POLICIES for manifest in policy.manifests())
