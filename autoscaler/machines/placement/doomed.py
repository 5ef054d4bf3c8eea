"""Which sleepers hold nothing worth keeping, and go whoever waits. Pure."""

from dataclasses import dataclass

from autoscaler.machines.model import Node, Phase, Sleeper


@dataclass(frozen=True, slots=True, kw_only=True)
class Doomed:
    """A sleeper that must go, and why."""

    sleeper: Sleeper
    why: str


def why(sleeper: Sleeper, node: Node | None) -> str | None:
    """Return why a sleeper must go, given the node that it is bound or pinned to; None: it need not."""
    if sleeper.is_outdated:
        return "its StatefulSet's template has changed since it was made"
    if not sleeper.is_open:
        return None
    if node is None:
        return f"its node {sleeper.node} is not in the group" if sleeper.node else "it is pinned to no node"
    if not node.is_ready:  # a bound one keeps its room until nobody else is let in there
        return f"node {node.name} is not ready" if node.is_closed or sleeper.phase is Phase.OPEN else None
    if sleeper.type not in node.types:
        return f"node {node.name} does not serve its type"
    return _why_not_bound(sleeper, node) if sleeper.phase is Phase.OPEN else None


def _why_not_bound(sleeper: Sleeper, node: Node) -> str | None:
    if not _has_room(node, sleeper):
        return f"the room on node {node.name} is taken"
    is_barred = node.is_usable and node.name in sleeper.barred
    return f"node {node.name} does not let it in" if is_barred else None


def _has_room(node: Node, sleeper: Sleeper) -> bool:
    return all(
        amount <= node.allocatable.get(name, 0) - node.used.get(name, 0)
        for name, amount in sleeper.requests.items()
        if amount > 0
    )
