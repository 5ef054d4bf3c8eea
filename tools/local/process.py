"""Start and stop processes that are known by pid and start time, so that a recycled pid is never taken for ours.

A process records itself before it becomes the real program: whoever finds the record later, even after a `kill -9` of
the one who started it, can end exactly that process. If the record cannot be written, the program never runs.
Linux only: it reads /proc and signals through pidfds.
"""

import contextlib
import dataclasses
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

# $0 is the record. `exec` keeps pid and start time, so what the shell writes stays true of the program.
_RECORD_AND_BECOME = 'read -r stat </proc/$$/stat && echo "$stat" >"$0" && exec "$@"'
POLL_SECONDS = 0.02


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A process for as long as this boot lasts: pids are used again, pid and start time together are not."""

    pid: int
    started_ticks: int


def start(
    arguments: Sequence[str | Path], *, record: Path, log: Path, environment: Mapping[str, str], directory: Path
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own (a Ctrl-C is not for it), with its output appended to a log."""
    with log.open("ab") as output:
        return subprocess.Popen(
            ["/bin/sh", "-c", _RECORD_AND_BECOME, record, *arguments],
            cwd=directory,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def recorded(record: Path, *, within_seconds: float = 1.0) -> Identity | None:
    """Read a record, waiting a moment for one that is just being written; None if nothing was ever started."""
    deadline = time.monotonic() + within_seconds
    while True:
        try:
            text = record.read_text()
        except FileNotFoundError:
            return None
        if text.endswith("\n"):
            return parse_stat(text)
        if time.monotonic() > deadline:
            return None
        time.sleep(POLL_SECONDS)


def identity(pid: int) -> Identity | None:
    """Return the identity of a running process, None if there is none or only a zombie of it."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if has_ended(stat) else parse_stat(stat)


def is_alive(process: Identity) -> bool:
    return identity(process.pid) == process


def parse_stat(stat: str) -> Identity:
    """Parse a line of /proc/PID/stat; the program's name, in parentheses, may itself hold spaces and parentheses."""
    return Identity(pid=int(stat.split(maxsplit=1)[0]), started_ticks=int(_after_name(stat)[19]))


def has_ended(stat: str) -> bool:
    """Tell from a line of /proc/PID/stat whether all of a process is over.

    The first thread of a process may be a zombie while others still run and hold its ports.
    """
    state, threads = _after_name(stat)[0], int(_after_name(stat)[17])
    return state in {"Z", "X"} and threads <= 1


def send(process: Identity, number: signal.Signals) -> bool:
    """Signal exactly this process; False if it is no more, whoever has its pid now."""
    with _pidfd(process.pid) as descriptor:
        # The descriptor pins the pid: if the identity is right now, the signal cannot reach anybody else.
        if descriptor is None or not is_alive(process):
            return False
        try:
            signal.pidfd_send_signal(descriptor, number)
        except ProcessLookupError:
            return False
        return True


def stop(processes: Sequence[Identity], *, grace_seconds: float) -> None:
    """End processes: SIGTERM to all, SIGKILL after the grace to those that are still there."""
    for process in processes:
        send(process, signal.SIGTERM)
        send(process, signal.SIGCONT)  # a stopped process would sit on its SIGTERM
    remaining = _wait_gone(processes, grace_seconds)
    for process in remaining:
        send(process, signal.SIGKILL)
    if remaining := _wait_gone(remaining, 10.0):
        pids = ", ".join(str(process.pid) for process in remaining)
        raise TimeoutError(f"processes {pids} do not end even after SIGKILL; look at them with `ps`")


def _wait_gone(processes: Sequence[Identity], seconds: float) -> list[Identity]:
    deadline = time.monotonic() + seconds
    remaining = [process for process in processes if is_alive(process)]
    while remaining and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
        remaining = [process for process in remaining if is_alive(process)]
    return remaining


@contextlib.contextmanager
def _pidfd(pid: int) -> Iterator[int | None]:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _after_name(stat: str) -> list[str]:
    return stat.rpartition(")")[2].split()
