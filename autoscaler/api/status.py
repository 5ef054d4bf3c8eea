"""What of an object's status must be written. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from autoscaler.api.manifests import Manifest
from autoscaler.api.resources.base import Model

_NOTHING: Final[tuple[Any, ...]] = ([], {}, "")
"""What need not be written where nothing is."""


def changes(before: Model, wanted: Model | Mapping[str, Any]) -> Manifest:
    """Return the fields that say something else than they should; empty if nothing is to be written.

    Of a model, the fields that were set are wanted; None takes one away. A number that is not there is written, also
    where it is the default: a column that shows it would stay empty.
    """
    if isinstance(wanted, Model):
        wanted = wanted.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return missing(written(before), wanted)


def written(before: Model) -> Manifest:
    """Return what a status says, as it stands in its object."""
    return before.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)


def missing(said: Mapping[str, Any], wanted: Mapping[str, Any]) -> Manifest:
    """Return the same as `changes`, where somebody knows already what the status says."""
    found = {key: value for key, value in wanted.items() if said.get(key) != value}
    return {key: value for key, value in found.items() if key in said or value not in _NOTHING}
