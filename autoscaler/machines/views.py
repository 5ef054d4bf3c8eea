"""How every node stands with the groups, kept current by changes: looked at again only when it or they changed.

A node that carries all that it should and nothing else stands as it is, whatever guests do. One that is on its way
somewhere is looked at again each time that its groups are. Nothing is decided here.
"""

import weakref
from collections.abc import Iterable

from autoscaler.kube import selecting, shapes
from autoscaler.kube.objects import Key, Node
from autoscaler.machines import claims, model, node_views
from autoscaler.machines.known import Known, Tables
from autoscaler.machines.node_views import NodeView


class Views:
    """The nodes of every group."""

    def __init__(self, tables: Tables, known: Known) -> None:
        self._tables = tables
        self._known = known
        self._machines = node_views.Machines.of(())
        self._views: dict[str, NodeView] = {}
        self._members: dict[str, dict[str, None]] = {}
        """The nodes that each group asks for, or whose marks they carry."""
        self._nodes: dict[str, model.Node] = {}
        """What is decided on, by node; made again when something about the node changed."""
        self._lets_in: dict[str, weakref.WeakKeyDictionary[shapes.Shape, bool]] = {}

    def refresh(self, now: float) -> list[NodeView]:
        """Look at all nodes that changed; return how they stand. Groups whose nodes stand otherwise are noted."""
        if self._known.are_machines_new:
            self._known.are_machines_new = False
            self._machines = node_views.Machines.of(self._tables.machines)
            self._known.nodes.update(dict.fromkeys(self._all_names()))
        names = list(self._known.nodes)
        self._known.nodes.clear()
        return [view for name in names if (view := self._look(name, now)) is not None]

    def note_unsettled(self, group: str) -> None:
        """Have nodes of a group looked at again that are on their way somewhere: its guests may have changed."""
        for name in self._members.get(group, ()):
            if not _is_settled(self._views[name]):
                self._known.nodes[name] = None

    def of_group(self, group: str) -> list[NodeView]:
        """Return the nodes that a group asks for, or whose marks they carry."""
        return [self._views[name] for name in self._members.get(group, ())]

    def nodes(self, group: str) -> tuple[model.Node, ...]:
        """Return the nodes that a group has, or that have not yet left it."""
        return tuple(self._node(view, group) for view in self.of_group(group) if _is_in(view, group))

    def barred(self, shape: shapes.Shape, names: Iterable[str]) -> frozenset[str]:
        """Return the nodes, of these, that do not let in a pod of a shape."""
        return frozenset(name for name in names if not self._does_let_in(name, shape))

    def _all_names(self) -> Iterable[str]:
        yield from self._views
        for node in self._tables.nodes:
            yield node.meta.key.name
        for machine in self._tables.machines:
            yield from claims.named(machine.resource.spec)

    def _look(self, name: str, now: float) -> NodeView | None:
        """Look at a node; None: nobody knows of it any more."""
        node = self._tables.nodes.get(Key("", name))
        before = self._views.get(name)
        view = node_views.look(self._machines, name, node, needed=self._needed(name, before), now=now)
        self._nodes.pop(name, None)
        self._lets_in.pop(name, None)
        is_known = node is not None or view.owner is not None
        self._replace(name, before, view if is_known else None)
        return view if is_known else None

    def _needed(self, name: str, before: NodeView | None) -> frozenset[claims.GroupType]:
        groups = _groups(before) if before is not None else ()
        bound = self._known.bound(name)
        return bound.union(*(self._known.on_their_way(group) for group in {*groups, *(each.group for each in bound)}))

    def _replace(self, name: str, before: NodeView | None, view: NodeView | None) -> None:
        for group in _groups(before):
            self._members[group].pop(name, None)
            self._known.groups[group] = None
        self._views.pop(name, None)
        if view is None:
            return
        self._views[name] = view
        for group in _groups(view):
            self._members.setdefault(group, {})[name] = None
            self._known.groups[group] = None

    def _node(self, view: NodeView, group: str) -> model.Node:
        known = self._nodes.get(view.name)
        if known is not None:
            return known
        marks, node = view.marks, self._tables.nodes.get(Key("", view.name))
        if marks is None or node is None:
            raise AssertionError(f"node {view.name} is missing and in a group")
        is_owned = view.owner is not None and view.owner.group == group
        made = model.Node(
            name=view.name,
            types=frozenset(view.types) if is_owned else frozenset(),
            is_ready=marks.is_ready and is_owned,
            is_marked=marks.is_marked and is_owned,
            is_closed=marks.is_closed,
            allocatable=node.allocatable,
            used=self._known.used(view.name),
        )
        if is_owned:  # one that moves on is in two groups
            self._nodes[view.name] = made
        return made

    def _does_let_in(self, name: str, shape: shapes.Shape) -> bool:
        known = self._lets_in.setdefault(name, weakref.WeakKeyDictionary())
        answer = known.get(shape)
        if answer is None:
            node = self._tables.nodes.get(Key("", name))
            answer = known[shape] = node is not None and lets_in(node, shape)
        return answer


def lets_in(node: Node, shape: shapes.Shape) -> bool:
    """Tell whether a node's labels and taints let in a pod of a shape."""
    return selecting.selects(shape, node) and selecting.untolerated(node.taints, shape.tolerations) is None


def _is_settled(view: NodeView) -> bool:
    return view.marks is None or view.marks.is_settled


def _is_in(view: NodeView, group: str) -> bool:
    is_there = view.marks is not None
    return is_there and (view.held_by == group or (view.owner is not None and view.owner.group == group))


def _groups(view: NodeView | None) -> tuple[str, ...]:
    """Return the groups that a node matters to."""
    if view is None:
        return ()
    asking = [each.group for each in (view.claims.owner, *view.claims.others) if each is not None]
    return tuple(dict.fromkeys([*asking, *([view.held_by] if view.held_by else [])]))
