"""A live object in the shape of its inputs: what the provider compares new inputs with, and what a refresh reads. Pure.

The server drops some of what it was sent, such as an empty list in a definition of custom resources. Of a built-in kind
the provider drops and spells the same way as the server, because it knows the kind's fields; of a definition or a
custom resource it knows nothing, and what the server dropped is a difference.
"""

from collections.abc import Mapping

from tools.engine.providers import wire
from tools.engine.providers.kubernetes import quantities, readiness


def pruned(inputs: Mapping[str, wire.Value], live: Mapping[str, wire.Value]) -> wire.Properties:
    """Return of a live object what the inputs say something about."""
    found: wire.Properties = _pruned(inputs, live, is_known=_is_known_kind(inputs))
    return found


def _pruned(inputs: wire.Value, live: wire.Value, *, is_known: bool) -> wire.Value:
    match inputs:
        case wire.Secret():
            return wire.Secret(_pruned(inputs.value, live, is_known=is_known))
        case Mapping() if isinstance(live, Mapping):
            return {
                name: value if live.get(name) is None else _pruned(value, live[name], is_known=is_known)
                for name, value in inputs.items()
                if live.get(name) is not None or value is None or (is_known and not value)
            }
        case list() if isinstance(live, list):
            return [_pruned(value, other, is_known=is_known) for value, other in zip(inputs, live, strict=False)]
        case _:
            return inputs if is_known and quantities.is_equal(inputs, live) else live


def _is_known_kind(inputs: Mapping[str, wire.Value]) -> bool:
    """Tell whether the provider has the fields of this kind built in."""
    group = str(inputs.get("apiVersion", "")).rpartition("/")[0]
    is_built_in = "." not in group or group.endswith(".k8s.io")
    return is_built_in and (group, inputs.get("kind")) != readiness.DEFINITION
