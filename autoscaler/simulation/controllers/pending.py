"""What a controller has yet to look at: each thing once, all together a moment later."""

import asyncio
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Pending(Generic[K]):
    """Collects keys and hands them over, in the order they came, after a delay. Has no timer while it is empty."""

    def __init__(self, act: Callable[[K], None], *, delay_seconds: float) -> None:
        self._act = act
        self._delay_seconds = delay_seconds
        self._keys: dict[K, None] = {}

    def add(self, *keys: K) -> None:
        """Look at these soon."""
        self.extend(keys)

    def extend(self, keys: Iterable[K]) -> None:
        for key in keys:
            if not self._keys:
                asyncio.get_running_loop().call_later(self._delay_seconds, self._flush)
            self._keys[key] = None

    def later(self, key: K, seconds: float) -> None:
        """Look at this one after a while."""
        asyncio.get_running_loop().call_later(seconds, self.add, key)

    def _flush(self) -> None:
        keys, self._keys = self._keys, {}
        for key in keys:
            self._act(key)
