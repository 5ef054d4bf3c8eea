"""Which of the nodes that fit is best, with the weights of the default profile.

Preferred rules between pods and spread constraints that need not hold are left out: nothing here decides by them.
"""

from collections.abc import Sequence
from typing import Final

from autoscaler.simulation import tolerations
from autoscaler.simulation.scheduling import node_affinity, requests
from autoscaler.simulation.scheduling.model import Node, Shape

_AFFINITY_WEIGHT: Final = 2
_TAINT_WEIGHT: Final = 3
_FULL: Final = 100
_DEFAULTS: Final = {requests.CPU: 100, requests.MEMORY: 200 << 20}
"""What a container that asks for nothing counts as, so that such pods are spread too."""


def best(shape: Shape, nodes: Sequence[Node]) -> Node:
    """Return the node with the highest score; among equals, the first by name."""
    if len(nodes) == 1:
        return nodes[0]
    scores = [_room(shape, node) for node in nodes]
    if node_affinity.has_preferences(shape.spec):
        liked = [node_affinity.preference(shape.spec, node.labels, node.name) for node in nodes]
        scores = [score + _AFFINITY_WEIGHT * part for score, part in zip(scores, _normal(liked), strict=True)]
    disliked = [_untolerated(shape, node) for node in nodes]
    if any(disliked):
        parts = [_FULL - part for part in _normal(disliked)]
        scores = [score + _TAINT_WEIGHT * part for score, part in zip(scores, parts, strict=True)]
    return min(zip(scores, nodes, strict=True), key=lambda pair: (-pair[0], pair[1].name))[1]


def _room(shape: Shape, node: Node) -> float:
    """Prefer the node with most room left, and with cpu and memory left in proportion."""
    shares = []
    for name, default in _DEFAULTS.items():
        whole = node.allocatable.get(name, 0)
        if whole:
            shares.append(min((node.used.get(name, 0) + shape.requests.get(name, default)) / whole, 1.0))
    if not shares:
        return 0.0
    least = _FULL * (1 - sum(shares) / len(shares))
    balance = _FULL * (1 - abs(shares[0] - shares[-1]) / 2)
    return least + balance


def _normal(parts: Sequence[int]) -> list[float]:
    most = max(parts)
    return [_FULL * part / most if most else 0.0 for part in parts]


def _untolerated(shape: Shape, node: Node) -> int:
    tolerated = shape.spec.get("tolerations") or ()
    return sum(
        taint["effect"] == "PreferNoSchedule" and not tolerations.tolerates(tolerated, taint) for taint in node.taints
    )
