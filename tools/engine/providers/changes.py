"""What differs between old and new inputs, as property paths. Pure; which change means a replacement is for others."""

import dataclasses
import enum
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from tools.engine.providers import wire

Path: TypeAlias = tuple[str | int, ...]
_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_SEGMENT = re.compile(r"""\[(\d+)\]|\["((?:[^"\\]|\\.)*)"\]|\[(\*)\]|\.?([^.\[]+)""")


class Kind(enum.StrEnum):
    ADD = "add"
    DELETE = "delete"
    UPDATE = "update"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One property that differs."""

    path: Path
    kind: Kind

    @property
    def text(self) -> str:
        return written(self.path)


def between(old: Mapping[str, wire.Value], new: Mapping[str, wire.Value]) -> tuple[Change, ...]:
    """List the differences in order of path; null and absent are the same, secrecy alone is no difference."""
    return tuple(_changes((), wire.plain(old), wire.plain(new)))


def written(path: Path) -> str:
    """Write a path as the engine does: `spec.containers[0].image`, `tags["k8s.io/x"]`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _IDENTIFIER.fullmatch(step):
            text += f".{step}" if text else step
        else:
            escaped = step.replace("\\", "\\\\").replace('"', '\\"')
            text += f'["{escaped}"]'
    return text


def parsed(text: str) -> Path:
    """Read a path that a program wrote, such as one of ignore_changes; `*` stays a step of its own."""
    steps: list[str | int] = []
    for match in _SEGMENT.finditer(text):
        index, quoted, star, name = match.groups()
        steps.append(int(index) if index is not None else star or name or re.sub(r"\\(.)", r"\1", quoted or ""))
    return tuple(steps)


def starts_with(path: Path, prefix: Path) -> bool:
    """Tell whether a path is the prefix or below it."""
    return len(path) >= len(prefix) and all(own in {"*", step} for own, step in zip(prefix, path, strict=False))


def _changes(path: Path, old: wire.Value, new: wire.Value) -> Iterator[Change]:
    if old is None and new is None:
        return
    if old is None or new is None:
        yield Change(path=path, kind=Kind.ADD if old is None else Kind.DELETE)
    elif isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in sorted(old.keys() | new.keys()):
            yield from _changes((*path, name), old.get(name), new.get(name))
    elif _is_list(old) and _is_list(new):
        for index in range(max(len(old), len(new))):
            yield from _changes((*path, index), _at(old, index), _at(new, index))
    elif old != new or isinstance(old, bool) != isinstance(new, bool):
        yield Change(path=path, kind=Kind.UPDATE)


def _is_list(value: wire.Value) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _at(values: Sequence[wire.Value], index: int) -> wire.Value:
    return values[index] if index < len(values) else None
