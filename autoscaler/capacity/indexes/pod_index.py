"""Pods as decisions look them up: by node, those without one, those with rules about others. It decides nothing.

`PodIndex` keeps this current with each change of the table, so that a look costs what changed and not what exists.
`indexed` says the same of any pods, slowly: what-ifs use it, and tests compare the two.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from autoscaler.api import keys
from autoscaler.capacity import work
from autoscaler.kube import objects, store

Pods = Mapping[objects.Key, objects.Pod]
V = TypeVar("V")


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedPods:
    """Pods at one moment."""

    by_node: Mapping[str, tuple[objects.Pod, ...]] = field(default_factory=dict)
    """Those that are bound or nominated to a node, also those that have ended, by key."""
    unbound: Pods = field(default_factory=dict)
    with_rules: Pods = field(default_factory=dict)
    """Those to which it may matter who else is where."""
    of_machines: Pods = field(default_factory=dict)
    """Those that name a machine group: guests, and those that hold room for them."""
    working: Mapping[str, int] = field(default_factory=dict)
    """How many pods work on each node, of nodes that have any."""

    def nominated(self, pods: Iterable[objects.Pod]) -> "IndexedPods":
        """Return the same with these pods, which are there already, nominated to nodes."""
        changed = _Groups(self)
        for pod in pods:
            changed.change(self.unbound.get(pod.meta.key), pod)
        return changed.frozen()


def indexed(pods: Iterable[objects.Pod]) -> IndexedPods:
    """Index pods."""
    everybody = list(pods)
    by_node: dict[str, list[objects.Pod]] = {}
    for pod in everybody:
        if node_of(pod):
            by_node.setdefault(node_of(pod), []).append(pod)
    return IndexedPods(
        by_node={name: tuple(sorted(there, key=_key)) for name, there in by_node.items()},
        unbound={pod.meta.key: pod for pod in everybody if not pod.node_name},
        with_rules={pod.meta.key: pod for pod in everybody if has_rules(pod)},
        of_machines={pod.meta.key: pod for pod in everybody if _names_machines(pod)},
        working=Counter(node_of(pod) for pod in everybody if node_of(pod) and work.is_work(pod)),
    )


def node_of(pod: objects.Pod) -> str:
    """Return the node that a pod is bound or nominated to; empty if there is none."""
    return pod.node_name or pod.nominated_node


def node_names(pod: objects.Pod) -> Collection[str]:
    """Return the same as a table's index wants it."""
    return (node_of(pod),) if node_of(pod) else ()


def has_rules(pod: objects.Pod) -> bool:
    """Tell whether it may matter to a pod who else is where."""
    shape = pod.shape
    return shape.affinity is not None or bool(shape.spread or shape.host_ports)


def _names_machines(pod: objects.Pod) -> bool:
    return keys.MACHINE_GROUP in pod.meta.labels


class PodIndex:
    """The pods of a table."""

    def __init__(self, table: store.Table[objects.Pod]) -> None:
        self._table = table
        self._groups = _Groups(indexed(table))
        self._frozen: IndexedPods | None = None
        table.listen(self._change)

    def snapshot(self) -> IndexedPods:
        """Return the pods as they are now; later changes do not show. Free while nothing changes."""
        if self._frozen is None:
            self._frozen = self._groups.frozen()
        return self._frozen

    said = snapshot

    def heal(self) -> None:
        """Make it anew from all pods."""
        self._groups, self._frozen = _Groups(indexed(self._table)), None

    def _change(self, old: objects.Pod | None, new: objects.Pod | None) -> None:
        self._groups.change(old, new)
        self._frozen = None


class _Groups:
    """The same as `IndexedPods`, to be changed."""

    def __init__(self, begin: IndexedPods) -> None:
        self._by_node = dict(begin.by_node)
        self._unbound = dict(begin.unbound)
        self._with_rules = dict(begin.with_rules)
        self._of_machines = dict(begin.of_machines)
        self._working = dict(begin.working)

    def frozen(self) -> IndexedPods:
        return IndexedPods(
            by_node=dict(self._by_node),
            unbound=dict(self._unbound),
            with_rules=dict(self._with_rules),
            of_machines=dict(self._of_machines),
            working=dict(self._working),
        )

    def change(self, old: objects.Pod | None, new: objects.Pod | None) -> None:
        """Replace a pod by its next version; None stands for absence."""
        if old is not None:
            self._leave(old)
        if new is not None:
            self._come(new)
        _keep(self._unbound, old, new if new is not None and not new.node_name else None)
        _keep(self._with_rules, old, new if new is not None and has_rules(new) else None)
        _keep(self._of_machines, old, new if new is not None and _names_machines(new) else None)

    def _leave(self, pod: objects.Pod) -> None:
        name = node_of(pod)
        if not name:
            return
        left = tuple(each for each in self._by_node[name] if each.meta.key != pod.meta.key)
        _put(self._by_node, name, left)
        _put(self._working, name, self._working.get(name, 0) - work.is_work(pod))

    def _come(self, pod: objects.Pod) -> None:
        name = node_of(pod)
        if not name:
            return
        self._by_node[name] = tuple(sorted((*self._by_node.get(name, ()), pod), key=_key))
        _put(self._working, name, self._working.get(name, 0) + work.is_work(pod))


def _keep(kept: dict[objects.Key, objects.Pod], old: objects.Pod | None, new: objects.Pod | None) -> None:
    """Replace a pod where it is, or drop it: the order is that in which pods came."""
    if new is not None:
        kept[new.meta.key] = new
    elif old is not None:
        kept.pop(old.meta.key, None)


def _put(kept: dict[str, V], name: str, value: V) -> None:
    if value:
        kept[name] = value
    else:
        kept.pop(name, None)


def _key(pod: objects.Pod) -> objects.Key:
    return pod.meta.key
