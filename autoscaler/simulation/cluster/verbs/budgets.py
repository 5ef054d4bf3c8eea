"""Disruption budgets: how many pods may be taken away now, kept current as pods come, go and change."""

from autoscaler.api.manifests import Manifest
from autoscaler.kube import kinds
from autoscaler.simulation.cluster import selectors, served
from autoscaler.simulation.cluster.kinds import pods
from autoscaler.simulation.cluster.store import Entry, Store
from autoscaler.simulation.cluster.verbs import scales


def of_pod(store: Store, pod: Manifest) -> list[Entry]:
    """Return the budgets that a pod falls under."""
    labels = pod["metadata"].get("labels") or {}
    found = store.collection(kinds.DISRUPTION_BUDGETS).within(pod["metadata"]["namespace"])
    return [entry for _, entry in sorted(found) if selectors.labels_match(entry.object["spec"].get("selector"), labels)]


def status(store: Store, registry: served.Registry, budget: Manifest) -> Manifest:
    """Return what a budget's status should say."""
    metadata, spec, old = budget["metadata"], budget["spec"], budget.get("status") or {}
    guarded = _pods(store, budget)
    disrupted = {
        name: since
        for name, since in (old.get("disruptedPods") or {}).items()
        if any(pod["metadata"]["name"] == name and "deletionTimestamp" not in pod["metadata"] for pod in guarded)
    }
    healthy = sum(
        pods.is_ready(pod) and "deletionTimestamp" not in pod["metadata"] and pod["metadata"]["name"] not in disrupted
        for pod in guarded
    )
    expected, desired = _wanted(store, registry, spec, guarded)
    allowed = max(healthy - desired, 0) if expected else 0
    fresh = {
        "observedGeneration": metadata["generation"],
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
    }
    return {**fresh, "disruptedPods": disrupted} if disrupted else fresh


def _pods(store: Store, budget: Manifest) -> list[Manifest]:
    selector = budget["spec"].get("selector")
    return [
        entry.object
        for _, entry in store.collection(kinds.PODS).within(budget["metadata"]["namespace"])
        if selectors.labels_match(selector, entry.object["metadata"].get("labels") or {})
    ]


def _wanted(store: Store, registry: served.Registry, spec: Manifest, guarded: list[Manifest]) -> tuple[int, int]:
    """Return how many pods there should be, and how many of them must stay healthy."""
    if "maxUnavailable" in spec:
        expected = _scale_of_owners(store, registry, guarded)
        return expected, max(expected - _amount(spec["maxUnavailable"], expected), 0)
    least = spec.get("minAvailable", 1)
    if isinstance(least, int):
        return len(guarded), least
    expected = _scale_of_owners(store, registry, guarded)
    return expected, _amount(least, expected)


def _amount(value: int | str, whole: int) -> int:
    """Read a number, or a percentage, rounded up."""
    return value if isinstance(value, int) else -(-whole * int(value.rstrip("%")) // 100)


def _scale_of_owners(store: Store, registry: served.Registry, guarded: list[Manifest]) -> int:
    """Add up what the controllers of the pods ask for; pods of none count for nothing."""
    owners = {
        reference["uid"]
        for pod in guarded
        for reference in pod["metadata"].get("ownerReferences") or ()
        if reference.get("controller")
    }
    total = 0
    for uid in owners:
        place = store.find_uid(uid)
        if place is None:
            continue
        entry, kind = store.find(*place), registry.of(place[0])
        if entry is not None and kind.scale is not None:
            total += scales.replicas(kind, entry.object)
    return total
