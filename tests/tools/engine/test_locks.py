"""Locks of a killed engine: only those that nobody on this host can hold any more are removed."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tools.engine import locks


def locked(backend: Path, content: str) -> Path:
    path = backend / ".pulumi" / "locks" / "organization" / "sluice" / "local" / "one.json"
    path.parent.mkdir(parents=True)
    path.write_text(content)
    return path


def lock(pid: int, host: str) -> str:
    return json.dumps({"pid": pid, "username": "me", "hostname": host, "timestamp": "2026-01-01T00:00:00Z"})


@pytest.fixture(scope="module")
def dead_pid() -> int:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


def test_the_lock_of_a_dead_process_of_this_host_is_removed(tmp_path: Path, dead_pid: int) -> None:
    path = locked(tmp_path, lock(dead_pid, socket.gethostname()))
    assert locks.remove_dead(tmp_path) == (path,)
    assert not path.exists()


def test_the_lock_of_a_living_process_stays(tmp_path: Path) -> None:
    path = locked(tmp_path, lock(os.getpid(), socket.gethostname()))
    assert locks.remove_dead(tmp_path) == ()
    assert path.exists()


def test_the_lock_of_another_host_stays(tmp_path: Path, dead_pid: int) -> None:
    path = locked(tmp_path, lock(dead_pid, "elsewhere"))
    assert locks.remove_dead(tmp_path) == ()
    assert path.exists()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"pid": "x", "hostname": "y"}'])
def test_what_cannot_be_read_as_a_lock_stays(tmp_path: Path, content: str) -> None:
    path = locked(tmp_path, content)
    assert locks.remove_dead(tmp_path) == ()
    assert path.exists()


def test_a_backend_without_locks_is_fine(tmp_path: Path) -> None:
    assert locks.remove_dead(tmp_path) == ()
