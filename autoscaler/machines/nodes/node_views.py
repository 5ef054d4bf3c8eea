"""How nodes stand with Machines: who has each, which types may live there, whether it takes guests. Pure.

`Machines` is what all Machines say together, made anew when one of them changes; `look` says how one node stands, and
costs no more than that node's own labels.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from autoscaler.api import keys
from autoscaler.api.resources import Machine
from autoscaler.kube import objects
from autoscaler.machines.nodes import host_limits, node_health, node_marks
from autoscaler.machines.nodes.claims import Claim, Claims, GroupType, NodeClaims
from autoscaler.machines.nodes.host_limits import Limit, Refusal
from autoscaler.machines.nodes.node_health import Trouble
from autoscaler.machines.nodes.node_labels import Situation
from autoscaler.machines.nodes.node_marks import Marks


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """What all Machines say about nodes."""

    claims: Claims
    limits: Mapping[str, Mapping[str, Limit]]
    """How much of a node a machine may take, by group and type."""
    offered: frozenset[GroupType]
    """The types of Machines that are not being deleted."""

    @classmethod
    def of(cls, machines: Iterable[objects.Custom[Machine]]) -> "Machines":
        """Read all Machines."""
        kept = [each for each in machines if each.meta.deleted_at is None]
        return cls(
            claims=Claims.of(kept),
            limits={each.meta.key.name: host_limits.of(each.resource.spec) for each in kept},
            offered=frozenset(
                GroupType(each.meta.key.name, offer.name) for each in kept for offer in each.resource.spec.machine_types
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """How one node stands."""

    name: str
    claims: NodeClaims
    types: tuple[str, ...]
    """The types that it should serve."""
    refusals: tuple[Refusal, ...]
    """Types that take too much of it."""
    trouble: Trouble | None
    """Why it takes no guests, whatever its Machine wants; None: it can."""
    marks: Marks | None
    """What its marks should become; None: the node is missing."""
    held_by: str | None = None
    """The group that it was last marked for, which it may be leaving; None: it carries no mark of one."""

    @property
    def owner(self) -> Claim | None:
        """Return the claim of the group that has it."""
        return self.claims.owner


def look(
    machines: Machines, name: str, node: objects.Node | None, *, needed: frozenset[GroupType], now: float
) -> NodeView:
    """Tell how a node stands; one that is named and missing is None.

    `needed` are the types of guests that are bound there and have not ended, and of open ones that may be bound there
    in a moment: without a node, and not found unschedulable.
    """
    claims, trouble = machines.claims.of_node(name, node.meta.labels if node else {}), node_health.trouble(node)
    refusals, types = _housed(machines, claims.owner, node)
    situation = node and Situation(
        node=node,
        claim=claims.owner,
        types=types,
        is_healthy=trouble is None,
        needed=needed,
        offered=machines.offered,
    )
    return NodeView(
        name=name,
        claims=claims,
        types=types,
        refusals=refusals,
        trouble=trouble,
        marks=node_marks.decide(situation, now) if situation else None,
        held_by=node.meta.annotations.get(keys.MACHINE_GROUP) if node else None,
    )


def _housed(
    machines: Machines, claim: Claim | None, node: objects.Node | None
) -> tuple[tuple[Refusal, ...], tuple[str, ...]]:
    """Return which types of a claim take too much of a node, and which may live there."""
    if claim is None or node is None:
        return (), ()
    refusals = host_limits.refusals(claim.types, machines.limits[claim.group], node.allocatable)
    refused = {each.type for each in refusals}
    return refusals, tuple(each for each in claim.types if each not in refused)
