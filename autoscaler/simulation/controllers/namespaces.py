"""The namespace controller: a deleted namespace is emptied, then goes."""

from typing import Final

from autoscaler.kube import kinds
from autoscaler.simulation.cluster.server import Server
from autoscaler.simulation.cluster.store import Change, Key
from autoscaler.simulation.cluster.verbs.deletes import Options
from autoscaler.simulation.cluster.verbs.writes import Manner
from autoscaler.simulation.controllers.pending import Pending

DELAY_SECONDS: Final = 0.1
RETRY_SECONDS: Final = 2.0
_MANNER: Final = Manner(user="system:serviceaccount:kube-system:namespace-controller")


def run(server: Server) -> None:
    """Empty deleted namespaces from now on."""

    def on_change(change: Change) -> None:
        if change.after is not None and "deletionTimestamp" in change.after.object["metadata"]:
            pending.add(change.key)

    def look(key: Key) -> None:
        entry = server.store.find(kinds.NAMESPACES, key)
        if entry is None:
            return
        if _empty(server, key.name):
            finalized = {**entry.object, "spec": {**entry.object["spec"], "finalizers": []}}
            server.store.remove(kinds.NAMESPACES, finalized)
        else:
            pending.later(key, RETRY_SECONDS)

    pending: Pending[Key] = Pending(look, delay_seconds=DELAY_SECONDS)
    server.store.collection(kinds.NAMESPACES).listeners.append(on_change)


def _empty(server: Server, namespace: str) -> bool:
    """Delete what a namespace holds; tell whether nothing is left."""
    is_empty = True
    for collection in server.store.collections():
        for key, entry in sorted(collection.within(namespace)) if collection.resource.namespaced else ():
            if "deletionTimestamp" not in entry.object["metadata"]:
                server.deletes.delete(collection.resource, key, Options(propagation="Background"), _MANNER)
            is_empty = is_empty and server.store.find(collection.resource, key) is None
    return is_empty
