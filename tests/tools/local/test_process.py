"""A process is known by its id and start time, so that a stranger is never ended."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.local import builders
from tools.local import process

STAT = "4242 (odd ) name) {state} 1 4242 4242 0 -1 4194560 100 0 0 0 5 3 0 0 20 0 {threads} 0 987654 1000 200"


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], process.Identity]]:
    """A process of ours that would run for a minute, with its record."""
    record = tmp_path / "sleeper"
    child = start(["sleep", "60"], tmp_path, record=record)
    known = wait_for_record(record)
    yield child, known
    child.kill()
    child.wait()


def start(arguments: list[str], directory: Path, *, record: Path) -> subprocess.Popen[bytes]:
    return process.start(
        arguments, record=record, log=directory / "log", environment=dict(os.environ), directory=directory
    )


def wait_for_record(record: Path) -> process.Identity:
    builders.wait_until(record.exists)
    known = process.recorded(record)
    assert known is not None
    return known


def test_a_name_with_spaces_and_parentheses_does_not_shift_the_fields() -> None:
    want = process.Identity(pid=4242, started_ticks=987654)
    assert process.parse_stat(STAT.format(state="S", threads=9)) == want


@pytest.mark.parametrize(
    ("state", "threads", "want"),
    [("S", 9, False), ("Z", 9, False), ("Z", 1, True), ("Z", 0, True), ("X", 1, True), ("T", 1, False)],
)
def test_a_process_has_ended_when_its_last_thread_has(state: str, threads: int, *, want: bool) -> None:
    assert process.has_ended(STAT.format(state=state, threads=threads)) is want


def test_a_process_records_itself_under_the_pid_it_keeps(
    sleeper: tuple[subprocess.Popen[bytes], process.Identity],
) -> None:
    child, known = sleeper
    assert known.pid == child.pid
    assert process.is_alive(known)


def test_a_program_whose_record_cannot_be_written_never_runs(tmp_path: Path) -> None:
    child = start(["touch", "ran"], tmp_path, record=tmp_path / "absent" / "record")
    assert child.wait(timeout=10) != 0
    assert not (tmp_path / "ran").exists()


def test_stop_ends_exactly_this_process(sleeper: tuple[subprocess.Popen[bytes], process.Identity]) -> None:
    child, known = sleeper
    process.stop([known], grace_seconds=5)
    assert child.wait(timeout=5) == -signal.SIGTERM
    assert not process.is_alive(known)


def test_another_process_under_a_recycled_pid_is_left_alone(
    sleeper: tuple[subprocess.Popen[bytes], process.Identity],
) -> None:
    child, known = sleeper
    predecessor = process.Identity(pid=known.pid, started_ticks=known.started_ticks - 1)
    assert not process.is_alive(predecessor)
    assert process.send(predecessor, signal.SIGKILL) is False
    process.stop([predecessor], grace_seconds=0)
    assert child.poll() is None


def test_one_that_ignores_sigterm_is_killed_after_the_grace(tmp_path: Path) -> None:
    stubborn = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
    child = start([sys.executable, "-c", stubborn], tmp_path, record=tmp_path / "record")
    builders.wait_until(lambda: "deaf" in (tmp_path / "log").read_text())
    process.stop([wait_for_record(tmp_path / "record")], grace_seconds=0.05)
    assert child.wait(timeout=5) == -signal.SIGKILL


def test_a_frozen_process_that_handles_sigterm_is_let_go_on_to_do_so(tmp_path: Path) -> None:
    polite = (
        "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(7)); print('up', flush=True); time.sleep(60)"
    )
    child = start([sys.executable, "-c", polite], tmp_path, record=tmp_path / "record")
    builders.wait_until(lambda: "up" in (tmp_path / "log").read_text())
    known = wait_for_record(tmp_path / "record")
    assert process.send(known, signal.SIGSTOP)
    process.stop([known], grace_seconds=5)
    assert child.wait(timeout=5) == 7


def test_nothing_recorded_means_nothing_started(tmp_path: Path) -> None:
    assert process.recorded(tmp_path / "absent") is None
    (tmp_path / "torn").write_text("123 (sh) S 1")
    assert process.recorded(tmp_path / "torn", within_seconds=0.01) is None
