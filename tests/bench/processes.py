"""Runtimes as processes of their own, and what a process has used so far, by its id."""

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from tools.local.plane import REPOSITORY, Plane


@contextlib.contextmanager
def runtime(
    plane: Plane,
    *options: str,
    program: tuple[str, ...] = ("autoscaler", "run"),
    listen: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """The runtime as a user starts it, with these options besides."""
    command = [
        *(sys.executable, "-m", *program, "--kubeconfig", str(plane.kubeconfig)),
        *("--namespace", "default", "--identity", "bench", "--log-level", "error"),
        *("--listen", f"127.0.0.1:{listen or free_port()}", *options),
    ]
    process = subprocess.Popen(command, cwd=REPOSITORY, env=environment)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=60)


def free_port() -> int:
    """Return a port of this computer that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        number: int = probe.getsockname()[1]
        return number


def cpu_seconds(pid: int) -> float:
    """Return its processor seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    """Return its resident memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def peak_mb(pid: int) -> float:
    """Return the most resident memory it ever had."""
    said = Path(f"/proc/{pid}/status").read_text().partition("VmHWM:")[2].split()
    return int(said[0]) / 2**10
