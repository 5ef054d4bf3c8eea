"""What is told about a Machine's nodes and conditions, in words. Pure.

Of what happens again and again the words are the same each time, so that it is counted instead of repeated.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never

from autoscaler.api.resources.base import Condition, ConditionStatus
from autoscaler.api.resources.machines import NodeMode
from autoscaler.machines.nodes.node_marks import Change
from autoscaler.machines.nodes.node_views import NodeView
from autoscaler.machines.wanted_condition import Said


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Something worth an event on a Machine."""

    group: str
    """The Machine that it is about."""
    reason: str
    message: str
    is_warning: bool = False


def of_marks(view: NodeView) -> Told | None:
    """Tell what became of a node once its marks are written; None where nobody needs to know."""
    change = view.marks.change if view.marks is not None else None
    match change:
        case None | Change.AMEND | Change.STRIP:
            return None
        case Change.OPEN:
            return _opened(view)
        case Change.CLOSE:
            return _closed(view)
        case Change.LEAVE:
            return _left(view)
        case _:
            assert_never(change)


def of_condition(group: str, before: Iterable[Condition], kind: str, said: Said) -> Told | None:
    """Tell that a condition changed, or holds no more for another reason than before."""
    old = next((each for each in before if each.type == kind), None)
    if old is None:
        is_news = not said.holds
    else:
        is_news = (old.status is ConditionStatus.TRUE) != said.holds or (not said.holds and old.reason != said.reason)
    if not is_news:
        return None
    return Told(group=group, reason=said.reason, message=said.message, is_warning=not said.holds)


def _opened(view: NodeView) -> Told | None:
    if view.owner is None:
        return None
    message = f"node {view.name} takes guests of {', '.join(view.types)}"
    return Told(group=view.owner.group, reason="NodeOpened", message=message)


def _closed(view: NodeView) -> Told | None:
    group = view.held_by or (view.owner.group if view.owner else None)
    if group is None:
        return None
    message = f"node {view.name} takes no more guests: {_why_closed(view, group)}"
    return Told(group=group, reason="NodeClosed", message=message, is_warning=view.trouble is not None)


def _why_closed(view: NodeView, group: str) -> str:
    owner = view.owner
    if owner is None:
        return "it does not belong to the group any more"
    if owner.group != group:
        return f"it belongs to machine group {owner.group}"
    if owner.mode is NodeMode.MAINTENANCE:
        return "it is in maintenance"
    if view.trouble is not None:
        return view.trouble
    if not view.types:
        return "; ".join(each.worded() for each in view.refusals)
    return f"it is to serve {', '.join(view.types)} from now on"


def _left(view: NodeView) -> Told | None:
    if view.held_by is None:
        return None
    message = f"node {view.name} has left the group, and carries nothing of it any more"
    return Told(group=view.held_by, reason="NodeLeft", message=message)
