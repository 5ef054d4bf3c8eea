"""The engine around the command: what it says is told once, and a dead engine's lock is not in the way."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tools.engine import engine, layout
from tools.toolchain import finding


@pytest.fixture
def failing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> engine.Engine:
    """Open an engine whose command says one thing and fails."""
    command = tmp_path / "pulumi"
    command.write_text('#!/bin/sh\n[ "$1" = stack ] || { echo it broke; exit 3; }\n')
    command.chmod(0o755)
    monkeypatch.setattr(finding, "paths", lambda *_: {"pulumi": command})
    program = tmp_path / "program"
    program.mkdir()
    return engine.Engine.open(tmp_path / "engine", layout.Surroundings.nowhere(), program=program)


def test_a_failure_tells_what_the_command_said(failing: engine.Engine) -> None:
    with pytest.raises(engine.EngineError) as caught:
        failing.up("x")
    assert str(caught.value) == "`pulumi up` of x ended with 3:\nit broke\n"


def test_what_a_listener_heard_is_not_told_again(failing: engine.Engine) -> None:
    heard: list[str] = []
    with pytest.raises(engine.EngineError) as caught:
        failing.up("x", listener=heard.append)
    assert heard == ["it broke"]
    assert str(caught.value) == "`pulumi up` of x ended with 3; what it said is above"
    assert caught.value.result.output == "it broke\n"


def test_the_lock_of_a_killed_engine_is_removed_before_a_run(failing: engine.Engine) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    lock = failing.layout.backend / ".pulumi" / "locks" / "organization" / "program" / "x" / "one.json"
    lock.parent.mkdir(parents=True)
    lock.write_text(json.dumps({"pid": ended.pid, "hostname": socket.gethostname()}))
    with pytest.raises(engine.EngineError):
        failing.up("x")
    assert not lock.exists()
