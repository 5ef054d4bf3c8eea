"""In which line of a YAML file each value stands, so that what is wrong can be found. Pure."""

from collections.abc import Mapping
from typing import Any

import yaml

Path = tuple[str | int, ...]


def lines(text: str) -> Mapping[Path, int]:
    """Return the line of each key and entry, by its path; an empty file has none."""
    found: dict[Path, int] = {}
    root: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    if root is not None:
        _collect(root, (), found)
    return found


def nearest(known: Mapping[Path, int], path: Path) -> int | None:
    """Return the line of a path, or of the nearest one around it; None: that is the whole file."""
    while path and path not in known:
        path = path[:-1]
    return known.get(path) if path else None


def _collect(node: Any, path: Path, found: dict[Path, int]) -> None:  # noqa: ANN401  # yaml has no types for these
    if path in found:
        return  # an alias within itself
    found.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = (*path, key.value)
            _collect(value, inner, found)
            found[inner] = key.start_mark.line + 1
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _collect(item, (*path, index), found)
