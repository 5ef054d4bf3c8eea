"""Which labels a selector takes and which taints a toleration covers, by Kubernetes' rules. Pure predicates."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from autoscaler.kube import objects, shapes, wire

_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_HARD: Final = frozenset({"NoSchedule", "NoExecute"})


def holds(requirement: wire.Requirement, value: str | None) -> bool:
    """Tell whether a label's value, None where it is absent, meets a requirement."""
    return _OPERATORS[requirement.operator](value, requirement.values)


def labels_match(selector: wire.LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Tell whether labels meet a selector; an empty one takes all, an absent one nothing."""
    if selector is None:
        return False
    for key, value in selector.match_labels.items():
        if labels.get(key) != value:
            return False
    return all(holds(requirement, labels.get(requirement.key)) for requirement in selector.match_expressions)


def selects(shape: shapes.Shape, node: objects.Node) -> bool:
    """Tell whether a pod's node selector and required node affinity take a node, taints aside."""
    labels = node.meta.labels
    if any(labels.get(key) != value for key, value in shape.node_selector.items()):
        return False
    affinity = shape.affinity.node_affinity if shape.affinity else None
    if affinity is None or affinity.required is None:
        return True
    return any(_term_takes(term, node) for term in affinity.required.node_selector_terms)


def untolerated(
    taints: Iterable[objects.NodeTaint], tolerations: tuple[wire.Toleration, ...]
) -> objects.NodeTaint | None:
    """Return the first taint that keeps a pod away; PreferNoSchedule keeps nobody away."""
    for taint in taints:
        if taint.effect in _HARD and not any(_covers(toleration, taint) for toleration in tolerations):
            return taint
    return None


def _term_takes(term: wire.NodeTerm, node: objects.Node) -> bool:
    """Tell whether one term takes a node; an empty one takes none."""
    if not term.match_expressions and not term.match_fields:
        return False
    labels, name = node.meta.labels, node.meta.key.name
    named = all(each.key == "metadata.name" and holds(each, name) for each in term.match_fields)
    return named and all(holds(each, labels.get(each.key)) for each in term.match_expressions)


def _is_beyond(value: str | None, values: tuple[str, ...], sign: int) -> bool:
    if value is None or len(values) != 1 or not _INTEGER.fullmatch(value) or not _INTEGER.fullmatch(values[0]):
        return False
    return sign * int(value) > sign * int(values[0])


def _covers(toleration: wire.Toleration, taint: objects.NodeTaint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.value


_OPERATORS: Final[Mapping[str, Callable[[str | None, tuple[str, ...]], bool]]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
    "Gt": lambda value, values: _is_beyond(value, values, 1),
    "Lt": lambda value, values: _is_beyond(value, values, -1),
}
