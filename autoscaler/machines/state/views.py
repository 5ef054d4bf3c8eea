"""How every node stands with the groups, kept current by changes: looked at again only when it or they changed.

A node that carries all that it should and nothing else stands as it is, whatever guests do. One that is on its way
somewhere is looked at again each time that its groups are. Nothing is decided here.
"""

import weakref
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from autoscaler.kube import selecting, shapes
from autoscaler.kube.objects import Key, Node
from autoscaler.machines import model
from autoscaler.machines.nodes import claims, node_reports, node_views
from autoscaler.machines.nodes.node_reports import NodeReport
from autoscaler.machines.nodes.node_views import NodeView
from autoscaler.machines.state.known import Known, Tables


class Views:
    """The nodes of every group."""

    def __init__(self, tables: Tables, known: Known) -> None:
        self.changed: dict[str, dict[str, None]] = defaultdict(dict)
        """The nodes that changed, by group."""
        self.reports: dict[str, dict[str, NodeReport]] = defaultdict(dict)
        """What is said about the nodes that each group asks for."""
        self.editions: Counter[str] = Counter()
        """How often that has changed, by group."""
        self._tables = tables
        self._known = known
        self._machines = node_views.Machines.of(())
        self._views: dict[str, NodeView] = {}
        self._members: dict[str, dict[str, None]] = defaultdict(dict)
        """The nodes that each group asks for, or whose marks they carry."""
        self._unsettled: dict[str, dict[str, None]] = defaultdict(dict)
        """Of these, those that are on their way somewhere."""
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
        self._known.nodes.update(self._unsettled[group])

    def names(self, group: str) -> list[str]:
        """Return the nodes that a group asks for, or whose marks they carry."""
        return list(self._members[group])

    def node(self, name: str, group: str) -> model.Node | None:
        """Return a node as it is decided on; None: the group does not have it, and it is not leaving it either."""
        view, node = self._views.get(name), self._tables.nodes.get(Key("", name))
        if view is None or view.marks is None or node is None or not _is_in(view, group):
            return None
        is_owned = view.owner is not None and view.owner.group == group
        return model.Node(
            name=name,
            types=frozenset(view.types) if is_owned else frozenset(),
            is_ready=view.marks.is_ready and is_owned,
            is_marked=view.marks.is_marked and is_owned,
            is_closed=view.marks.is_closed,
            allocatable=node.allocatable,
            used=self._known.used(name),
        )

    def does_let_in(self, name: str, shape: shapes.Shape) -> bool:
        """Tell whether a node lets in pods of a shape."""
        known = self._lets_in.setdefault(name, weakref.WeakKeyDictionary())
        answer = known.get(shape)
        if answer is None:
            node = self._tables.nodes.get(Key("", name))
            answer = known[shape] = node is not None and lets_in(node, shape)
        return answer

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
        self._lets_in.pop(name, None)
        is_known = node is not None or view.owner is not None
        self._replace(name, before, view if is_known else None)
        return view if is_known else None

    def _needed(self, name: str, before: NodeView | None) -> frozenset[claims.GroupType]:
        groups = _groups(before) if before is not None else ()
        bound = self._known.bound(name)
        return bound.union(*(self._known.on_their_way(group) for group in {*groups, *(each.group for each in bound)}))

    def _replace(self, name: str, before: NodeView | None, view: NodeView | None) -> None:
        self._views.pop(name, None)
        if view is not None:
            self._views[name] = view
        left, there = _groups(before), _groups(view)
        for group in dict.fromkeys((*left, *there)):
            self._known.groups[group] = None
            self.changed[group][name] = None
            self._note(group, name, view if group in there else None)

    def _note(self, group: str, name: str, view: NodeView | None) -> None:
        """Note how a node stands in a group; None: it has nothing to do with it."""
        for names, holds in ((self._members[group], view is not None), (self._unsettled[group], _is_unsettled(view))):
            names.pop(name, None)
            if holds:
                names[name] = None
        reports = self.reports[group]
        before, report = reports.pop(name, None), node_reports.of(view, group) if view is not None else None
        if report is not None:
            reports[name] = report
        self.editions[group] += report != before


@dataclass(frozen=True, slots=True)
class Barred:
    """The nodes that do not let in pods of a shape."""

    shape: shapes.Shape
    views: Views = field(compare=False, repr=False)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and not self.views.does_let_in(name, self.shape)


def lets_in(node: Node, shape: shapes.Shape) -> bool:
    """Tell whether a node's labels and taints let in a pod of a shape."""
    return selecting.selects(shape, node) and selecting.untolerated(node.taints, shape.tolerations) is None


def _is_unsettled(view: NodeView | None) -> bool:
    return view is not None and view.marks is not None and not view.marks.is_settled


def _is_in(view: NodeView, group: str) -> bool:
    return view.held_by == group or (view.owner is not None and view.owner.group == group)


def _groups(view: NodeView | None) -> tuple[str, ...]:
    """Return the groups that a node matters to."""
    if view is None:
        return ()
    asking = [each.group for each in (view.claims.owner, *view.claims.others) if each is not None]
    return tuple(dict.fromkeys([*asking, *([view.held_by] if view.held_by else [])]))
