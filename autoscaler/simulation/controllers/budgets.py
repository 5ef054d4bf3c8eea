"""The disruption controller: keeps each budget's status current."""

from typing import Final

from autoscaler.api.manifests import Manifest
from autoscaler.kube import kinds
from autoscaler.simulation.cluster.server import Server
from autoscaler.simulation.cluster.store import Change, Entry, Key
from autoscaler.simulation.cluster.verbs import budgets
from autoscaler.simulation.cluster.verbs.writes import STATUS, Manner
from autoscaler.simulation.controllers.pending import Pending

DELAY_SECONDS: Final = 0.05
_MANNER: Final = Manner(user="system:serviceaccount:kube-system:disruption-controller")


def run(server: Server) -> None:
    """Keep budgets current from now on."""
    store = server.store

    def on_budget(change: Change) -> None:
        if change.after is not None and not _is_status_only(change.before, change.after):
            pending.add(change.key)

    def on_pod(change: Change) -> None:
        if not store.collection(kinds.DISRUPTION_BUDGETS).namespaces.get(change.key.namespace):
            return
        for entry in (change.before, change.after):
            if entry is not None:
                pending.extend(_key(budget) for budget in budgets.of_pod(store, entry.object))

    def look(key: Key) -> None:
        if store.find(kinds.DISRUPTION_BUDGETS, key) is not None:
            server.writes.update(kinds.DISRUPTION_BUDGETS, key, fresh, manner=_MANNER, subresource=STATUS)

    def fresh(body: Manifest) -> Manifest:
        return {**body, "status": budgets.status(store, server.registry, body)}

    pending: Pending[Key] = Pending(look, delay_seconds=DELAY_SECONDS)
    store.collection(kinds.DISRUPTION_BUDGETS).listeners.append(on_budget)
    store.collection(kinds.PODS).listeners.append(on_pod)


def _is_status_only(before: Entry | None, after: Entry) -> bool:
    return before is not None and before.object["spec"] == after.object["spec"]


def _key(budget: Entry) -> Key:
    metadata = budget.object["metadata"]
    return Key(metadata["namespace"], metadata["name"])
