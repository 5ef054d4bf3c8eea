"""Which nodes a pod fits on, and why not on the others, in the real scheduler's words."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from autoscaler.simulation import tolerations
from autoscaler.simulation.scheduling import neighbours, node_affinity, requests, volumes
from autoscaler.simulation.scheduling.model import Node, Shape

UNSCHEDULABLE: Final = "node(s) were unschedulable"
TAINTED: Final = "node(s) had untolerated taint(s)"
NOT_SELECTED: Final = "node(s) didn't match Pod's node affinity/selector"
TOO_MANY_PODS: Final = "Too many pods"
NO_NODES: Final = "no nodes available to schedule pods"
_UNSCHEDULABLE_TAINT: Final = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
_HOPELESS: Final = frozenset({neighbours.AFFINITY, neighbours.SPREAD_LABEL, volumes.CONFLICT})
"""Taking other pods away would not help, as with everything that the node itself says."""


@dataclass(slots=True)
class Diagnosis:
    """Where a pod fits, and how many nodes say no for which reason."""

    feasible: list[Node] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    refusal: str | None = None
    """Why it fits nowhere, whatever the node; None: nodes decide."""
    nodes: int = 0
    hopeless: int = 0
    """Nodes on which preemption would not help."""

    def message(self) -> str:
        """Say it as the real scheduler writes it into the pod's condition."""
        if not self.nodes:
            return NO_NODES
        if self.refusal is not None:
            return f"0/{self.nodes} nodes are available: {self.refusal}. not found"
        said = sorted(f"{count} {reason}" for reason, count in self.reasons.items())
        others = self.nodes - self.hopeless
        preemption = sorted(
            f"{count} {why}"
            for count, why in (
                (others, "No preemption victims found for incoming pod"),
                (self.hopeless, "Preemption is not helpful for scheduling"),
            )
            if count
        )
        available = f"0/{self.nodes} nodes are available:"
        return (
            f"{available} {', '.join(said)}. no new claims to deallocate,"
            f" preemption: {available} {', '.join(preemption)}."
        )


def diagnose(
    shape: Shape, nodes: Iterable[Node], rules: neighbours.Rules | None, claimed: volumes.Volumes | None = None
) -> Diagnosis:
    """Try a pod on every node; without rules, no other pod has a say, and without claims, no volume has."""
    diagnosis = Diagnosis(refusal=claimed.refusal(shape) if claimed else None)
    for node in nodes:
        diagnosis.nodes += 1
        if diagnosis.refusal is not None:
            diagnosis.hopeless += 1
            continue
        said = own_verdict(shape, node)
        if said is not None:
            diagnosis.reasons[said] += 1
            diagnosis.hopeless += 1
            continue
        lacking, is_hopeless = shortage(shape, node)
        if lacking:
            diagnosis.reasons.update(lacking)
            diagnosis.hopeless += is_hopeless
            continue
        said = claimed.verdict(shape, node) if claimed else None
        if said is None and rules:
            said = rules.verdict(node)
        if said is not None:
            diagnosis.reasons[said] += 1
            diagnosis.hopeless += said in _HOPELESS
            continue
        diagnosis.feasible.append(node)
    return diagnosis


def own_verdict(shape: Shape, node: Node) -> str | None:
    """Say why a node's own marks keep a pod away, remembered for all pods of the shape."""
    if shape not in node.verdicts:
        node.verdicts[shape] = _own_verdict(shape, node)
    return node.verdicts[shape]


def shortage(shape: Shape, node: Node) -> tuple[list[str], bool]:
    """Name what a node has too little of, and tell whether it would be too little even if it were empty."""
    lacking: list[str] = []
    is_hopeless = False
    if len(node.pods) + 1 > node.allocatable.get(requests.PODS, 0):
        lacking.append(TOO_MANY_PODS)
    for name, amount in shape.requests.items():
        room = node.allocatable.get(name, 0)
        if amount + node.used.get(name, 0) > room:
            lacking.append(f"Insufficient {name}")
            is_hopeless = is_hopeless or amount > room
    return lacking, is_hopeless


def _own_verdict(shape: Shape, node: Node) -> str | None:
    tolerated = shape.spec.get("tolerations") or ()
    if node.is_unschedulable and not tolerations.tolerates(tolerated, _UNSCHEDULABLE_TAINT):
        return UNSCHEDULABLE
    for taint in node.taints:
        if taint["effect"] in {"NoSchedule", "NoExecute"} and not tolerations.tolerates(tolerated, taint):
            return TAINTED
    if not node_affinity.matches(shape.spec, node.labels, node.name):
        return NOT_SELECTED
    return None
