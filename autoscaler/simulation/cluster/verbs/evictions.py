"""Eviction: a deletion that disruption budgets may forbid."""

from typing import Final

from autoscaler import clock
from autoscaler.api.manifests import Manifest
from autoscaler.clock import Clock
from autoscaler.kube import kinds
from autoscaler.simulation.cluster import failures
from autoscaler.simulation.cluster.kinds import conditions, pods
from autoscaler.simulation.cluster.store import Entry, Key, Store
from autoscaler.simulation.cluster.verbs import budgets, deletes
from autoscaler.simulation.cluster.verbs.writes import STATUS, Manner, Writes

_FORBIDDEN: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_MESSAGE: Final = "Eviction API: evicting"


class Evictions:
    """Deletes pods as far as their budgets allow."""

    def __init__(self, *, store: Store, writes: Writes, deletes: deletes.Deletes, clock: Clock) -> None:
        self._store = store
        self._writes = writes
        self._deletes = deletes
        self._clock = clock

    def evict(self, key: Key, eviction: Manifest, manner: Manner) -> None:
        """Delete a pod unless its budget forbids it; what was allowed is taken off the budget at once."""
        entry = self._store.find(kinds.PODS, key)
        if entry is None:
            raise failures.not_found(kinds.PODS, key.name)
        if not _needs_no_budget(entry.object):
            self._ask_budget(entry.object, manner)
            now = self._clock.now()
            self._writes.update(kinds.PODS, key, lambda old: _marked(old, now), manner=manner, subresource=STATUS)
        options = deletes.options_of(eviction.get("deleteOptions") or {}, {})
        self._deletes.delete(kinds.PODS, key, options, manner)

    def _ask_budget(self, pod: Manifest, manner: Manner) -> None:
        matching = budgets.of_pod(self._store, pod)
        if len(matching) > 1:
            why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
            raise failures.Refusal(500, "InternalError", why)
        if matching:
            self._take(matching[0], pod, manner)

    def _take(self, budget: Entry, pod: Manifest, manner: Manner) -> None:
        body = budget.object
        status, metadata = body.get("status") or {}, body["metadata"]
        name, healthy, desired = metadata["name"], status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
        if not pods.is_ready(pod) and _spares_unhealthy(body, healthy, desired):
            return
        if status.get("observedGeneration", 0) < metadata["generation"]:
            raise _too_many(f"The disruption budget {name} is still being processed by the server.")
        if status.get("disruptionsAllowed", 0) <= 0:
            raise _too_many(f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently")
        disrupted = status.get("disruptedPods") or {}
        now = clock.to_rfc3339(self._clock.now())
        taken = {
            **status,
            "disruptionsAllowed": status["disruptionsAllowed"] - 1,
            "disruptedPods": {**disrupted, pod["metadata"]["name"]: now},
        }
        key = Key(metadata["namespace"], name)
        self._writes.update(
            kinds.DISRUPTION_BUDGETS, key, lambda old: {**old, "status": taken}, manner=manner, subresource=STATUS
        )


def _needs_no_budget(pod: Manifest) -> bool:
    return pod["status"]["phase"] in {*pods.TERMINAL, "Pending"} or "deletionTimestamp" in pod["metadata"]


def _spares_unhealthy(budget: Manifest, healthy: int, desired: int) -> bool:
    """A pod that is not ready may go while the others satisfy the budget, or always if the budget says so."""
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    return healthy >= desired > 0


def _marked(pod: Manifest, now: float) -> Manifest:
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastTransitionTime": clock.to_rfc3339(now),
        "reason": "EvictionByEvictionAPI",
        "message": _MESSAGE,
    }
    return conditions.put(pod, condition)


def _too_many(why: str) -> failures.Refusal:
    cause = {"reason": "DisruptionBudget", "message": why}
    return failures.Refusal(429, "TooManyRequests", _FORBIDDEN, details={"causes": [cause]})
