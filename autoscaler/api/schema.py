"""Turn a pydantic model into a structural schema, the form of OpenAPI that the API server accepts in a CRD.

It must not guess: a construct that has no structural counterpart is an error when the CRDs are made, not a rule lost.
"""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

from autoscaler.api.resources.base import cel_string

Schema = dict[str, Any]

_KEPT: Final = (
    "description", "type", "format", "default", "enum", "pattern", "nullable",
    "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties",
    "required", "properties", "items", "additionalProperties",
    "x-kubernetes-validations", "x-kubernetes-list-type", "x-kubernetes-list-map-keys",
    "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields",
)  # fmt: skip
"""What a structural schema may say, in the order in which it reads well."""
_DROPPED: Final = frozenset({"title", "$defs", "propertyNames", "patternProperties"})
_VALIDATIONS: Final = "x-kubernetes-validations"


class NotStructuralError(Exception):
    """A model uses something that a CRD cannot express."""


def structural(model: type[BaseModel], *, defaults: bool) -> Schema:
    """Convert a model. Without defaults, none is emitted: a status is filled by its owner, never by the API server."""
    whole = model.model_json_schema(by_alias=True, mode="validation")
    return _Converter(whole.get("$defs", {}), defaults=defaults).convert(whole, model.__name__)


def paragraphs(text: str) -> str:
    """Join the lines of each paragraph: a reader's terminal breaks them anew."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n") if paragraph.strip())


class _Converter:
    def __init__(self, definitions: Mapping[str, Schema], *, defaults: bool) -> None:
        self._definitions = definitions
        self._defaults = defaults

    def convert(self, source: Schema, path: str) -> Schema:
        flat = self._flatten(source, path)
        unknown = flat.keys() - set(_KEPT) - _DROPPED
        if unknown:
            raise NotStructuralError(f"{path}: a CRD cannot express {', '.join(sorted(unknown))}")
        result = {key: value for key, value in flat.items() if key in _KEPT}
        if "properties" in flat:
            result["properties"] = {
                name: self.convert(child, f"{path}.{name}") for name, child in flat["properties"].items()
            }
            result.pop("additionalProperties", None)
        if "items" in flat:
            result["items"] = self.convert(flat["items"], f"{path}[]")
        self._convert_map(flat, result, path)
        self._convert_default(flat, result)
        if "description" in result:
            result["description"] = paragraphs(result["description"])
        return {key: result[key] for key in _KEPT if key in result}

    def _flatten(self, source: Schema, path: str) -> Schema:
        """Replace references, optional values and constants by what they stand for; the outer word wins."""
        flat = dict(source)
        if "anyOf" in flat:
            choices = [choice for choice in flat.pop("anyOf") if choice != {"type": "null"}]
            if len(choices) != 1:
                raise NotStructuralError(f"{path}: a CRD cannot express a choice between types")
            flat = _merge(self._flatten(choices[0], path), flat)
        if "$ref" in flat:
            name = flat.pop("$ref").removeprefix("#/$defs/")
            flat = _merge(self._flatten(self._definitions[name], path), flat)
        if "const" in flat:
            flat["enum"] = [flat.pop("const")]
        return flat

    def _convert_map(self, flat: Schema, result: Schema, path: str) -> None:
        """Write what is demanded of a map's keys as a rule: a structural schema has no other word for it."""
        if "patternProperties" in flat:
            ((pattern, values),) = flat["patternProperties"].items()
            rule = _key_rule(pattern, longest=flat.get("propertyNames", {}).get("maxLength"))
            result["additionalProperties"] = self.convert(values, f"{path}{{}}")
            result[_VALIDATIONS] = [*result.get(_VALIDATIONS, ()), rule]
        elif isinstance(flat.get("additionalProperties"), dict):
            if "propertyNames" in flat:
                raise NotStructuralError(f"{path}: keys of a map need a pattern")
            result["additionalProperties"] = self.convert(flat["additionalProperties"], f"{path}{{}}")
        else:
            result.pop("additionalProperties", None)

    def _convert_default(self, flat: Schema, result: Schema) -> None:
        """Keep a default that says something; an object gets `{}`, and its fields' own defaults fill it."""
        default = result.pop("default", None)
        if not self._defaults or default in (None, "", [], {}):
            return
        if "properties" in flat:
            has_defaults = any("default" in child for child in result["properties"].values())
            default = {} if has_defaults else None
        if default is not None:
            result["default"] = default


def _merge(inner: Schema, outer: Schema) -> Schema:
    both = {**inner, **outer}
    if _VALIDATIONS in inner and _VALIDATIONS in outer:
        both[_VALIDATIONS] = [*inner[_VALIDATIONS], *outer[_VALIDATIONS]]
    return both


def _key_rule(pattern: str, *, longest: int | None) -> Schema:
    size = f"size(key) <= {longest} && " if longest is not None else ""
    limit = f" and have at most {longest} characters" if longest is not None else ""
    return {
        "rule": f"self.all(key, {size}key.matches({cel_string(pattern)}))",
        "message": f"each key must match {pattern}{limit}",
    }
