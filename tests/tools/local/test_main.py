"""The commands of tools.local parse what people type."""

from pathlib import Path

import pytest

from tools.local import __main__ as command


@pytest.fixture(autouse=True)
def _own_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("verb", ["up", "down", "status", "token", "node-registrar", "kuberay"])
def test_every_command_explains_itself(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main([verb, "--help"])
    assert ended.value.code == 0
    assert "show this help" in capsys.readouterr().out


def test_status_without_a_plane_says_how_to_start_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["status", "--directory", str(tmp_path)]) == 1
    assert "make up" in capsys.readouterr().err


def test_down_without_a_plane_is_fine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["down", "--directory", str(tmp_path / "absent")]) == 0
    assert "nothing runs" in capsys.readouterr().out
