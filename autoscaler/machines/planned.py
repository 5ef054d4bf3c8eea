"""What would be done about machines now: decided anew on copies of the tables, so that nothing known is touched. Pure.

It looks at all groups and nodes, not only at those that changed: while nothing may be written, what is to be done stays
to be done.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from autoscaler.control import copies
from autoscaler.kube import objects
from autoscaler.machines import decide, making, model
from autoscaler.machines.model import OpenGuest, OpenSleeper, Plan
from autoscaler.machines.nodes.node_views import NodeView
from autoscaler.machines.objects import writes
from autoscaler.machines.objects.writes import On, Step, Write
from autoscaler.machines.state import assembling, known, views


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What is decided on."""

    tables: known.Tables
    namespace: str
    image: str
    now: float
    may_open: bool
    """Whether gates may be opened: no earlier opening is without an answer."""


def decided(copied: copies.Copies, sight: Sight) -> tuple[list[Write], list[str]]:
    """Return the next write to each object, and what nobody could decide."""
    tables, unknown = sight.tables, list[str]()
    seen = known.Known(tables, sight.namespace)
    nodes = views.Views(tables, seen)
    made = making.Making(tables, namespace=sight.namespace, image=sight.image)
    states = assembling.Assembling(tables, seen, nodes, sight.namespace, differing=made.differing)
    copied.fill()
    seen.note_unreadable()
    found = [write for view in _looked_at(seen, nodes, sight.now) if (write := mark(tables, seen, view)) is not None]
    for group in [each for each in seen.take_groups() if each not in seen.unreadable]:
        try:
            found += made.of_group(group)[0]
            plan = decide.of_state(states.group(group), now=sight.now)
            found += of_plan(tables, plan, may_open=sight.may_open)
        except Exception as error:  # noqa: BLE001  # as in a cycle, one group keeps nobody else waiting
            unknown.append(f"machine group {group}: {type(error).__name__}: {error}")
    return found, unknown


def mark(tables: known.Tables, seen: known.Known, view: NodeView) -> Write | None:
    """Write what a node should carry of ours; None: it does, or nobody may change that."""
    node = tables.nodes.get(objects.Key("", view.name))
    if view.marks is None or view.marks.patch is None or node is None or view.held_by in seen.unreadable:
        return None
    why = f"its marks are to {view.marks.change}"
    return writes.patch(On.NODE, node, view.marks.patch, why=why, group="", step=Step.MARK)


def of_plan(tables: known.Tables, plan: Plan, *, may_open: bool) -> Iterator[Write]:
    """Write what was decided of a group to its pods."""
    for command in plan.writes:
        pod = tables.pods.get(model.pod_of(command))
        if pod is not None and (may_open or not isinstance(command, OpenGuest | OpenSleeper)):
            yield writes.of_command(command, pod, plan.group)


def _looked_at(seen: known.Known, nodes: views.Views, now: float) -> list[NodeView]:
    """Look at all nodes, and again at those that guests may be on their way to: who that is shows at the first look."""
    looked = {view.name: view for view in nodes.refresh(now)}
    for group in [each for each in seen.groups if seen.on_their_way(each)]:
        nodes.note_unsettled(group)
    looked |= {view.name: view for view in nodes.refresh(now)}
    return list(looked.values())
