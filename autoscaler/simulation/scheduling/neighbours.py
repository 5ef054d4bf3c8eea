"""Rules between pods: required affinity, anti-affinity in both directions, and topology spread."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from autoscaler.api.manifests import Manifest
from autoscaler.simulation.cluster import selectors
from autoscaler.simulation.scheduling import node_affinity
from autoscaler.simulation.scheduling.model import Node, Placed, Shape

AFFINITY: Final = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY: Final = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY: Final = "node(s) didn't satisfy existing pods anti-affinity rules"
SPREAD: Final = "node(s) didn't match pod topology spread constraints"
SPREAD_LABEL: Final = f"{SPREAD} (missing required label)"
Domain = tuple[str, str]
"""A topology key and its value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pods:
    """The pods on nodes, as rules between pods need them."""

    nodes: Mapping[str, Node]
    all: Iterable[Placed]
    repelling: Iterable[Placed]
    """Those with required anti-affinity of their own."""
    namespace_labels: Callable[[str], Mapping[str, str]]


class Rules:
    """What the pods that are there say to one pod, worked out once for all nodes."""

    def __init__(self, shape: Shape, pods: Pods) -> None:
        self._shape = shape
        self._pods = pods
        self._blocked = self._blocked_domains()
        self._repelled = [self._domains(term) for term in shape.anti_affinity_terms]
        self._attracted = [self._domains(term) for term in shape.affinity_terms]
        self._is_first = not any(self._attracted) and all(
            self._term_covers(term, shape.namespace, shape) for term in shape.affinity_terms
        )
        self._spread = [self._spread_room(constraint) for constraint in shape.spread]

    def verdict(self, node: Node) -> str | None:
        """Say why a node is not to be, in the order of the real plugins."""
        for constraint, room in zip(self._shape.spread, self._spread, strict=True):
            value = node.labels.get(constraint["topologyKey"])
            if value is None:
                return SPREAD_LABEL
            if value not in room:
                return SPREAD
        for term, domains in zip(self._shape.affinity_terms, self._attracted, strict=True):
            domain = _domain(term, node)
            if domain is None or (domain not in domains and not self._is_first):
                return AFFINITY
        for term, domains in zip(self._shape.anti_affinity_terms, self._repelled, strict=True):
            if _domain(term, node) in domains:
                return ANTI_AFFINITY
        if any((key, value) in self._blocked for key, value in node.labels.items()):
            return EXISTING_ANTI_AFFINITY
        return None

    def _blocked_domains(self) -> set[Domain]:
        """Where pods are that want none like this one near them."""
        blocked: set[Domain] = set()
        for pod in self._pods.repelling:
            node = self._pods.nodes.get(pod.node)
            for term in pod.shape.anti_affinity_terms if node else ():
                if self._term_covers(term, pod.shape.namespace, self._shape):
                    domain = _domain(term, node)
                    blocked |= {domain} if domain else set()
        return blocked

    def _domains(self, term: Manifest) -> set[Domain]:
        """Where pods are that a term speaks of."""
        found: set[Domain] = set()
        for pod in self._pods.all:
            node = self._pods.nodes.get(pod.node)
            if node and self._term_covers(term, self._shape.namespace, pod.shape):
                domain = _domain(term, node)
                found |= {domain} if domain else set()
        return found

    def _term_covers(self, term: Manifest, own_namespace: str, other: Shape) -> bool:
        """Tell whether a term of a pod in `own_namespace` speaks of another pod."""
        return self._is_in_scope(term, own_namespace, other.namespace) and selectors.labels_match(
            term.get("labelSelector"), other.labels
        )

    def _is_in_scope(self, term: Manifest, own: str, other: str) -> bool:
        names, selector = term.get("namespaces") or (), term.get("namespaceSelector")
        if not names and selector is None:
            return own == other
        if other in names:
            return True
        return selector is not None and selectors.labels_match(selector, self._pods.namespace_labels(other))

    def _spread_room(self, constraint: Manifest) -> set[str]:
        """Return the values of the topology key under which one more pod keeps the skew."""
        key, selector = constraint["topologyKey"], _spread_selector(constraint, self._shape)
        counts: Counter[str] = Counter()
        for node in self._pods.nodes.values():
            if self._counts_for_spread(constraint, node):
                counts[node.labels[key]] += sum(
                    not pod.is_leaving
                    and pod.shape.namespace == self._shape.namespace
                    and selectors.labels_match(selector, pod.shape.labels)
                    for pod in node.pods.values()
                )
        least = min(counts.values(), default=0)
        if len(counts) < constraint.get("minDomains", 1):
            least = 0
        own = int(selectors.labels_match(selector, self._shape.labels))
        everywhere = {node.labels[key] for node in self._pods.nodes.values() if key in node.labels}
        return {value for value in everywhere if counts[value] + own - least <= constraint["maxSkew"]}

    def _counts_for_spread(self, constraint: Manifest, node: Node) -> bool:
        """A node counts if the pod selects it and it has all topology keys; taints do not matter by default."""
        if any(other["topologyKey"] not in node.labels for other in self._shape.spread):
            return False
        if constraint.get("nodeAffinityPolicy", "Honor") != "Honor":
            return True
        return node_affinity.matches(self._shape.spec, node.labels, node.name)


def _spread_selector(constraint: Manifest, shape: Shape) -> Manifest | None:
    selector: Manifest | None = constraint.get("labelSelector")
    keys = constraint.get("matchLabelKeys") or ()
    if selector is None or not keys:
        return selector
    also = {key: shape.labels[key] for key in keys if key in shape.labels}
    return {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), **also}}


def _domain(term: Manifest, node: Node | None) -> Domain | None:
    key = term["topologyKey"]
    return (key, node.labels[key]) if node is not None and key in node.labels else None
