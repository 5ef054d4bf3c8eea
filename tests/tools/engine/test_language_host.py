"""A second run of a program reads its files again, and libraries stay loaded."""

import sys
import types
from pathlib import Path

import pytest

from tools.engine import language_host


def test_the_modules_of_a_program_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, place in (
        ("fake_component", "components/nodes/grid.py"),
        ("fake_library", ".venv/lib/site-packages/library.py"),
        ("fake_tool", "tools/engine/x.py"),
    ):
        module = types.ModuleType(name)
        module.__file__ = str(tmp_path / place)
        monkeypatch.setitem(sys.modules, name, module)

    language_host.forget_modules(tmp_path)

    assert "fake_component" not in sys.modules
    assert {"fake_library", "fake_tool", "pytest"} <= sys.modules.keys()


def test_a_program_runs_as_main(tmp_path: Path) -> None:
    (tmp_path / "__main__.py").write_text(
        "import pathlib\npathlib.Path(__file__).with_name('ran').write_text(__name__)\n"
    )
    language_host.run(tmp_path)
    assert (tmp_path / "ran").read_text() == "__main__"
