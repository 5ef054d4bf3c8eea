"""The journal of what the stand-ins did, and the faults they were told to have. Never holds a property's value.

One JSON line for each operation, written by several processes; a line names properties and wire calls, not values, so
that no secret can get in.
"""

import contextlib
import dataclasses
import fcntl
import fnmatch
import json
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.engine.providers import calls


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One operation of a stand-in."""

    provider: str
    method: str
    type: str
    name: str
    calls: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    error: bool = False


class Journal:
    """Appends entries to a file; wire calls in between are noted by the thread that makes them."""

    def __init__(self, path: Path, provider: str) -> None:
        self._path = path
        self._provider = provider
        self._current = threading.local()

    @contextlib.contextmanager
    def operation(self, method: str, resource: calls.Resource, changed: Sequence[str] = ()) -> Iterator[None]:
        """Write one entry at the end of the block, whichever way it ends."""
        self._current.calls = []
        failed = True
        try:
            yield
            failed = False
        finally:
            self._append(
                Entry(
                    provider=self._provider,
                    method=method,
                    type=resource.type,
                    name=resource.name,
                    calls=tuple(self._current.calls),
                    changed=tuple(changed),
                    error=failed,
                )
            )
            self._current.calls = []

    def call(self, text: str) -> None:
        """Note a wire call of the operation that this thread is in."""
        noted: list[str] = getattr(self._current, "calls", [])
        noted.append(text)

    def _append(self, entry: Entry) -> None:
        line = json.dumps(dataclasses.asdict(entry)) + "\n"
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, line.encode())  # one write: lines of several processes do not mix
        finally:
            os.close(handle)


def read(path: Path) -> tuple[Entry, ...]:
    """Return all entries, oldest first."""
    if not path.exists():
        return ()
    found = (json.loads(line) for line in path.read_text().splitlines())
    return tuple(
        Entry(**facts | {"calls": tuple(facts["calls"]), "changed": tuple(facts["changed"])}) for facts in found
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """An operation that fails once, by patterns of type and name."""

    type: str = "*"
    name: str = "*"
    method: str = "create"

    def hits(self, method: str, resource: calls.Resource) -> bool:
        return (
            self.method == method
            and fnmatch.fnmatchcase(resource.type, self.type)
            and fnmatch.fnmatchcase(resource.name, self.name)
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """The faults still to come, in a file that tests write and stand-ins consume."""

    path: Path

    def add(self, fault: Fault) -> None:
        with self._locked() as faults:
            faults.append(fault)

    def strike(self, method: str, resource: calls.Resource) -> None:
        """Raise RefusedError, once, if a fault was asked for."""
        if not self.path.exists():
            return
        with self._locked() as faults:
            hit = next((fault for fault in faults if fault.hits(method, resource)), None)
            if hit is not None:
                faults.remove(hit)
        if hit is not None:
            raise calls.RefusedError(f"{method} of {resource.name} fails because a test asked for it; try again")

    @contextlib.contextmanager
    def _locked(self) -> Iterator[list[Fault]]:
        with self.path.open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            faults = [Fault(**facts) for facts in json.loads(file.read() or "[]")]
            yield faults
            file.seek(0)
            file.truncate()
            file.write(json.dumps([dataclasses.asdict(fault) for fault in faults]))
            file.flush()
