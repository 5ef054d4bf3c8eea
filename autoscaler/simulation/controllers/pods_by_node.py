"""Which pods stand on which node, kept as pods are bound and go."""

from collections.abc import Mapping

from autoscaler.kube import kinds
from autoscaler.simulation.cluster.store import Change, Entry, Key, Store


def index(store: Store) -> Mapping[str, Mapping[Key, None]]:
    """Return the keys of the pods of each node; it follows the store from now on."""
    by_node: dict[str, dict[Key, None]] = {}

    def on_change(change: Change) -> None:
        before, after = _node(change.before), _node(change.after)
        if before == after:
            return
        if before:
            by_node[before].pop(change.key, None)
            if not by_node[before]:
                del by_node[before]
        if after:
            by_node.setdefault(after, {})[change.key] = None

    store.collection(kinds.PODS).listeners.append(on_change)
    return by_node


def _node(entry: Entry | None) -> str:
    name: str = (entry.object["spec"].get("nodeName") or "") if entry else ""
    return name
