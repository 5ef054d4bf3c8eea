"""A deleted definition takes all objects of its kind along, then goes."""

from typing import Final

from autoscaler.api.manifests import Manifest
from autoscaler.kube import kinds
from autoscaler.simulation.cluster import served
from autoscaler.simulation.cluster.server import Server
from autoscaler.simulation.cluster.store import Change, Key
from autoscaler.simulation.cluster.verbs.deletes import Options
from autoscaler.simulation.cluster.verbs.writes import Manner
from autoscaler.simulation.controllers.pending import Pending

DELAY_SECONDS: Final = 0.1
RETRY_SECONDS: Final = 2.0
FINALIZER: Final = "customresourcecleanup.apiextensions.k8s.io"
_MANNER: Final = Manner(user="system:apiserver")


def run(server: Server) -> None:
    """Finish deleted definitions from now on."""

    def on_change(change: Change) -> None:
        if change.after is not None and "deletionTimestamp" in change.after.object["metadata"]:
            pending.add(change.key)

    def look(key: Key) -> None:
        entry = server.store.find(kinds.DEFINITIONS, key)
        if entry is None:
            return
        collection = server.store.collection(served.of_definition(entry.object).resource)
        for held, other in sorted(collection.within(None)):
            if "deletionTimestamp" not in other.object["metadata"]:
                server.deletes.delete(collection.resource, held, Options(), _MANNER)
        if collection.entries:
            pending.later(key, RETRY_SECONDS)
        else:
            server.writes.update(kinds.DEFINITIONS, key, _without_finalizer, manner=_MANNER)

    pending: Pending[Key] = Pending(look, delay_seconds=DELAY_SECONDS)
    server.store.collection(kinds.DEFINITIONS).listeners.append(on_change)


def _without_finalizer(body: Manifest) -> Manifest:
    kept = [name for name in body["metadata"].get("finalizers", ()) if name != FINALIZER]
    return {**body, "metadata": {**body["metadata"], "finalizers": kept}}
