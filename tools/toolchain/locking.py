"""One at a time, across processes: whoever comes second waits and says so every few seconds."""

import contextlib
import fcntl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

PROGRESS_SECONDS = 3.0

Say = Callable[[str], None]


@contextlib.contextmanager
def held(path: Path, what: str, say: Say) -> Iterator[None]:
    """Hold a lock file; the system lets go of it when the holder dies, however it dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        started = time.monotonic()
        while not _try_lock(file.fileno()):
            say(f"{what}: another process is at it; waiting, {round(time.monotonic() - started)} s")
            time.sleep(PROGRESS_SECONDS)
        yield


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
