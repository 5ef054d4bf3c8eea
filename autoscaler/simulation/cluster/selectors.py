"""Label and field selectors: which objects a list or a watch is about."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from autoscaler.api.manifests import Manifest
from autoscaler.kube import kinds
from autoscaler.kube.kinds import ResourceType
from autoscaler.simulation.cluster import failures

Predicate = Callable[[Manifest], bool]

_NAME: Final = r"[A-Za-z0-9][-A-Za-z0-9_./]*"
_SET: Final = re.compile(rf"\s*({_NAME})\s+(in|notin)\s+\(([^()]*)\)\s*")
_EQUALITY: Final = re.compile(rf"\s*({_NAME})\s*(==|=|!=)\s*([-A-Za-z0-9_.]*)\s*")
_ORDER: Final = re.compile(rf"\s*({_NAME})\s*(>|<)\s*(-?[0-9]+)\s*")
_PRESENCE: Final = re.compile(rf"\s*(!?)\s*({_NAME})\s*")
_FIELD: Final = re.compile(r"([A-Za-z0-9.\[\]]+)(==|=|!=)(.*)")

_EVERY_KIND: Final = ("metadata.name", "metadata.namespace")
_FIELDS: Final[Mapping[ResourceType, tuple[str, ...]]] = {
    kinds.PODS: (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    kinds.NODES: ("spec.unschedulable",),
    kinds.NAMESPACES: ("status.phase",),
    kinds.SECRETS: ("type",),
    kinds.JOBS: ("status.successful",),
    kinds.EVENTS: (
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
}


def everything(_: Manifest) -> bool:
    return True


def of_query(resource: ResourceType, query: Mapping[str, str]) -> Predicate:
    """Make the predicate of a list's or a watch's query; refuse what the API server would."""
    parts = [
        *label_requirements(query.get("labelSelector", "")),
        *_field_requirements(resource, query.get("fieldSelector", "")),
    ]
    if not parts:
        return everything
    return parts[0] if len(parts) == 1 else lambda body: all(part(body) for part in parts)


def label_requirements(text: str) -> list[Predicate]:
    """Read `a=b,c in (d,e),!f`."""
    return [_label_requirement(part) for part in _split(text)] if text.strip() else []


def labels_match(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Tell whether labels meet a selector as objects hold them; an empty one selects all, an absent one nothing."""
    if selector is None:
        return False
    return all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items()) and all(
        _expression_holds(expression, labels) for expression in selector.get("matchExpressions") or ()
    )


def _expression_holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value, values = labels.get(expression["key"]), expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case _:
            return value is None


def _split(text: str) -> Iterable[str]:
    """Split at commas that are not within parentheses."""
    return re.split(r",(?![^(]*\))", text)


def _labels(body: Manifest) -> Mapping[str, str]:
    labels: Mapping[str, str] = body["metadata"].get("labels") or {}
    return labels


def _label_requirement(text: str) -> Predicate:
    if found := _SET.fullmatch(text):
        key, values = found[1], frozenset(value.strip() for value in found[3].split(","))
        if found[2] == "in":
            return lambda body: _labels(body).get(key) in values
        return lambda body: _labels(body).get(key) not in values
    if found := _EQUALITY.fullmatch(text):
        key, value = found[1], found[3]
        if found[2] == "!=":
            return lambda body: _labels(body).get(key) != value
        return lambda body: _labels(body).get(key) == value
    if found := _ORDER.fullmatch(text):
        key, bound, is_greater = found[1], int(found[3]), found[2] == ">"
        return lambda body: _is_beyond(_labels(body).get(key), bound, is_greater=is_greater)
    if found := _PRESENCE.fullmatch(text):
        key, is_wanted = found[2], not found[1]
        return lambda body: (key in _labels(body)) is is_wanted
    raise failures.bad_request(f"unable to parse requirement: {text!r}")


def _is_beyond(value: str | None, bound: int, *, is_greater: bool) -> bool:
    if value is None or not re.fullmatch(r"-?[0-9]+", value):
        return False
    return int(value) > bound if is_greater else int(value) < bound


def _field_requirements(resource: ResourceType, text: str) -> list[Predicate]:
    known = (*_EVERY_KIND, *_FIELDS.get(resource, ()))
    requirements: list[Predicate] = []
    for part in filter(None, text.split(",")):
        found = _FIELD.fullmatch(part.strip())
        if found is None:
            raise failures.bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        if found[1] not in known:
            raise failures.bad_request(f'"{found[1]}" is not a known field selector: only {_quoted(known)}')
        requirements.append(_field_requirement(found[1], found[3], is_equal=found[2] != "!="))
    return requirements


def _field_requirement(path: str, value: str, *, is_equal: bool) -> Predicate:
    steps = ("source", "component") if path == "source" else tuple(path.split("."))
    return lambda body: (_field(body, steps) == value) is is_equal


def _field(body: Manifest, steps: tuple[str, ...]) -> str:
    value: Any = body
    for step in steps:
        value = value.get(step) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "false" if steps == ("spec", "unschedulable") else ""
    return str(value)


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
