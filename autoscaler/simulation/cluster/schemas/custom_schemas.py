"""What a definition's schema does to a custom object: unknown fields are dropped, defaults filled in, the rest checked.

Rules in CEL are looked at only if everything else is right, as by the real API server. What has not changed was right
when it came, and is not looked at again but by rules about the change itself.
"""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from autoscaler.api.manifests import Manifest
from autoscaler.api.schema import Schema
from autoscaler.simulation.cluster import failures
from autoscaler.simulation.cluster.failures import Cause
from autoscaler.simulation.cluster.schemas import cel

_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}
_PARTS: Final = ("spec", "status")
_ABOUT_CHANGES: Final[dict[int, tuple[Schema, bool]]] = {}


def unknown_fields(schema: Schema, body: Manifest) -> tuple[str, ...]:
    """Name the fields that would be dropped."""
    known = schema["properties"]
    return tuple(path for part in _PARTS if part in body for path in _unknown(known.get(part, {}), body[part], part))


def complete(schema: Schema, body: Manifest) -> Manifest:
    """Drop unknown fields and nulls, then fill in defaults."""
    known = schema["properties"]
    parts: Manifest = {part: _complete(known[part], body[part]) for part in _PARTS if part in known and part in body}
    kept = {name: value for name, value in body.items() if name in {"apiVersion", "kind", "metadata"}}
    return {**kept, **parts}


def causes(schema: Schema, body: Manifest, old: Manifest | None) -> list[Cause]:
    """Say all that is wrong with an object, field by field."""
    found = [
        failures.as_cause(name, "", reason="FieldValueRequired")
        for name in schema.get("required", ())
        if name not in body
    ]
    for part in _PARTS:
        if part in body and part in schema["properties"]:
            found += _check(schema["properties"][part], body[part], part, old.get(part) if old else None)
    return found or list(_broken_rules(schema, body, old, ""))


def _broken_rules(schema: Schema, value: Any, old: Any, path: str) -> Iterator[Cause]:  # noqa: ANN401 - JSON
    """Evaluate the rules on a value and on all within it; rules about a change need something that was there."""
    if value == old and not _is_about_changes(schema):
        return
    for rule in schema.get("x-kubernetes-validations", ()):
        if old is not None or "oldSelf" not in rule["rule"]:
            why = _objection(rule, {"self": value, "oldSelf": old})
            if why is not None:
                field = f"{path}{rule.get('fieldPath', '')}".lstrip(".")
                yield failures.as_cause(field or "<nil>", why, value=_shown(value))
    if isinstance(value, dict):
        yield from _broken_within(schema, value, old if isinstance(old, dict) else {}, path)
    elif isinstance(value, list):
        for number, (item, was) in enumerate(_beside(value, old)):
            if item != was:
                yield from _broken_rules(schema.get("items", {}), item, None, f"{path}[{number}]")


def _broken_within(schema: Schema, value: Manifest, old: Manifest, path: str) -> Iterator[Cause]:
    properties, others = schema.get("properties", {}), schema.get("additionalProperties")
    for name, item in value.items():
        child = properties.get(name, others)
        if isinstance(child, dict) and item is not None:
            step = f".{name}" if name in properties else f"[{name}]"
            yield from _broken_rules(child, item, old.get(name), f"{path}{step}")


def _is_about_changes(schema: Schema) -> bool:
    """Tell whether a rule anywhere in a schema looks at what was there before; remembered for each schema."""
    known = _ABOUT_CHANGES.get(id(schema))
    if known is None or known[0] is not schema:
        within = [*schema.get("properties", {}).values(), schema.get("additionalProperties")]
        own = any("oldSelf" in rule["rule"] for rule in schema.get("x-kubernetes-validations", ()))
        known = schema, own or any(_is_about_changes(each) for each in within if isinstance(each, dict))
        _ABOUT_CHANGES[id(schema)] = known
    return known[1]


def _beside(items: list[Any], old: Any) -> Iterator[tuple[Any, Any]]:  # noqa: ANN401 - JSON
    """Yield the items of a list, each with what was in its place before; None if there was nothing."""
    before = old if isinstance(old, list) else ()
    return itertools.islice(itertools.zip_longest(items, before), len(items))


def _objection(rule: Mapping[str, str], scope: cel.Scope) -> str | None:
    """Say why a rule does not hold; one that cannot be evaluated does not."""
    try:
        if cel.evaluate(rule["rule"], scope):
            return None
        if "messageExpression" in rule:
            return str(cel.evaluate(rule["messageExpression"], scope))
    except cel.CelError as error:
        return f"rule evaluation failed: {error}"
    return rule.get("message", f"failed rule: {rule['rule']}")


def _shown(value: Any) -> Any:  # noqa: ANN401 - JSON
    match value:
        case dict():
            return "object"
        case list():
            return "array"
        case _:
            return value


def _unknown(schema: Schema, value: Any, path: str) -> Iterator[str]:  # noqa: ANN401 - JSON
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    if isinstance(value, dict) and "additionalProperties" in schema:
        for name, item in value.items():
            yield from _unknown(schema["additionalProperties"], item, f"{path}.{name}")
    elif isinstance(value, dict):
        properties = schema.get("properties", {})
        for name, item in value.items():
            if name in properties:
                yield from _unknown(properties[name], item, f"{path}.{name}")
            else:
                yield f"{path}.{name}"
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _unknown(schema.get("items", {}), item, f"{path}[{number}]")


def _complete(schema: Schema, value: Any) -> Any:  # noqa: ANN401 - JSON
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return value
    if isinstance(value, list):
        return [_complete(schema.get("items", {}), item) for item in value]
    if not isinstance(value, dict):
        return value
    if "additionalProperties" in schema:
        return {name: _complete(schema["additionalProperties"], item) for name, item in value.items()}
    properties = schema.get("properties", {})
    done: Manifest = {}
    for name, item in value.items():
        if name in properties and (item is not None or properties[name].get("nullable")):
            done[name] = _complete(properties[name], item)
    for name, child in properties.items():
        if name not in done and "default" in child:
            done[name] = _complete(child, child["default"])
    return done


def _check(schema: Schema, value: Any, path: str, old: Any) -> Iterator[Cause]:  # noqa: ANN401 - JSON
    if (value is None and schema.get("nullable")) or (old is not None and value == old):
        return
    if schema.get("x-kubernetes-int-or-string"):
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            yield _mistyped(path, "integer,string", value)
        return
    wanted = schema.get("type")
    if wanted and (not isinstance(value, _TYPES[wanted]) or (isinstance(value, bool) and wanted != "boolean")):
        yield _mistyped(path, wanted, value)
        return
    yield from _bounds(schema, value, path)
    if isinstance(value, dict):
        yield from _check_object(schema, value, path, old if isinstance(old, dict) else {})
    elif isinstance(value, list):
        for number, (item, was) in enumerate(_beside(value, old)):
            yield from _check(schema.get("items", {}), item, f"{path}[{number}]", was)
        yield from _duplicates(schema, value, path)


def _check_object(schema: Schema, value: Manifest, path: str, old: Manifest) -> Iterator[Cause]:
    for name in schema.get("required", ()):
        if name not in value:
            yield failures.as_cause(f"{path}.{name}", "", reason="FieldValueRequired")
    properties, others = schema.get("properties", {}), schema.get("additionalProperties")
    for name, item in value.items():
        if name in properties:
            yield from _check(properties[name], item, f"{path}.{name}", old.get(name))
        elif isinstance(others, dict):
            yield from _check(others, item, f"{path}.{name}", old.get(name))


def _bounds(schema: Schema, value: Any, path: str) -> Iterator[Cause]:  # noqa: ANN401 - JSON
    if "enum" in schema and value not in schema["enum"]:
        choices = ", ".join(msgspec.json.encode(choice).decode() for choice in schema["enum"])
        shown = msgspec.json.encode(value).decode()
        message = f"Unsupported value: {shown}: supported values: {choices}"
        yield Cause(field=path, message=message, reason="FieldValueNotSupported")
    if isinstance(value, str):
        yield from itertools.islice(_string_bounds(schema, value, path), 1)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield from _number_bounds(schema, value, path)
    elif isinstance(value, list):
        yield from _length(schema, len(value), path, len(value), ("minItems", "maxItems", "items"))
    elif isinstance(value, dict):
        yield from _length(schema, len(value), path, len(value), ("minProperties", "maxProperties", "properties"))


def _string_bounds(schema: Schema, value: str, path: str) -> Iterator[Cause]:
    """Say what is wrong with a string; only the first of these is ever told."""
    yield from _length(schema, len(value), path, value, ("minLength", "maxLength", "chars long"))
    if "pattern" in schema and not cel.pattern(schema["pattern"]).search(value):
        yield failures.as_cause(path, f"{path} in body should match '{schema['pattern']}'", value=value)


def _number_bounds(schema: Schema, value: float, path: str) -> Iterator[Cause]:
    if "minimum" in schema and value < schema["minimum"]:
        why = f"{path} in body should be greater than or equal to {schema['minimum']}"
        yield failures.as_cause(path, why, value=value)
    if "maximum" in schema and value > schema["maximum"]:
        why = f"{path} in body should be less than or equal to {schema['maximum']}"
        yield failures.as_cause(path, why, value=value)


def _length(schema: Schema, length: int, path: str, value: object, words: tuple[str, str, str]) -> Iterator[Cause]:
    least, most, unit = words
    if least in schema and length < schema[least]:
        yield failures.as_cause(path, f"{path} in body should be at least {schema[least]} {unit}", value=value)
    if most in schema and length > schema[most]:
        message = f"Too long: may not be more than {schema[most]} {unit}"
        yield Cause(field=path, message=message, reason="FieldValueTooLong")


def _duplicates(schema: Schema, items: list[Any], path: str) -> Iterator[Cause]:
    keys = schema.get("x-kubernetes-list-map-keys")
    if keys is None and schema.get("x-kubernetes-list-type") != "set":
        return
    seen: list[object] = []
    for number, item in enumerate(items):
        identity = {key: item.get(key) for key in keys} if keys and isinstance(item, dict) else item
        if identity in seen:
            shown = msgspec.json.encode(identity).decode()
            yield Cause(field=f"{path}[{number}]", message=f"Duplicate value: {shown}", reason="FieldValueDuplicate")
        seen.append(identity)


def _mistyped(path: str, wanted: str, value: object) -> Cause:
    names = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
    found = names.get(type(value), "null")
    message = f'Invalid value: "{found}": {path} in body must be of type {wanted}: "{found}"'
    return Cause(field=path, message=message, reason="FieldValueTypeInvalid")
