"""From the text of a stack's file to plain data: what JSON could not hold is refused with its place.

Never shows a value: any of them may be a secret that somebody forgot to encrypt.
"""

import datetime as dt
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from components.config import problems
from components.config.base import Problem, absent

DEPTH_MAX: Final = 64
"""How deep maps and lists may lie in each other."""
VALUES_MAX: Final = 200_000
"""How many values a config may have, those that anchors repeat included."""


class _Loader(yaml.SafeLoader):
    """Reads YAML, and refuses a map that has a key twice: all but the last one would be lost."""

    def compose_mapping_node(self, anchor: dict[Any, yaml.Node]) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key.value} is there twice", key.start_mark
                    )
                seen.add(key.value)
        return node


_KIND: Final = "tag:yaml.org,2002:"
_AS_PULUMI: Final[Mapping[str, tuple[str, str]]] = {
    f"{_KIND}bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    f"{_KIND}int": (r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0o?[0-7_]+|0|[1-9][0-9_]*)", "-+0123456789"),
    f"{_KIND}float": (
        r"(?:[-+]?[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+][0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        "-+0123456789.",
    ),
}
"""What is no text, and with which characters it begins. The engine follows YAML 1.2, where yes and 1:30 are texts."""
_Loader.yaml_implicit_resolvers = {
    first: [(tag, form) for tag, form in rules if tag not in _AS_PULUMI]
    for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _tag, (_form, _first) in _AS_PULUMI.items():
    _Loader.add_implicit_resolver(_tag, re.compile(f"^(?:{_form})$"), list(_first))


def read(path: Path) -> Any:  # noqa: ANN401  # parsed YAML
    """Read a file; raise ConfigError where it is no YAML, OSError where it cannot be read."""
    data = path.read_bytes()
    try:
        return yaml.load(data.decode(), _Loader)  # noqa: S506  # a safe loader
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _refused(f"line {line} is no UTF-8: save the file in this encoding") from None
    except yaml.MarkedYAMLError as error:
        raise _refused(f"{_place(error)}{error.problem or error.context}") from None
    except yaml.YAMLError as error:
        reason = str(error).splitlines()[0]
        raise _refused(f"is no YAML: {reason}") from None
    except RecursionError:
        raise _refused("has maps or lists too deep in each other") from None
    except (ValueError, TypeError, OverflowError):
        raise _refused("has a number or a date that nobody can read; put it in quotes") from None


def unfit(data: Any) -> list[Problem]:  # noqa: ANN401  # parsed YAML or JSON
    """Find what JSON cannot hold: dates, sets, bytes, endless numbers, keys that are no text, and data without end."""
    found: list[Problem] = []
    for count, (path, value) in enumerate(_walk(data, ())):
        if count > VALUES_MAX:
            return [*found, absent(message=f"has more than {VALUES_MAX} values; do its anchors repeat each other?")]
        reason = _unfit_key(path[-1]) if path else None
        reason = reason or _unfit_value(value, len(path))
        if reason is not None:
            found.append(absent(*(_shown(part) for part in path), message=reason))
    return found


def _walk(data: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:  # noqa: ANN401  # parsed YAML
    yield path, data
    if len(path) > DEPTH_MAX:
        return
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield from _walk(value, (*path, key if isinstance(key, str) else _Key(key)))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from _walk(value, (*path, index))


class _Key:
    """A key that is no text."""

    def __init__(self, key: object) -> None:
        self.key = key


def _shown(part: object) -> str | int:
    if isinstance(part, _Key):
        return str(part.key)
    return part if isinstance(part, int) else str(part).encode(errors="replace").decode()


def _unfit_key(key: object) -> str | None:
    if isinstance(key, _Key):
        return "the name must be text; put it in quotes"
    return _unfit_value(key, 0)


def _unfit_value(value: object, depth: int) -> str | None:
    if depth > DEPTH_MAX:
        return f"lies too deep: more than {DEPTH_MAX} maps or lists in each other, or an anchor that holds itself"
    if isinstance(value, str):
        return None if _encodable(value) else "must be text that UTF-8 can hold"
    return _unfit_kind(value)


def _unfit_kind(value: object) -> str | None:
    match value:
        case dt.date():  # and datetime, which is one
            return "is read as a date: must be text; put it in quotes"
        case bytes():
            return "is read as bytes: must be text, without !!binary"
        case float() if not math.isfinite(value):
            return "must be a number that ends"
        case None | bool() | int() | float() | list() | Mapping():
            return None
        case _:
            return f"is read as a {type(value).__name__}: must be text, a number, a list or a map"


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _place(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    return "is no YAML: " if mark is None else f"is wrong at line {mark.line + 1}, column {mark.column + 1}: "


def _refused(message: str) -> problems.ConfigError:
    return problems.ConfigError([absent(message=message)])
