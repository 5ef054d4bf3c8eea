"""Nodes as decisions look them up: by name, and by the instance that each is on. It decides nothing.

`NodeIndex` keeps this current with each change of the table; `by_provider` says the same of any nodes, slowly. Kubelets
that only say that they are still there change nothing but nodes' versions: what was handed out before still holds.
"""

from collections.abc import Collection, Iterable, Mapping

import msgspec

from autoscaler.kube import objects, store


def by_provider(nodes: Iterable[objects.Node]) -> dict[str, objects.Node]:
    """Return nodes by the instance that each is on; of several that name it, one that is ready, the newest."""
    return {node.provider_id: node for node in sorted(nodes, key=_rank) if node.provider_id}


class NodeIndex:
    """The nodes of a table, in versions that may be older where nothing else has changed: write to none of them."""

    def __init__(self, table: store.Table[objects.Node]) -> None:
        self._table = table
        self.heal()
        table.listen(self._change)

    def heal(self) -> None:
        """Make it anew from all nodes."""
        self._nodes: store.Table[objects.Node] = store.Table()
        self._same = self._nodes.index(_provider_ids)
        self._by_provider: dict[str, objects.Node] = {}
        self._frozen: Mapping[str, objects.Node] | None = None
        for node in self._table:
            self._change(None, node)

    def nodes(self) -> Mapping[objects.Key, objects.Node]:
        """Return the nodes as they are now; later changes do not show. Free while nothing changes."""
        return self._nodes.snapshot()

    def by_provider(self) -> Mapping[str, objects.Node]:
        """Return the same by instance."""
        if self._frozen is None:
            self._frozen = dict(self._by_provider)
        return self._frozen

    def said(self) -> object:
        """Return what it says of each node but for its version, and which of them is each instance's."""
        instances = {provider_id: node.meta.key for provider_id, node in self._by_provider.items()}
        return instances, {node.meta.key: _unversioned(node) for node in self._nodes}

    def _change(self, old: objects.Node | None, new: objects.Node | None) -> None:
        if old is not None and new is not None and _is_same(old, new):
            return
        self._frozen = None
        if new is not None:
            self._nodes.seen(new)
        elif old is not None:
            self._nodes.gone(old.meta)
        for provider_id in {each.provider_id for each in (old, new) if each is not None and each.provider_id}:
            best = max(self._same.get(provider_id).values(), key=_rank, default=None)
            if best is not None:
                self._by_provider[provider_id] = best
            else:
                self._by_provider.pop(provider_id, None)


def _is_same(old: objects.Node, new: objects.Node) -> bool:
    """Tell whether nothing but the version has changed."""
    return _unversioned(new) == _unversioned(old)


def _unversioned(node: objects.Node) -> objects.Node:
    return msgspec.structs.replace(node, meta=msgspec.structs.replace(node.meta, resource_version=0))


def _provider_ids(node: objects.Node) -> Collection[str]:
    return (node.provider_id,) if node.provider_id else ()


def _rank(node: objects.Node) -> tuple[bool, float, objects.Key]:
    return node.ready, node.meta.created_at, node.meta.key
