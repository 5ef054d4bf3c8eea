"""Where contract tests run: on what is simulated in `make test`, on the real parts in `make e2e`."""

from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, runtime_checkable

import pytest

SIMULATED: Final = "simulated"
BOTH: Final = (
    pytest.param(SIMULATED, marks=pytest.mark.simulated),
    pytest.param("real", marks=pytest.mark.real),
)
"""The parameters of each fixture `world`."""


@runtime_checkable
class Stage(Protocol):
    """Opens a world for one test."""

    def run(self, test: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
        """Run a test in a world, and close it."""
        ...
