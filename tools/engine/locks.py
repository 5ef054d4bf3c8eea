"""Locks that a killed engine left on its stacks, in a backend of files.

A lock is removed only if this host took it and its process is no more; one of a living process, or of another host,
stays, and the engine then says so itself.
"""

import json
import socket
from pathlib import Path

from tools.local import process


def remove_dead(backend: Path) -> tuple[Path, ...]:
    """Remove the locks of dead processes and return where they were."""
    dead = tuple(path for path in sorted((backend / ".pulumi" / "locks").rglob("*.json")) if _is_dead(path))
    for path in dead:
        path.unlink(missing_ok=True)
    return dead


def _is_dead(path: Path) -> bool:
    try:
        lock = json.loads(path.read_text())
        host, pid = lock["hostname"], int(lock["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return False  # just being written or removed, or not what we think it is
    return host == socket.gethostname() and process.identity(pid) is None
