"""What a group's status says about each of its nodes, and about all of them together. Pure.

It decides which of several problems of a node is told, the gravest, and in which words. It must not find problems of
its own: claims, health, marks and host limits are decided elsewhere, and only put into words here.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from autoscaler.api.resources.machines import NodeCondition, NodeMode
from autoscaler.machines.nodes.claims import Claim, GroupType
from autoscaler.machines.nodes.node_health import Trouble
from autoscaler.machines.nodes.node_marks import Marks
from autoscaler.machines.nodes.node_views import NodeView
from autoscaler.machines.wanted_condition import Said

_SHOWN: Final = 5
"""So many nodes are named in a condition; the MachineNodePool names all."""


class Problem(StrEnum):
    """Why a node does not take all the guests that it should; the gravest first."""

    OTHER_GROUP = "NodeOfAnotherGroup"
    MISSING = "NodeMissing"
    UNHEALTHY = "NodeNotReady"
    HOST_LIMIT = "HostLimit"
    NOT_RELEASED = "NodeNotReleased"
    """Guests of another group or type still run there."""
    NOT_MARKED = "NodeNotMarked"
    """Its labels are not written yet."""


_GRAVITY: Final = {problem: place for place, problem in enumerate(Problem)}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """What is said about a node."""

    name: str
    types: tuple[str, ...] = field(default=(), compare=False)
    """The types that it would serve if nothing were wrong; no part of what is said."""
    condition: NodeCondition
    problem: Problem | None = None
    message: str = ""
    """The problem in words, as what follows the node's name."""


def of(view: NodeView, group: str) -> NodeReport | None:
    """Say how a node stands in a group; None: the group does not ask for it."""
    claim = _claim(view, group)
    if claim is None:
        return None
    problem, message = _problem(view, claim)
    is_refused_in_part = problem is Problem.HOST_LIMIT and bool(view.types)
    condition = NodeCondition.READY if problem is None or is_refused_in_part else NodeCondition.NOT_READY
    if claim.mode is NodeMode.MAINTENANCE:
        condition = NodeCondition.MAINTENANCE
    return NodeReport(name=view.name, types=claim.types, condition=condition, problem=problem, message=message)


def together(reports: Sequence[NodeReport]) -> Said:
    """Say whether all nodes that should take guests do."""
    wrong = sorted((each for each in reports if each.problem), key=_order)
    if wrong:
        return Said(holds=False, reason=str(wrong[0].problem), message=_named(wrong))
    ready = sum(each.condition is NodeCondition.READY for each in reports)
    if not reports:
        return Said(holds=False, reason="NoNodes", message="the group has no nodes")
    resting = len(reports) - ready
    said = f"{_nodes(ready)} take guests" if ready != 1 else "1 node takes guests"
    return Said(
        holds=True, reason="NodesReady", message=said + (f"; {_nodes(resting)} in maintenance" if resting else "")
    )


def _claim(view: NodeView, group: str) -> Claim | None:
    asking = (view.claims.owner, *view.claims.others)
    return next((each for each in asking if each is not None and each.group == group), None)


def _problem(view: NodeView, claim: Claim) -> tuple[Problem | None, str]:
    """Return what is wrong; in maintenance nothing is, unless the node is another group's."""
    owner = view.owner
    if owner is not None and owner is not claim:
        return Problem.OTHER_GROUP, f"it belongs to machine group {owner.group}"
    if claim.mode is NodeMode.MAINTENANCE:
        return None, ""
    if view.trouble is Trouble.MISSING or view.marks is None:
        return Problem.MISSING, Trouble.MISSING
    return (Problem.UNHEALTHY, view.trouble) if view.trouble is not None else _shortcoming(view, view.marks)


def _shortcoming(view: NodeView, marks: Marks) -> tuple[Problem | None, str]:
    """Return what is wrong with a healthy node."""
    if view.types and marks.kept_for:
        return Problem.NOT_RELEASED, f"guests of {_types(marks.kept_for)} still run there"
    if view.types and not marks.is_marked:
        return Problem.NOT_MARKED, "its labels are being written"
    if view.refusals:
        return Problem.HOST_LIMIT, "; ".join(each.worded() for each in view.refusals)
    return None, ""


def _types(kept_for: Iterable[GroupType]) -> str:
    return ", ".join(f"{each.type} of group {each.group}" for each in kept_for)


def _order(report: NodeReport) -> tuple[int, str]:
    return _GRAVITY[report.problem] if report.problem else len(_GRAVITY), report.name


def _named(reports: Sequence[NodeReport]) -> str:
    said = "; ".join(f"node {each.name}: {each.message}" for each in reports[:_SHOWN])
    more = len(reports) - _SHOWN
    return said + (f"; and {_nodes(more)} more" if more > 0 else "")


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"
