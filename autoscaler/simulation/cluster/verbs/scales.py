"""The scale subresource: one number of an object's spec, and the selector that disruption budgets count pods by."""

from collections.abc import Callable
from typing import Any

from autoscaler.api.manifests import Manifest
from autoscaler.simulation.cluster import failures, merging, served


def of(kind: served.Kind, body: Manifest) -> Manifest:
    """Show an object as a Scale."""
    scale = _scale(kind)
    shown = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: Manifest = {"replicas": _get(body, scale.status_replicas) or 0}
    selector = _get(body, scale.selector)
    if selector:
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: body["metadata"][name] for name in shown if name in body["metadata"]},
        "spec": {"replicas": replicas(kind, body)},
        "status": status,
    }


def replicas(kind: served.Kind, body: Manifest) -> int:
    """Return how many pods an object asks for."""
    number: int = _get(body, _scale(kind).replicas) or 0
    return number


def change(kind: served.Kind, body: Manifest, *, is_patch: bool) -> Callable[[Manifest], Manifest]:
    """Make the change of the object that a written Scale means."""

    def apply(old: Manifest) -> Manifest:
        scale = merging.merge(of(kind, old), body) if is_patch else body
        wanted = (scale.get("spec") or {}).get("replicas", 0)
        if wanted < 0:
            cause = failures.as_cause("spec.replicas", "must be greater than or equal to 0", value=wanted)
            raise failures.invalid(kind.resource, old["metadata"]["name"], (cause,))
        given = scale.get("metadata") or {}
        version = given.get("resourceVersion", old["metadata"]["resourceVersion"])
        uid = given.get("uid", old["metadata"]["uid"])
        metadata = {**old["metadata"], "resourceVersion": version, "uid": uid}
        return _set({**old, "metadata": metadata}, _scale(kind).replicas, wanted)

    return apply


def _scale(kind: served.Kind) -> served.Scale:
    if kind.scale is None:
        raise failures.not_served()
    return kind.scale


def _get(body: Manifest, steps: tuple[str, ...]) -> Any:  # noqa: ANN401 - JSON
    value: Any = body
    for step in steps:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _set(body: Manifest, steps: tuple[str, ...], value: object) -> Manifest:
    first, *rest = steps
    return {**body, first: _set(body.get(first) or {}, tuple(rest), value) if rest else value}
