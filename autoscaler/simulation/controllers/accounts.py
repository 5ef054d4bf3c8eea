"""The service account controller: every namespace has an account named default."""

from typing import Final

from autoscaler.kube import kinds
from autoscaler.simulation.cluster import served
from autoscaler.simulation.cluster.server import Server
from autoscaler.simulation.cluster.store import Change, Key
from autoscaler.simulation.cluster.verbs.writes import Manner
from autoscaler.simulation.controllers.pending import Pending

DELAY_SECONDS: Final = 0.05
DEFAULT: Final = "default"
_MANNER: Final = Manner(user="system:serviceaccount:kube-system:service-account-controller")


def run(server: Server) -> None:
    """Make accounts from now on."""

    def look(name: str) -> None:
        namespace = server.store.find(kinds.NAMESPACES, Key("", name))
        if namespace is None or "deletionTimestamp" in namespace.object["metadata"]:
            return
        if server.store.find(served.SERVICE_ACCOUNTS, Key(name, DEFAULT)) is None:
            body = {"metadata": {"name": DEFAULT}}
            server.writes.create(served.SERVICE_ACCOUNTS, body, namespace=name, manner=_MANNER)

    def on_namespace(change: Change) -> None:
        if change.before is None:
            pending.add(change.key.name)

    def on_account(change: Change) -> None:
        if change.after is None and change.key.name == DEFAULT:
            pending.add(change.key.namespace)

    pending: Pending[str] = Pending(look, delay_seconds=DELAY_SECONDS)
    server.store.collection(kinds.NAMESPACES).listeners.append(on_namespace)
    server.store.collection(served.SERVICE_ACCOUNTS).listeners.append(on_account)
