"""The last answers of a pure function, which are not computed again for the very same objects. It decides nothing.

What is compared is which objects they are, not what they say, so that asking costs nothing however much they hold.
They must not change; what was asked with is kept alive, so that no other object can be taken for it.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final, Generic, TypeVar

KEPT: Final = 2
"""So many answers."""
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
            if _are_same(asked, arguments):
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
        return known if known is not None and _are_same(known[0], thing) else (thing, self._function(*thing))


def _are_same(ones: tuple[object, ...], others: tuple[object, ...]) -> bool:
    return len(ones) == len(others) and all(one is other for one, other in zip(ones, others, strict=True))
