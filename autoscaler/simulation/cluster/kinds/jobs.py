"""Jobs at the API server: what it fills in, and what of them may not change.

Of a suspended Job's template anything may change here; the real server allows resources and where pods may go.
"""

from typing import Final

from autoscaler.api import keys
from autoscaler.api.manifests import Manifest
from autoscaler.simulation.cluster import failures
from autoscaler.simulation.cluster.failures import Cause
from autoscaler.simulation.cluster.store import Store

INDEXED: Final = "Indexed"
_IMMUTABLE: Final = "field is immutable"
_FIXED: Final = ("selector", "completionMode", "managedBy")


def begin(body: Manifest, _store: Store, _now: float) -> Manifest:
    """Give a new Job the values that the API server fills in, and labels to know its pods by."""
    given, metadata = body.get("spec") or {}, body["metadata"]
    template = given.get("template") or {}
    spec = {
        "parallelism": 1,
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "suspend": False,
        "podReplacementPolicy": "TerminatingOrFailed",
        "manualSelector": False,
        **given,
        "selector": {"matchLabels": {keys.JOB_CONTROLLER_UID: metadata["uid"]}},
        "template": {**template, "metadata": _labelled(template.get("metadata") or {}, metadata)},
    }
    if "parallelism" not in given:
        spec.setdefault("completions", 1)
    return {**body, "spec": spec, "status": {}}


def causes(body: Manifest, old: Manifest | None) -> list[Cause]:
    """Say what is wrong with the change of a Job."""
    if old is None:
        return []
    spec, before = body["spec"], old["spec"]
    fixed = _FIXED if before.get("suspend") else (*_FIXED, "template")
    found = [
        failures.as_cause(f"spec.{name}", _IMMUTABLE, value=spec.get(name))
        for name in fixed
        if spec.get(name) != before.get(name)
    ]
    return found + (_completions_causes(spec) if spec.get("completions") != before.get("completions") else [])


def is_indexed(job: Manifest) -> bool:
    return bool(job["spec"]["completionMode"] == INDEXED)


def _labelled(template: Manifest, job: Manifest) -> Manifest:
    labels = {
        keys.JOB_NAME: job["name"],
        keys.JOB_NAME_LEGACY: job["name"],
        keys.JOB_CONTROLLER_UID: job["uid"],
        keys.JOB_CONTROLLER_UID_LEGACY: job["uid"],
    }
    return {**template, "labels": labels | (template.get("labels") or {})}


def _completions_causes(spec: Manifest) -> list[Cause]:
    value = spec.get("completions")
    if spec["completionMode"] != INDEXED:
        return [failures.as_cause("spec.completions", _IMMUTABLE, value=value)]
    if value != spec["parallelism"]:
        why = "can only be modified in tandem with spec.parallelism"
        return [failures.as_cause("spec.completions", why, value=value)]
    return []
