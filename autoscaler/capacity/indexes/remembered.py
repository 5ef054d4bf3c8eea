"""The last answers of a pure function, which are not computed again for the very same objects. It decides nothing.

What is compared is which objects they are, not what they say, so that asking costs nothing however much they hold.
They must not change; what was asked with is kept alive, so that no other object can be taken for it. `RememberedEqual`
compares what they say: for small things that are made anew again and again.
"""

import operator
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final, Generic, TypeVar

KEPT: Final = 2
"""So many answers."""
THINGS_MAX: Final = 10_000
"""So many things; beyond, all are forgotten."""
R = TypeVar("R")


class Remembered(Generic[R]):
    """A function that remembers its last answers. Several threads may ask it."""

    def __init__(self, function: Callable[..., R]) -> None:
        self._function = function
        self._last: tuple[tuple[tuple[object, ...], R], ...] = ()

    def __call__(self, *arguments: object) -> R:
        """Return what the function says of these."""
        last = self._last
        for asked, answer in last:
            if are_same(asked, arguments):
                return answer
        made = self._function(*arguments)
        self._last = ((arguments, made), *last[: KEPT - 1])
        return made


class RememberedEach(Generic[R]):
    """A function of one thing's parts, of which the first names it, that remembers what it last said of each thing."""

    def __init__(self, function: Callable[..., R]) -> None:
        self._function = function
        self._last: dict[Hashable, tuple[tuple[object, ...], R]] = {}

    def __call__(self, things: Iterable[tuple[Any, ...]]) -> tuple[R, ...]:
        """Return what the function says of each of these; what it said of others is forgotten."""
        self._last = {thing[0]: self._one(thing) for thing in things}
        return tuple(answer for _, answer in self._last.values())

    def _one(self, thing: tuple[Any, ...]) -> tuple[tuple[object, ...], R]:
        known = self._last.get(thing[0])
        return known if known is not None and are_same(known[0], thing) else (thing, self._function(*thing))


class RememberedEqual(Generic[R]):
    """A function of one thing's parts, of which the first names it; said again while they are equal."""

    def __init__(self, function: Callable[..., R]) -> None:
        self._function = function
        self._last: dict[Hashable, tuple[tuple[object, ...], R]] = {}

    def __call__(self, *thing: Any) -> R:  # noqa: ANN401  # any function's
        """Return what the function says of this."""
        known = self._last.get(thing[0])
        is_same = known is not None and known[0] == thing
        made = known[1] if known is not None and is_same else self._function(*thing)
        if len(self._last) >= THINGS_MAX:
            self._last.clear()
        self._last[thing[0]] = (thing, made)  # the next time it is these very parts, which are compared at once
        return made


def are_same(ones: tuple[object, ...], others: tuple[object, ...]) -> bool:
    """Tell whether these are the very same objects."""
    return len(ones) == len(others) and all(map(operator.is_, ones, others))
