"""Which nodes a pod selects, by their labels and names."""

import re
from collections.abc import Callable, Mapping
from typing import Final

from autoscaler.api.manifests import Manifest

_INTEGER: Final = re.compile(r"[+-]?[0-9]+")


def matches(spec: Manifest, labels: Mapping[str, str], name: str) -> bool:
    """Tell whether a node has what a pod's nodeSelector and required affinity demand."""
    for key, value in (spec.get("nodeSelector") or {}).items():
        if labels.get(key) != value:
            return False
    required = _node_affinity(spec).get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    return any(term_matches(term, labels, name) for term in required["nodeSelectorTerms"])


def preference(spec: Manifest, labels: Mapping[str, str], name: str) -> int:
    """Add up the weights of the preferred terms that a node meets."""
    preferred = _node_affinity(spec).get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    return sum(item["weight"] for item in preferred if term_matches(item["preference"], labels, name))


def has_preferences(spec: Manifest) -> bool:
    return bool(_node_affinity(spec).get("preferredDuringSchedulingIgnoredDuringExecution"))


def term_matches(term: Manifest, labels: Mapping[str, str], name: str) -> bool:
    """All parts of a term must hold; an empty one matches nothing."""
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    return all(_holds(expression, labels) for expression in expressions) and all(
        _holds(expression, {"metadata.name": name}) for expression in fields
    )


def _holds(expression: Manifest, labels: Mapping[str, str]) -> bool:
    value = labels.get(expression["key"])
    return _OPERATORS[expression["operator"]](value, expression.get("values") or [])


def _is_beyond(value: str | None, values: list[str], sign: int) -> bool:
    if value is None or not _INTEGER.fullmatch(value):
        return False
    return sign * int(value) > sign * int(values[0])


_OPERATORS: Final[Mapping[str, Callable[[str | None, list[str]], bool]]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
    "Gt": lambda value, values: _is_beyond(value, values, 1),
    "Lt": lambda value, values: _is_beyond(value, values, -1),
}


def _node_affinity(spec: Manifest) -> Manifest:
    affinity: Manifest = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    return affinity
