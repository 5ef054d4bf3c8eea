"""A YAML file as data, and in which line each value stands, so that what is wrong can be found. Pure."""

from collections.abc import Mapping
from typing import Any, Final

import yaml

Path = tuple[str | int, ...]
DEPTH_MAX: Final = 64
"""How deep maps and lists may lie in each other."""
VALUES_MAX: Final = 1_000_000
"""How many values a file may have, those that anchors repeat included."""


class UnreadableError(Exception):
    """The text is no YAML, or none that says plainly what it says; the message says where."""


def read(text: str) -> tuple[Any, Mapping[Path, int]]:
    """Return what a text says, and the line of each key and entry by its path; raise UnreadableError."""
    found: dict[Path, int] = {}
    loader = yaml.SafeLoader(text)
    try:
        root: Any = loader.get_single_node()
        if root is None:
            return None, found
        _collect(root, (), found)  # before maps are merged, which moves what they hold
        return loader.construct_document(root), found
    except yaml.YAMLError as error:
        raise UnreadableError(str(error)) from error
    except RecursionError:
        raise UnreadableError("it has maps or lists too deep in each other") from None
    except (ValueError, TypeError, OverflowError):
        raise UnreadableError("it has a number or a date that nobody can read; put it in quotes") from None
    finally:
        loader.dispose()


def nearest(known: Mapping[Path, int], path: Path) -> int | None:
    """Return the line of a path, or of the nearest one around it; None: that is the whole file."""
    while path and path not in known:
        path = path[:-1]
    return known.get(path) if path else None


def _collect(node: Any, path: Path, found: dict[Path, int]) -> None:  # noqa: ANN401  # yaml has no types for these
    if len(path) > DEPTH_MAX:
        raise UnreadableError(f"more than {DEPTH_MAX} maps or lists lie in each other, or an anchor that holds itself")
    if len(found) > VALUES_MAX:
        raise UnreadableError(f"it has more than {VALUES_MAX:,} values; do its anchors repeat each other?")
    found.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        _refuse_twice(node)
        for key, value in node.value:
            inner = (*path, _name(key))
            _collect(value, inner, found)
            found[inner] = key.start_mark.line + 1
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _collect(item, (*path, index), found)


def _refuse_twice(node: yaml.MappingNode) -> None:
    """Refuse a map that has a key twice: all but the last one would be lost."""
    seen: set[str] = set()
    for key, _ in node.value:
        if _name(key) in seen:
            mark = key.start_mark
            raise UnreadableError(f"line {mark.line + 1}, column {mark.column + 1}: the key {key.value} is there twice")
        seen.add(_name(key))


def _name(key: yaml.Node) -> str:
    return str(key.value)
