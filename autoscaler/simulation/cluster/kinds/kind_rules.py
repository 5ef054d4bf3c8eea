"""What the API server does for one built-in kind besides what it does for all: first values and forbidden changes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from autoscaler import clock
from autoscaler.api.manifests import Manifest
from autoscaler.kube import kinds
from autoscaler.kube.kinds import ResourceType
from autoscaler.simulation.cluster import failures, served
from autoscaler.simulation.cluster.failures import Cause
from autoscaler.simulation.cluster.kinds import jobs, nodes, pods, stateful_sets
from autoscaler.simulation.cluster.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What is special about a kind."""

    begin: Callable[[Manifest, Store, float], Manifest] = lambda body, _store, _now: body
    """Complete a new object."""
    carry: Callable[[Manifest, Manifest], Manifest] = lambda new, _old: new
    """Complete an update from what was there before."""
    causes: Callable[[Manifest, Manifest | None], list[Cause]] = lambda _new, _old: []
    """Say what is wrong with an object, or with its change."""


def of(resource: ResourceType) -> Rules:
    return _RULES.get(resource, _NONE)


def _begin_namespace(body: Manifest, _store: Store, _now: float) -> Manifest:
    metadata = body["metadata"]
    labels = {**metadata.get("labels", {}), "kubernetes.io/metadata.name": metadata["name"]}
    return {
        **body,
        "metadata": {**metadata, "labels": labels},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }


def _begin_definition(body: Manifest, _store: Store, now: float) -> Manifest:
    conditions = [
        {
            "type": kind,
            "status": "True",
            "lastTransitionTime": clock.to_rfc3339(now),
            "reason": reason,
            "message": message,
        }
        for kind, reason, message in (
            ("NamesAccepted", "NoConflicts", "no conflicts found"),
            ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        )
    ]
    spec = body["spec"]
    status = {
        "conditions": conditions,
        "acceptedNames": spec["names"],
        "storedVersions": [spec["versions"][0]["name"]],
    }
    finalizers = ["customresourcecleanup.apiextensions.k8s.io"]
    return {**body, "metadata": {**body["metadata"], "finalizers": finalizers}, "status": status}


def _begin_budget(body: Manifest, _store: Store, _now: float) -> Manifest:
    counts = ("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods")
    return {**body, "status": dict.fromkeys(counts, 0)}


def _lease_causes(body: Manifest, _old: Manifest | None) -> list[Cause]:
    spec = body.get("spec") or {}
    return [
        failures.as_cause(f"spec.{name}", f"must be {bound}", value=spec[name])
        for name, least, bound in (
            ("leaseDurationSeconds", 1, "greater than 0"),
            ("leaseTransitions", 0, "greater than or equal to 0"),
        )
        if name in spec and spec[name] < least
    ]


def _without_status(body: Manifest, _store: Store, _now: float) -> Manifest:
    return {name: value for name, value in body.items() if name != "status"}


_NONE: Final = Rules()
_WITHOUT_STATUS: Final = Rules(begin=_without_status)
_RULES: Final[Mapping[ResourceType, Rules]] = {
    **{kind.resource: _WITHOUT_STATUS for kind in served.BUILT_IN if kind.has_status},
    kinds.PODS: Rules(begin=pods.begin, carry=pods.carry, causes=pods.causes),
    kinds.JOBS: Rules(begin=jobs.begin, causes=jobs.causes),
    kinds.STATEFUL_SETS: Rules(begin=stateful_sets.begin, carry=stateful_sets.carry, causes=stateful_sets.causes),
    kinds.NODES: Rules(begin=nodes.begin),
    kinds.NAMESPACES: Rules(begin=_begin_namespace),
    kinds.DEFINITIONS: Rules(begin=_begin_definition),
    kinds.DISRUPTION_BUDGETS: Rules(begin=_begin_budget),
    kinds.LEASES: Rules(causes=_lease_causes),
}
