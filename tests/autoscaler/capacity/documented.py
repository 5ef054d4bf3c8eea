"""What a pod and a node say to each other, from Kubernetes' documentation alone; it shares no code with placement."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from autoscaler.capacity import model
from autoscaler.kube import wire

ZONE_KEYS = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
HOST_KEY = "kubernetes.io/hostname"


@dataclass(eq=False, kw_only=True)
class Pods:
    """Pods alike on one node."""

    namespace: str
    labels: Mapping[str, str]
    shape: Any
    count: int
    demand: model.Demand | None = None


@dataclass(eq=False, kw_only=True)
class Node:
    """A node, with all that would be on it."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Any, ...]
    free: Mapping[str, int]
    zone: str
    key: Any = None
    is_room: bool = False
    pods: list[Pods] = field(default_factory=list)

    @property
    def new(self) -> list[Pods]:
        return [pods for pods in self.pods if pods.demand is not None]


def selects(shape: Any, node: Node) -> bool:
    if any(node.labels.get(key) != value for key, value in shape.node_selector.items()):
        return False
    if not shape.affinity or not shape.affinity.node_affinity or not shape.affinity.node_affinity.required:
        return True
    terms = shape.affinity.node_affinity.required.node_selector_terms
    return any(_term_holds(term, node) for term in terms)


def _term_holds(term: wire.NodeTerm, node: Node) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    name = {"metadata.name": node.name} if node.is_room else {"metadata.name": "unknown-yet"}
    return all(_expression(e, node.labels) for e in term.match_expressions) and all(
        _expression(e, name) for e in term.match_fields
    )


def _expression(expression: wire.Requirement, labels: Mapping[str, str]) -> bool:
    there = expression.key in labels
    value = labels.get(expression.key, "")
    if expression.operator == "In":
        return there and value in expression.values
    if expression.operator == "NotIn":
        return not there or value not in expression.values
    if expression.operator == "Exists":
        return there
    if expression.operator == "DoesNotExist":
        return not there
    try:
        number, bound = int(value), int(expression.values[0])
    except ValueError:
        return False
    return number > bound if expression.operator == "Gt" else number < bound


def tolerated(tolerations: Iterable[wire.Toleration], taint: Any) -> bool:
    for one in tolerations:
        effect_fits = one.effect in ("", taint.effect)
        if one.operator == "Exists" and effect_fits and one.key in ("", taint.key):
            return True
        if one.operator in ("", "Equal") and effect_fits and one.key == taint.key and one.value == taint.value:
            return True
    return False


def _matches(selector: wire.LabelSelector | None, labels: Mapping[str, str]) -> bool:
    if selector is None:
        return False
    return all(labels.get(k) == v for k, v in selector.match_labels.items()) and all(
        _expression(e, labels) for e in selector.match_expressions
    )


def term_covers(situation: model.Situation, term: wire.PodTerm, holder: Pods, other: Pods) -> bool:
    if term.namespaces or term.namespace_selector is not None:
        inside = other.namespace in term.namespaces or _matches(
            term.namespace_selector, situation.namespaces.get(other.namespace, {})
        )
    else:
        inside = holder.namespace == other.namespace
    same = all(holder.labels.get(k) == other.labels.get(k) for k in term.match_label_keys if k in holder.labels)
    unlike = all(holder.labels.get(k) != other.labels.get(k) for k in term.mismatch_label_keys if k in holder.labels)
    return inside and same and unlike and _matches(term.label_selector, other.labels)


def hard_spreads(pods: Pods, *topology: str) -> list[wire.Spread]:
    return [s for s in pods.shape.spread if s.when_unsatisfiable == "DoNotSchedule" and s.topology_key in topology]


def spread_counts(spread: wire.Spread, holder: Pods, other: Pods) -> bool:
    same = all(holder.labels.get(k) == other.labels.get(k) for k in spread.match_label_keys if k in holder.labels)
    return holder.namespace == other.namespace and same and _matches(spread.label_selector, other.labels)


def looks_at(spread: wire.Spread, holder: Pods, node: Node) -> bool:
    if spread.node_affinity_policy == "Honor" and not selects(holder.shape, node):
        return False
    if spread.node_taints_policy == "Honor":
        hard = [taint for taint in node.taints if taint.effect in ("NoSchedule", "NoExecute")]
        return all(tolerated(holder.shape.tolerations, taint) for taint in hard)
    return True


def identity(spread: wire.Spread, holder: Pods) -> bytes:
    shape = holder.shape
    own = (shape.node_selector, shape.affinity.node_affinity if shape.affinity else None, shape.tolerations)
    keys = {key: holder.labels.get(key) for key in spread.match_label_keys}
    return msgspec.msgpack.Encoder(order="deterministic").encode((spread, holder.namespace, keys, own))
