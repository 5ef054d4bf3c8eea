"""The real code with one clause broken, for as long as an exploration takes.

A mutation is an edit of one function. One that no longer fits the code is an error: whoever changes a clause sees to it
that losing it is still found.
"""

import contextlib
import inspect
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """One clause of one rule, broken."""

    rule: int
    name: str
    owner: Any
    """The module or class."""
    function: str
    old: str
    new: str
    found_in: str
    """The exploration that finds it."""
    slow: bool = False
    """Whether that takes long: `make model` tries it, the tests do not."""


@contextlib.contextmanager
def broken(mutation: Mutation) -> Iterator[tuple[Any, Any]]:
    """Break a clause of the real code, and mend it afterwards; yields the function before and after."""
    found = inspect.getattr_static(mutation.owner, mutation.function)
    original = found.fget if isinstance(found, property) else found
    edited = _edited(original, mutation)
    setattr(mutation.owner, mutation.function, property(edited) if isinstance(found, property) else edited)
    try:
        yield original, edited
    finally:
        setattr(mutation.owner, mutation.function, found)


def _edited(original: Any, mutation: Mutation) -> Any:
    source = textwrap.dedent(inspect.getsource(original))
    if source.count(mutation.old) != 1:
        raise ValueError(
            f"{mutation.name}: {mutation.function} has {source.count(mutation.old)} times {mutation.old!r}"
        )
    made: dict[str, Any] = {}
    text = source.replace(mutation.old, mutation.new).removeprefix("@property\n")
    code = compile(text, f"<{mutation.name}>", "exec")
    exec(code, vars(sys.modules[original.__module__]), made)  # noqa: S102  # it is our own code, edited
    return made[mutation.function]
