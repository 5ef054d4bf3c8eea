"""Inputs as they are now: what a Read answers, so that a refresh sees drift in what the user manages. Pure."""

from collections.abc import Callable, Mapping

from tools.engine.providers import wire

IsEqual = Callable[[wire.Value, wire.Value], bool]


def as_now(inputs: wire.Value, live: wire.Value, is_equal: IsEqual) -> wire.Value:
    """Return the inputs with live values; what was no input stays out, other spellings of the same are no drift."""
    match inputs:
        case wire.Secret():
            return wire.Secret(as_now(inputs.value, live, is_equal))
        case Mapping() if isinstance(live, Mapping):
            both = {name: as_now(value, live.get(name), is_equal) for name, value in inputs.items()}
            return {name: value for name, value in both.items() if value is not None or inputs[name] is None}
        case list() if isinstance(live, list) and len(live) == len(inputs):
            return [as_now(value, other, is_equal) for value, other in zip(inputs, live, strict=True)]
        case _:
            is_same = (live is None and inputs in ({}, [], None)) or is_equal(inputs, live)
            return inputs if is_same else live
