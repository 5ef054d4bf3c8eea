"""What of an object's status must be written. Pure."""

from collections.abc import Mapping
from typing import Any

from autoscaler.api.manifests import Manifest
from autoscaler.api.resources.base import Model


def changes(before: Model, wanted: Model | Mapping[str, Any]) -> Manifest:
    """Return the fields that say something else than they should; empty if nothing is to be written.

    Of a model, the fields that were set are wanted; None takes one away.
    """
    written = before.model_dump(mode="json", by_alias=True, exclude_none=True)
    if isinstance(wanted, Model):
        wanted = wanted.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return {key: value for key, value in wanted.items() if written.get(key) != value}
