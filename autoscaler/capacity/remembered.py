"""The last answers of a pure function, which are not computed again for the very same objects. It decides nothing.

What is compared is which objects they are, not what they say, so that asking costs nothing however much they hold.
They must not change; what was asked with is kept alive, so that no other object can be taken for it.
"""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

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


def _are_same(ones: tuple[object, ...], others: tuple[object, ...]) -> bool:
    return len(ones) == len(others) and all(one is other for one, other in zip(ones, others, strict=True))
