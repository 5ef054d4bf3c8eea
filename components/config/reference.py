"""The stack's interface as documents: a JSON schema for editors, and a page for people. Both from the models alone."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from components.config import problems, reading
from components.config.stack import REGION

_TITLE: Final = "Stack config"
_HEAD: Final = f"""# {_TITLE}

Everything a stack can say, in `stacks/Pulumi.<env>.yaml` under `config:`. The whole of it is checked before anything is
made; what is wrong is listed at once, with its path. Written by `make schema` from the models in `components/config`;
`stacks/schema.json` says the same to editors.

Besides these, `aws:region` must be given, and `sluice:secrets` is a flat map of secrets
(`pulumi config set --secret --path 'sluice:secrets.NAME'`), to which other keys refer by name.
"""


def editors_schema() -> str:
    """Describe a stack's file to editors."""
    schema = _closed(reading.json_schema())
    definitions = schema.pop("$defs")
    keys: dict[str, Any] = {f"{problems.NAMESPACE}:{key}": value for key, value in schema["properties"].items()}
    secrets = {"type": "object", "description": "Secrets, by name.", "additionalProperties": True}
    config = {
        "type": "object",
        "properties": {
            "aws:region": {"type": "string", "pattern": REGION, "description": "The AWS region."},
            **keys,
            f"{problems.NAMESPACE}:{reading.SECRETS}": secrets,
        },
        "patternProperties": {f"^(?!{problems.NAMESPACE}:)": {}},
        "additionalProperties": False,
        "required": ["aws:region", *(f"{problems.NAMESPACE}:{key}" for key in schema["required"])],
    }
    whole = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": _TITLE,
        "type": "object",
        "properties": {"config": config},
        "$defs": definitions,
    }
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def page() -> str:
    """Describe every key to people."""
    schema = reading.json_schema()
    definitions = schema["$defs"]
    parts = [_HEAD, *_section("The stack", schema, prefix=f"{problems.NAMESPACE}:")]
    for name in _order(schema, definitions):
        parts += _section(name, definitions[name])
    return "\n".join(parts) + "\n"


def _closed(node: Any) -> Any:  # noqa: ANN401  # JSON
    """Forbid unknown keys everywhere: the runtime's own models let them pass, a stack's file must not."""
    if isinstance(node, list):
        return [_closed(one) for one in node]
    if not isinstance(node, Mapping):
        return node
    closed = {key: _closed(value) for key, value in node.items() if key != "title"}
    closed = {key: value for key, value in closed.items() if not key.startswith("x-kubernetes")}
    return {**closed, "additionalProperties": False} if "properties" in node and "type" in node else closed


def _order(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> list[str]:
    """List the sections in the order in which a reader meets them."""
    found: list[str] = []
    for one in schema.get("properties", {}).values():
        for name in _references(one):
            if name not in found:
                found.append(name)
                found += [inner for inner in _order(definitions[name], definitions) if inner not in found]
    return [name for name in found if "properties" in definitions[name]]


def _references(node: Any) -> Iterator[str]:  # noqa: ANN401  # JSON
    if isinstance(node, Mapping):
        if "$ref" in node:
            yield node["$ref"].removeprefix("#/$defs/")
        for value in node.values():
            yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)


def _section(name: str, schema: Mapping[str, Any], prefix: str = "") -> list[str]:
    required = set(schema.get("required", ()))
    rows = [
        f"| `{prefix}{key}` | {_kind(value)} | {_default(value, required=key in required)} | {_told(value)} |"
        for key, value in schema["properties"].items()
    ]
    about = " ".join(schema.get("description", "").split())
    return [f"## {name}", "", about, "", "| key | what | default | meaning |", "|---|---|---|---|", *rows, ""]


def _told(value: Mapping[str, Any]) -> str:
    # A field that says what its section says has no description of its own.
    section: Mapping[str, Any] = next((reading.json_schema()["$defs"][name] for name in _references(value)), {})
    told = value.get("description") or section.get("description", "")
    return " ".join(told.split()).replace("|", "\\|")


def _default(value: Mapping[str, Any], *, required: bool) -> str:
    if required:
        return "**required**"
    default = value.get("default")
    return "" if default in (None, {}, []) or isinstance(default, dict) else f"`{json.dumps(default)}`"


def _kind(value: Mapping[str, Any]) -> str:
    if "$ref" in value:
        name = value["$ref"].removeprefix("#/$defs/")
        listed = reading.json_schema()["$defs"][name].get("enum")
        return " or ".join(f"`{one}`" for one in listed) if listed else f"[{name}](#{name.lower()})"
    options = [one for one in (*value.get("anyOf", ()), *value.get("oneOf", ())) if one.get("type") != "null"]
    if options:
        return " or ".join(_kind(one) for one in options)
    if "const" in value:
        return f"`{value['const']}`"
    if value.get("type") == "array":
        return f"list of {_kind(value.get('items', {}))}"
    if value.get("type") == "object":
        inner = next(iter(value.get("patternProperties", {}).values()), value.get("additionalProperties"))
        return f"map of {_kind(inner)}" if isinstance(inner, Mapping) and inner else "map"
    return {"string": "text", "integer": "number", "number": "number", "boolean": "true or false"}.get(
        value.get("type", ""), "text or number"
    )
