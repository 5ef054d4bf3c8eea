"""JSON merge patches (RFC 7386), without touching what they are applied to."""

from typing import Any

from autoscaler.api.manifests import Manifest


def merge(target: Manifest, patch: Manifest) -> Manifest:
    """Return the target with the patch applied; what the patch does not name is shared, not copied."""
    merged: Manifest = _merge(target, patch)
    return merged


def without_nulls(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Leave out fields that are null, as decoding into a built-in kind does."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def _merge(target: Any, patch: Any) -> Any:  # noqa: ANN401 - JSON
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merge(merged.get(key), value)
    return merged
