"""What a node of a group will be, read from the group's tags or from the stack's own specification. Pure.

Tags are user input: one that cannot be read makes the group unusable, with the tag's name, and never a wrong node.
"""

from collections.abc import Mapping
from typing import Final

import pydantic

from autoscaler.api import keys, quantities
from autoscaler.api.resources.pools import Architecture
from autoscaler.api.resources.types import Taint
from autoscaler.api.settings.node_groups import NodeGroupSpec
from autoscaler.cloud import port

CPU: Final = "cpu"


def of_tags(tags: Mapping[str, str]) -> port.NodeTemplate:
    """Read node-template tags; raise ValueError that names the tag that cannot be read."""
    labels = _with_prefix(tags, keys.TAG_TEMPLATE_LABEL)
    resources = _with_prefix(tags, keys.TAG_TEMPLATE_RESOURCES)
    return port.NodeTemplate(
        labels=labels,
        taints=tuple(_taint(key, text) for key, text in _with_prefix(tags, keys.TAG_TEMPLATE_TAINT).items()),
        resources={name: _amount(name, text) for name, text in resources.items()},
        architecture=_architecture(labels),
    )


def of_spec(spec: NodeGroupSpec) -> port.NodeTemplate:
    """Return what the tags of a group with this specification say."""
    return port.NodeTemplate(
        labels=dict(sorted(spec.labels.items())),
        taints=tuple(sorted(spec.taints, key=lambda taint: taint.key)),
        resources={name: _amount(name, text) for name, text in sorted(spec.resources.items())},
        architecture=_architecture(spec.labels),
    )


def _taint(key: str, text: str) -> Taint:
    """Read `value:Effect`, as the cluster-autoscaler's tags write taints."""
    value, _, effect = text.rpartition(":")
    try:
        return Taint.model_validate({"key": key, "value": value, "effect": effect})
    except pydantic.ValidationError as error:
        raise ValueError(
            f"tag {keys.TAG_TEMPLATE_TAINT}{key} is {text!r}, not a taint such as gpu:NoSchedule"
        ) from error


def _amount(name: str, text: str) -> int:
    try:
        return quantities.millis(text) if name == CPU else quantities.units(text)
    except ValueError as error:
        raise ValueError(f"tag {keys.TAG_TEMPLATE_RESOURCES}{name}: {error}") from error


def _architecture(labels: Mapping[str, str]) -> Architecture | None:
    named = labels.get(keys.ARCHITECTURE)
    return Architecture(named) if named in set(Architecture) else None


def _with_prefix(tags: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {key.removeprefix(prefix): value for key, value in sorted(tags.items()) if key.startswith(prefix)}
