"""Servers from Debian: downloaded and unpacked into the cache once. Nothing is installed, nothing started, no root."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools import cache
from tools.toolchain import locking
from tools.toolchain.locking import Say

PROMETHEUS = "prometheus"
DOWNLOAD_SECONDS = 300


class DebianError(Exception):
    """A package cannot be had; the message says what to do."""


def program(package: str, environment: Mapping[str, str], say: Say) -> Path:
    """Return a package's program of the same name: from PATH, else from the cache, else downloaded into it."""
    if on_path := shutil.which(package, path=environment.get("PATH", "")):
        return Path(on_path)
    target = cache.directory(environment) / "tools" / f"debian-{package}"
    binary = target / "usr" / "bin" / package
    if not binary.exists():
        with locking.held(target.with_name(f"{target.name}.lock"), package, say):
            if not binary.exists():
                say(f"{package}: downloading it from Debian into the cache")
                _unpack_into(target, package, environment)
    return binary


def _unpack_into(target: Path, package: str, environment: Mapping[str, str]) -> None:
    """Unpack beside the target and rename, so that nothing half done is found. The caller holds the lock."""
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as name:
        scratch = Path(name)
        _download(package, scratch, environment)
        archives = sorted(scratch.glob("*.deb"))
        if len(archives) != 1:
            raise DebianError(f"apt-get download {package} left {len(archives)} packages instead of 1; run it by hand")
        _run(["dpkg-deb", "-x", str(archives[0]), "unpacked"], package, scratch, environment)
        if not (scratch / "unpacked" / "usr" / "bin" / package).exists():
            raise DebianError(f"Debian's {package} has no /usr/bin/{package}; put the program on PATH yourself")
        shutil.rmtree(target, ignore_errors=True)
        (scratch / "unpacked").rename(target)


def _download(package: str, scratch: Path, environment: Mapping[str, str]) -> None:
    """Download with the computer's own lists of packages, or, where those do not know it, with lists made for this."""
    try:
        _run(["apt-get", "download", package], package, scratch, environment)
    except DebianError:
        own = ["-o", f"Dir::State::lists={scratch / 'lists'}", "-o", f"Dir::Cache={scratch / 'apt'}"]
        for directory in ("lists/partial", "apt/archives/partial"):
            (scratch / directory).mkdir(parents=True)
        _run(["apt-get", *own, "update"], package, scratch, environment)
        _run(["apt-get", *own, "download", package], package, scratch, environment)


def _run(command: Sequence[str], package: str, directory: Path, environment: Mapping[str, str]) -> None:
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            env=dict(environment),
            capture_output=True,
            text=True,
            timeout=DOWNLOAD_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DebianError(f"{' '.join(command)} failed: {error}. Put {package} on PATH yourself") from error
    if done.returncode != 0:
        raise DebianError(
            f"{' '.join(command)} failed: {done.stderr.strip()[-500:]}\n"
            f"Run `apt-get update` if the package is unknown, or put {package} on PATH yourself"
        )


if __name__ == "__main__":
    try:
        print(program(PROMETHEUS, os.environ, lambda text: print(text, file=sys.stderr, flush=True)))
    except DebianError as failure:
        sys.exit(str(failure))
