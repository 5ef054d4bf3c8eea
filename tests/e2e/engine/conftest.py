"""Engines for the tests on real parts: the real Pulumi engine, the stand-in providers, the session's plane."""

import dataclasses
import secrets
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tools.engine import results
from tools.engine.engine import Engine
from tools.engine.layout import REPOSITORY, Surroundings
from tools.local.plane import Plane


@pytest.fixture(scope="session")
def surroundings(plane: Plane) -> Surroundings:
    """The session's plane as the world of an engine: every EKS cluster is that plane."""
    return Surroundings.of_plane(plane)


@pytest.fixture
def open_engine(surroundings: Surroundings, tmp_path: Path) -> Callable[[Path], Engine]:
    """Open an engine for a program, in a directory of the test's own."""
    return lambda program: Engine.open(tmp_path / f"engine-{secrets.token_hex(4)}", surroundings, program=program)


@pytest.fixture
def engine(open_engine: Callable[[Path], Engine]) -> Engine:
    """An engine for the repository's own program, without any state."""
    return open_engine(REPOSITORY)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A stack of a test's own, whose program is a few lines that the test writes."""

    engine: Engine
    stack: str

    def up(self, program: str, *options: str) -> results.Result:
        """Replace the program and bring it up."""
        self.write(program)
        return self.engine.up(self.stack, *options)

    def preview(self, program: str) -> results.Result:
        self.write(program)
        return self.engine.preview(self.stack)

    def refresh(self) -> results.Result:
        return self.engine.refresh(self.stack)

    def destroy(self) -> results.Result:
        return self.engine.destroy(self.stack)

    def write(self, program: str) -> None:
        (self.engine.program / "__main__.py").write_text(textwrap.dedent(program))


@pytest.fixture(scope="session")
def _workshop(surroundings: Surroundings, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    program = tmp_path_factory.mktemp("program")
    return Engine.open(tmp_path_factory.mktemp("engine"), surroundings, program=program)


@pytest.fixture
def trial(_workshop: Engine) -> Iterator[Trial]:
    """A fresh stack in an engine that all tests share; what the test left behind is destroyed."""
    made = Trial(engine=_workshop, stack=f"test-{secrets.token_hex(4)}")
    _workshop.layout.journal.unlink(missing_ok=True)
    yield made
    if made.engine.layout.state_file(made.stack).exists() and made.engine.resources(made.stack):
        made.destroy()
