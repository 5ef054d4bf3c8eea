"""Many nodes or node groups at once: which of them a pod selects, tolerates and fits on, as the bits of one number.

A set of nodes is an integer, bit i for the i-th node, so that a question about 1,000 groups is a few operations on
integers, asked once per shape. Indexes are made when first asked for: what nobody selects by costs nothing.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from autoscaler.capacity import model
from autoscaler.kube import objects, selecting, shapes, wire

Value = TypeVar("Value")
Thresholds = tuple[list[int], list[int]]
"""Negated amounts in order, and the nodes that have at least so much: one set more than there are amounts."""


class Index:
    """What the nodes are, looked up by label, taint and amount."""

    def __init__(
        self,
        *,
        names: Sequence[str],
        labels: Sequence[Mapping[str, str]],
        taints: Sequence[tuple[objects.NodeTaint, ...]],
        amounts: Sequence[Mapping[str, int]],
    ) -> None:
        self.all = (1 << len(labels)) - 1
        self._names = names
        self._labels = labels
        self._amounts = amounts
        self._taints = taints
        self._by_taints: dict[tuple[objects.NodeTaint, ...], int] | None = None
        self._values: dict[str, dict[str | None, int]] = {}
        self._tolerated: dict[tuple[wire.Toleration, ...], int] = {}
        self._thresholds: dict[str, Thresholds] = {}

    def with_value(self, key: str) -> dict[str | None, int]:
        """Return the nodes by the value of a label; those without it under None."""
        known = self._values.get(key)
        if known is None:
            known = self._values[key] = by_value([labels.get(key) for labels in self._labels])
        return known

    def selected(self, selector: Mapping[str, str]) -> int:
        """Return the nodes that have all these labels."""
        found = self.all
        for key, value in selector.items():
            found &= self.with_value(key).get(value, 0)
        return found

    def affine(self, required: wire.NodeSelector | None) -> int:
        """Return the nodes that meet a required node affinity: any term, and all of that term."""
        if required is None:
            return self.all
        found = 0
        for term in required.node_selector_terms:
            found |= self._term(term)
        return found

    def tolerated(self, tolerations: tuple[wire.Toleration, ...]) -> int:
        """Return the nodes whose taints are tolerated."""
        known = self._tolerated.get(tolerations)
        if known is None:
            known = 0
            for taints, nodes in self.tainted().items():
                if selecting.untolerated(taints, tolerations) is None:
                    known |= nodes
            self._tolerated[tolerations] = known
        return known

    def tainted(self) -> dict[tuple[objects.NodeTaint, ...], int]:
        """Return the nodes by their taints."""
        if self._by_taints is None:
            self._by_taints = by_value(self._taints)
        return self._by_taints

    def eligible(self, shape: shapes.Shape) -> int:
        """Return the nodes that a shape selects, taints aside."""
        affinity = shape.affinity.node_affinity if shape.affinity else None
        found = self.selected(shape.node_selector) if shape.node_selector else self.all
        return found & self.affine(affinity.required) if affinity else found

    def with_amounts(self, wanted: Iterable[tuple[str, int]]) -> int:
        """Return the nodes that have at least these amounts."""
        found = self.all
        for resource, amount in wanted:
            found &= self._at_least(resource, amount)
        return found

    def _at_least(self, resource: str, amount: int) -> int:
        known = self._thresholds.get(resource)
        if known is None:
            absent = model.absent(resource)
            places = by_value([has.get(resource, absent) for has in self._amounts])
            known = self._thresholds[resource] = thresholds(list(places), list(places.values()))
        return at_least(known, amount)

    def _term(self, term: wire.NodeTerm) -> int:
        if not term.match_expressions and not term.match_fields:
            return 0
        found = self.all
        for requirement in term.match_expressions:
            values = self.with_value(requirement.key).items()
            found &= _union(nodes for value, nodes in values if selecting.holds(requirement, value))
        for requirement in term.match_fields:
            named = (1 << i for i, name in enumerate(self._names) if selecting.holds(requirement, name))
            found &= _union(named) if requirement.key == "metadata.name" else 0
        return found


def bits(nodes: int) -> Iterator[int]:
    """Return the places of the bits that are set, lowest first."""
    while nodes:
        lowest = nodes & -nodes
        yield lowest.bit_length() - 1
        nodes ^= lowest


def _union(masks: Iterable[int]) -> int:
    found = 0
    for mask in masks:
        found |= mask
    return found


def by_value(values: Sequence[Value]) -> dict[Value, int]:
    """Return the places of each value as bits."""
    found: dict[Value, int] = {}
    bit = 1
    for value in values:
        found[value] = found.get(value, 0) | bit
        bit <<= 1
    return found


def thresholds(amounts: Sequence[int], nodes: Sequence[int]) -> Thresholds:
    """Prepare to answer who has at least some amount, given amounts and the nodes that have each."""
    ordered: list[int] = []
    masks = [0]
    for amount, having in sorted(zip(amounts, nodes, strict=True), reverse=True):
        ordered.append(-amount)
        masks.append(masks[-1] | having)
    return ordered, masks


def at_least(prepared: Thresholds, amount: int) -> int:
    """Return the nodes that have at least an amount."""
    ordered, masks = prepared
    return masks[bisect_right(ordered, -amount)]
