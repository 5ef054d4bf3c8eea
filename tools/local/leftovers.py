"""The registry of planes: who owns each and which processes are its own. A plane whose owner is dead is cleaned up.

One directory per plane under the cache. Invariant: it exists before the plane's first process starts, and it goes only
after the last one ended, so at any moment, whoever was killed, every process of ours can be found and ended.
"""

import contextlib
import dataclasses
import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tools import cache
from tools.local import process

MARKER = "plane-id"  # in a plane's directory: only a directory that names the plane is ever removed
STOP_GRACE_SECONDS = 0.5  # nobody needs what an abandoned plane would still write
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A plane as the registry knows it; `owner` is None once it was detached to live on its own."""

    identifier: str
    registry: Path
    directory: Path
    owner: process.Identity | None
    boot_id: str

    @property
    def path(self) -> Path:
        return self.registry / self.identifier

    @property
    def processes(self) -> Path:
        """The directory where each process records itself, in a file named after the component."""
        return self.path / "processes"

    def record(self, component: str) -> Path:
        return self.processes / component

    def running(self) -> dict[str, process.Identity]:
        """Return the recorded processes that are alive."""
        found = {path.name: process.recorded(path) for path in sorted(self.processes.glob("*"))}
        return {name: known for name, known in found.items() if known and process.is_alive(known)}


def register(identifier: str, directory: Path, environment: Mapping[str, str]) -> Entry:
    """Enter a plane, owned by this very process, before anything of it is started."""
    registry = registry_directory(environment)
    entry = Entry(
        identifier=identifier,
        registry=registry,
        directory=directory,
        owner=process.identity(os.getpid()),
        boot_id=boot_id(),
    )
    with _locked(registry):
        entry.processes.mkdir(parents=True)
        (directory / MARKER).write_text(identifier)
        _write(entry)
    return entry


def detach(entry: Entry) -> Entry:
    """Let a plane live on after this process."""
    detached = dataclasses.replace(entry, owner=None)
    with _locked(entry.registry):
        _write(detached)
    return detached


def release(entry: Entry) -> None:
    """Strike a plane off the registry, once its processes have ended."""
    with _locked(entry.registry):
        _remove(entry)


def clean(environment: Mapping[str, str]) -> list[Entry]:
    """End and remove what dead owners left behind; return what was found."""
    registry = registry_directory(environment)
    with _locked(registry):
        abandoned = [entry for entry in _read_all(registry) if is_abandoned(entry, current_boot_id=boot_id())]
        for entry in abandoned:
            _remove(entry)
    return abandoned


def entries(environment: Mapping[str, str]) -> list[Entry]:
    registry = registry_directory(environment)
    with _locked(registry):
        return _read_all(registry)


def of_directory(directory: Path, environment: Mapping[str, str]) -> list[Entry]:
    """Return the planes, dead or alive, that were started in a directory."""
    return [entry for entry in entries(environment) if entry.directory == directory]


def is_abandoned(entry: Entry, *, current_boot_id: str) -> bool:
    """Tell whether nobody will ever stop this plane: its owner, its directory or its whole boot is gone."""
    if entry.boot_id != current_boot_id:
        return True
    if entry.owner is not None:
        return not process.is_alive(entry.owner)
    return not _is_marked(entry)


def registry_directory(environment: Mapping[str, str]) -> Path:
    return cache.directory(environment) / "planes"


def boot_id() -> str:
    return _BOOT_ID.read_text().strip()


def _remove(entry: Entry) -> None:
    """End all recorded processes, then remove data and entry.

    A process that is just starting finds the directory of its record gone and never runs, or its record keeps the
    directory from being removed and it is ended in the next round.
    """
    while entry.path.exists():
        records = sorted(entry.processes.glob("*"))
        if entry.boot_id == boot_id():
            process.stop(_identities(records), grace_seconds=STOP_GRACE_SECONDS)
        for record in records:
            record.unlink()
        if _is_removed(entry.processes):
            shutil.rmtree(entry.path)
    if _is_marked(entry):
        shutil.rmtree(entry.directory / "data", ignore_errors=True)
        (entry.directory / MARKER).unlink(missing_ok=True)


def _is_removed(directory: Path) -> bool:
    try:
        directory.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _identities(records: Sequence[Path]) -> list[process.Identity]:
    found = (process.recorded(record) for record in records)
    return [identity for identity in found if identity is not None]


def _is_marked(entry: Entry) -> bool:
    marker = entry.directory / MARKER
    return marker.exists() and marker.read_text() == entry.identifier


def _write(entry: Entry) -> None:
    facts = {
        "directory": str(entry.directory),
        "owner": dataclasses.asdict(entry.owner) if entry.owner else None,
        "boot_id": entry.boot_id,
    }
    scratch = entry.path / "plane.json.new"
    scratch.write_text(json.dumps(facts, indent=1))
    scratch.rename(entry.path / "plane.json")


def _read_all(registry: Path) -> list[Entry]:
    return [_read(path) for path in sorted(registry.iterdir()) if path.is_dir()]


def _read(path: Path) -> Entry:
    try:
        facts = json.loads((path / "plane.json").read_text())
    except FileNotFoundError:
        # Its maker died between making the directory and writing the file: nothing was started yet.
        facts = {"directory": "/nonexistent", "owner": None, "boot_id": boot_id()}
    owner = facts["owner"]
    return Entry(
        identifier=path.name,
        registry=path.parent,
        directory=Path(facts["directory"]),
        owner=process.Identity(**owner) if owner else None,
        boot_id=facts["boot_id"],
    )


@contextlib.contextmanager
def _locked(registry: Path) -> Iterator[None]:
    registry.mkdir(parents=True, exist_ok=True)
    with (registry / ".lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
