"""Properties on the wire of the plugin protocol: protobuf Structs to Python and back.

Unknown values and secrets stay what they are, as UNKNOWN and Secret, so that a checked input never loses its
secretness. This module knows nothing of resources.
"""

import dataclasses
import enum
import itertools
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from google.protobuf import struct_pb2  # type: ignore[import-untyped]

Value: TypeAlias = Any
"""JSON, with UNKNOWN and Secret anywhere in it."""
Properties: TypeAlias = dict[str, Any]

# One sentinel for each kind of value; a stand-in need not tell them apart.
_SENTINELS: Final = frozenset(
    {
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",
        "04da6b54-80e4-46f7-96ec-b56ff0331ba9",
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",
        "030794c1-ac77-496b-92df-f27374a8bd58",
        "e48ece36-62e2-4504-bad9-02848725956a",
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",
    }
)
_UNKNOWN_STRING: Final = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
_SIGNATURE: Final = "4dabf18193072939515e22adb298388d"
_SECRET: Final = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105 - the protocol's mark of a secret
REDACTED: Final = "[secret]"


class Unknown(enum.Enum):
    """A value that only the deployment will tell."""

    UNKNOWN = "unknown"


UNKNOWN: Final = Unknown.UNKNOWN


@dataclasses.dataclass(frozen=True, slots=True)
class Secret:
    """A value that must be encrypted in the state and never printed."""

    value: Value = dataclasses.field(repr=False)


def decode(struct: struct_pb2.Struct) -> Properties:
    """Turn a Struct into Python values; whole numbers become ints."""
    return {name: _decoded(value) for name, value in struct.fields.items()}


def encode(properties: Mapping[str, Value]) -> struct_pb2.Struct:
    """Turn Python values into a Struct."""
    struct = struct_pb2.Struct()
    for name, value in properties.items():
        _write(struct.fields[name], value)
    return struct


def plain(value: Value) -> Value:
    """Return the value without its secret envelopes."""
    return _transformed(value, lambda secret: plain(secret.value))


def redacted(value: Value) -> Value:
    """Return the value with every secret blacked out, fit for a log."""
    return _transformed(value, lambda _: REDACTED)


def is_known(value: Value) -> bool:
    """Tell whether nothing in the value is unknown."""
    match value:
        case Unknown():
            return False
        case Secret():
            return is_known(value.value)
        case Mapping():
            return all(is_known(each) for each in value.values())
        case list() | tuple():
            return all(is_known(each) for each in value)
        case _:
            return True


def covered(value: Value, like: Value) -> Value:
    """Wrap whatever of the value is a secret in the other one, which has the same shape or less of it."""
    if isinstance(like, Secret):
        return value if isinstance(value, Secret) else Secret(value)
    if isinstance(value, Mapping) and isinstance(like, Mapping):
        return {name: covered(each, like.get(name)) for name, each in value.items()}
    if isinstance(value, list) and isinstance(like, list):
        return [covered(each, other) for each, other in itertools.zip_longest(value, like[: len(value)])]
    return value


def _decoded(value: struct_pb2.Value) -> Value:
    match value.WhichOneof("kind"):
        case "string_value":
            return UNKNOWN if value.string_value in _SENTINELS else value.string_value
        case "number_value":
            number = value.number_value
            return int(number) if number.is_integer() else number
        case "bool_value":
            return value.bool_value
        case "list_value":
            return [_decoded(each) for each in value.list_value.values]
        case "struct_value":
            return _decoded_object(value.struct_value)
        case _:
            return None


def _decoded_object(struct: struct_pb2.Struct) -> Value:
    if _SIGNATURE in struct.fields and struct.fields[_SIGNATURE].string_value == _SECRET:
        return Secret(_decoded(struct.fields["value"]))
    return decode(struct)


def _write(target: struct_pb2.Value, value: Value) -> None:
    match value:
        case None:
            target.null_value = struct_pb2.NULL_VALUE
        case Unknown():
            target.string_value = _UNKNOWN_STRING
        case bool():
            target.bool_value = value
        case int() | float():
            target.number_value = value
        case str():
            target.string_value = value
        case Secret():
            _write_nested(target, {_SIGNATURE: _SECRET, "value": value.value})
        case _:
            _write_nested(target, value)


def _write_nested(target: struct_pb2.Value, value: Value) -> None:
    match value:
        case Mapping():
            target.struct_value.SetInParent()
            for name, each in value.items():
                _write(target.struct_value.fields[name], each)
        case list() | tuple():
            target.list_value.SetInParent()
            for each in value:
                _write(target.list_value.values.add(), each)
        case _:
            raise TypeError(f"cannot send {type(value).__name__} to the engine")


def _transformed(value: Value, of_secret: Callable[[Secret], Value]) -> Value:
    match value:
        case Secret():
            return of_secret(value)
        case Mapping():
            return {name: _transformed(each, of_secret) for name, each in value.items()}
        case list() | tuple():
            return [_transformed(each, of_secret) for each in value]
        case _:
            return value
