"""Nodes as decisions look them up: by the instance that each is on. It decides nothing.

`NodeIndex` keeps this current with each change of the table; `by_provider` says the same of any nodes, slowly.
"""

from collections.abc import Collection, Iterable, Mapping

from autoscaler.kube import objects, store


def by_provider(nodes: Iterable[objects.Node]) -> dict[str, objects.Node]:
    """Return nodes by the instance that each is on; of several that name it, one that is ready, the newest."""
    return {node.provider_id: node for node in sorted(nodes, key=_rank) if node.provider_id}


class NodeIndex:
    """The nodes of a table."""

    def __init__(self, table: store.Table[objects.Node]) -> None:
        self._same = table.index(_provider_ids)
        self._by_provider = by_provider(table)
        self._frozen: Mapping[str, objects.Node] | None = None
        table.listen(self._change)

    def by_provider(self) -> Mapping[str, objects.Node]:
        """Return the nodes by instance as they are now; later changes do not show. Free while nothing changes."""
        if self._frozen is None:
            self._frozen = dict(self._by_provider)
        return self._frozen

    def _change(self, old: objects.Node | None, new: objects.Node | None) -> None:
        self._frozen = None
        for provider_id in {each.provider_id for each in (old, new) if each is not None and each.provider_id}:
            best = max(self._same.get(provider_id).values(), key=_rank, default=None)
            if best is not None:
                self._by_provider[provider_id] = best
            else:
                self._by_provider.pop(provider_id, None)


def _provider_ids(node: objects.Node) -> Collection[str]:
    return (node.provider_id,) if node.provider_id else ()


def _rank(node: objects.Node) -> tuple[bool, float, objects.Key]:
    return node.ready, node.meta.created_at, node.meta.key
