"""Custom kinds come and go with their definitions."""

from autoscaler.kube import kinds
from autoscaler.simulation.cluster import served
from autoscaler.simulation.cluster.store import Change, Store


def serve(store: Store, registry: served.Registry) -> None:
    """Serve each kind from the moment its definition is stored until it is removed."""

    def on_change(change: Change) -> None:
        kind = served.of_definition(change.shown.object)
        if change.after is None:
            registry.remove(kind.resource)
            store.drop_collection(kind.resource)
            return
        if change.before is None:
            store.add_collection(kind.resource)
        registry.add(kind)

    store.collection(kinds.DEFINITIONS).listeners.append(on_change)
