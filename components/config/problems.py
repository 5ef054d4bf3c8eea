"""Everything that is wrong with a config, at once, in words: where, what stands there, and what is allowed."""

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pulumi
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from components.config import refused_keys
from components.config.base import Location, Problem

NAMESPACE: Final = "sluice"
_VALUE_MAX: Final = 80


class ConfigError(pulumi.RunError):
    """The config is wrong; the message lists every problem, and Pulumi shows it without a stack trace."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda problem: [str(part) for part in problem.path]))
        count = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        lines = [f"the stack config has {count}; nothing was made:", *(f"  {told(one)}" for one in self.problems)]
        super().__init__("\n".join(lines))


class IncompleteError(ConfigError):
    """Nothing is wrong but for what is missing, and that may come from an environment."""


def of_file(problems: Sequence[Problem], *, has_environment: bool) -> ConfigError:
    """Say what is wrong; what is missing may come from the environment that a file names."""
    if not has_environment:
        return ConfigError(problems)
    noted = [
        replace(one, message=f"{one.message} (it may come from the environment)") if _is_missing(one) else one
        for one in problems
    ]
    return IncompleteError(noted) if all(map(_is_missing, problems)) else ConfigError(noted)


def _is_missing(problem: Problem) -> bool:
    return not problem.has_value and problem.message.startswith("must be given")


def told(problem: Problem) -> str:
    """Write a problem as one line."""
    value = f" = {_short(problem.value)}" if problem.has_value else ""
    return f"{place(problem.path)}{value}: {problem.message}"


def place(path: Location) -> str:
    """Write a path as one would look it up in the file."""
    if not path:
        return "the file"
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text if ":" in text.partition(".")[0] else f"{NAMESPACE}:{text}"


def of_pydantic(error: ValidationError) -> list[Problem]:
    """Turn pydantic's findings into ours."""
    return [_translated(one) for one in error.errors(include_url=False) if not _is_echo(one)]


def _is_echo(found: ErrorDetails) -> bool:
    """Tell whether a list is called too short only since one of its entries is wrong, which is told by itself."""
    given = found["input"]
    return found["type"] == "too_short" and isinstance(given, list) and len(given) >= found["ctx"]["min_length"]


def unknown_keys(data: Any, schema: Mapping[str, Any]) -> list[Problem]:  # noqa: ANN401  # parsed JSON
    """Find keys that a JSON schema does not have, and say which ones it has, or why it has not this one."""
    return [
        Problem(path=path, message=refused_keys.reason(path) or _unknown(str(path[-1]), known), has_value=False)
        for path, known in _unknown_in(data, schema, schema.get("$defs", {}), ())
    ]


def _unknown_in(
    data: Any,  # noqa: ANN401  # parsed JSON
    schema: Mapping[str, Any],
    definitions: Mapping[str, Any],
    path: Location,
) -> Iterator[tuple[Location, Sequence[str]]]:
    if "$ref" in schema:
        schema = {**schema, **definitions[schema["$ref"].removeprefix("#/$defs/")]}
    for option in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from _unknown_in(data, option, definitions, path)
    if isinstance(data, list) and isinstance(schema.get("items"), Mapping):
        for index, item in enumerate(data):
            yield from _unknown_in(item, schema["items"], definitions, (*path, index))
    if isinstance(data, Mapping):
        yield from _unknown_in_map(data, schema, definitions, path)


def _unknown_in_map(
    data: Mapping[str, Any], schema: Mapping[str, Any], definitions: Mapping[str, Any], path: Location
) -> Iterator[tuple[Location, Sequence[str]]]:
    properties = schema.get("properties")
    rest = next(iter(schema.get("patternProperties", {}).values()), schema.get("additionalProperties"))
    for key, value in data.items():
        if properties is not None and key in properties:
            yield from _unknown_in(value, properties[key], definitions, (*path, key))
        elif properties is not None:
            yield (*path, key), sorted(properties)
        elif isinstance(rest, Mapping):
            yield from _unknown_in(value, rest, definitions, (*path, key))


def _unknown(key: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(key, known, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    return f"unknown key; {hint}known here: {', '.join(known)}"


def _translated(found: ErrorDetails) -> Problem:
    loc = [part for part in found["loc"] if not (isinstance(part, str) and part.startswith("<"))]
    about_key = bool(loc) and loc[-1] == "[key]"
    path = tuple(loc[:-1] if about_key else loc)
    message = _message(found)
    if about_key:
        return Problem(path=path, message=f"the name {message}", has_value=False)
    kind = found["type"]
    return Problem(path=path, value=found["input"], message=message, has_value=kind not in {"missing", "sluice_absent"})


_WORDS: Final[Mapping[str, str]] = {
    "missing": "must be given",
    "int_type": "must be a whole number, without quotes",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number, without quotes",
    "string_type": "must be text; put it in quotes",
    "bool_type": "must be true or false, without quotes",
    "model_type": "must be a map, with a key and a value on each line",
    "model_attributes_type": "must be a map, with a key and a value on each line",
    "dict_type": "must be a map, with a key and a value on each line",
    "tuple_type": "must be a list",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "greater_than": "must be more than {gt}",
    "string_pattern_mismatch": "must have the form {pattern}",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "must have at least {min_length} entries",
    "too_long": "must have at most {max_length} entries",
    "enum": "must be {expected}",
    "literal_error": "must be {expected}, or a list",
    "sluice": "{message}",
    "sluice_absent": "{message}",
    "value_error": "{error}",
}


def _message(found: ErrorDetails) -> str:
    words = _WORDS.get(found["type"])
    return words.format(**found.get("ctx", {})) if words else found["msg"]


def _short(value: object) -> str:
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= _VALUE_MAX else f"{text[:_VALUE_MAX]}…"
