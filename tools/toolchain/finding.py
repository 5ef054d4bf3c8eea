"""Find programs that need not be built: in `SLUICE_TOOLS`, on PATH, in the cache. A wrong version is refused."""

import dataclasses
import functools
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools import cache
from tools.toolchain import products

VERSION_TIMEOUT_SECONDS = 20
SIZES = "sizes.json"  # beside bin/: the length of each program, so that a truncated one is built anew
DEFINITIONS = "definitions"  # beside bin/
_VERSION = re.compile(r"\bv?(\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?)")
_GO_ARCHITECTURES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


class NotBuiltError(Exception):
    """A program is nowhere to be found; the message says how to get it."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A file that may be the program looked for; `refusal` is None if it is."""

    path: Path
    origin: str
    refusal: str | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What was found for one program, in the order in which it was looked at."""

    program: products.Program
    wanted_version: str
    candidates: tuple[Candidate, ...]

    @property
    def chosen(self) -> Candidate | None:
        return next((candidate for candidate in self.candidates if candidate.refusal is None), None)


def paths(names: Sequence[str], environment: Mapping[str, str]) -> dict[str, Path]:
    """Return where each program is, or raise NotBuiltError naming every one that is missing."""
    found: dict[str, Path] = {}
    missing: list[str] = []
    for name in names:
        chosen = search(name, environment).chosen
        if chosen is None:
            missing.append(name)
        else:
            found[name] = chosen.path
    if missing:
        wanted = sorted({products.product_of(name).name for name in missing})
        raise NotBuiltError(
            f"not built yet: {', '.join(missing)}. "
            f"Run `make tools` (or `python -m tools.toolchain build {' '.join(wanted)}`), once."
        )
    return found


def search(name: str, environment: Mapping[str, str]) -> Search:
    """Look for one program everywhere and check the version of what others provide."""
    product = products.product_of(name)
    program = next(program for program in product.programs if program.name == name)
    recipe = products.recipe(product, host_platform())
    others = (_checked(candidate, program, recipe.version) for candidate in outside(name, environment))
    built = binary_directory(recipe, environment) / name
    ours = (Candidate(path=built, origin="built"),) if is_intact(built) else ()
    return Search(program=program, wanted_version=recipe.version, candidates=(*others, *ours))


def outside(name: str, environment: Mapping[str, str]) -> tuple[Candidate, ...]:
    """List executables of that name in `SLUICE_TOOLS` and on PATH, each directory once."""
    places = [("SLUICE_TOOLS", environment.get("SLUICE_TOOLS", ""))]
    places += [("PATH", directory) for directory in environment.get("PATH", "").split(os.pathsep)]
    seen: set[Path] = set()
    found: list[Candidate] = []
    for origin, directory in places:
        path = (Path(directory) / name).absolute()
        if not directory or not path.is_file() or not os.access(path, os.X_OK):
            continue
        if path.resolve() not in seen:
            seen.add(path.resolve())
            found.append(Candidate(path=path, origin=origin))
    return tuple(found)


def binary_directory(recipe: products.Recipe, environment: Mapping[str, str]) -> Path:
    return cache.directory(environment) / "tools" / recipe.key / "bin"


def definitions(product: products.Product, environment: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the files that define a product's custom resources, as they lie beside its programs."""
    directory = binary_directory(products.recipe(product, host_platform()), environment).parent / DEFINITIONS
    return tuple(directory / Path(file).name for file in product.definitions)


def is_intact(built: Path) -> bool:
    """Tell whether a program of the cache is still as long as it was when it was built."""
    try:
        sizes: dict[str, int] = json.loads((built.parent.parent / SIZES).read_text())
        return os.access(built, os.X_OK) and built.stat().st_size == sizes[built.name]
    except (OSError, ValueError, KeyError):
        return False


def host_platform() -> str:
    """Return this computer as Go names it, such as `linux/amd64`."""
    processor = platform.machine().lower()
    if processor not in _GO_ARCHITECTURES:
        raise RuntimeError(f"cannot build for {processor}: only {', '.join(sorted(set(_GO_ARCHITECTURES.values())))}")
    return f"{sys.platform}/{_GO_ARCHITECTURES[processor]}"


def refusal(output: str, wanted_version: str) -> str | None:
    """Say why a program that printed this as its version will not do, or None if it will."""
    reported = _VERSION.search(output)
    if reported is None:
        return f"reports no version, {wanted_version} is wanted"
    if reported[1] != wanted_version:
        return f"is version {reported[1]}, {wanted_version} is wanted"
    return None


def version_refusal(path: Path, program: products.Program, wanted_version: str) -> str | None:
    """Run the program for its version and say why it will not do, or None."""
    if not program.version_arguments:
        return f"cannot be asked for its version, {wanted_version} is wanted"
    with tempfile.TemporaryDirectory() as scratch:
        # Pulumi writes to its home and asks the network for news, even for `version`.
        extra = {"PULUMI_SKIP_UPDATE_CHECK": "true", "PULUMI_HOME": scratch}
        try:
            answer = subprocess.run(
                [path, *program.version_arguments],
                env=os.environ | extra,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=VERSION_TIMEOUT_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"cannot be asked for its version: {error}"
    if answer.returncode != 0:
        return f"exits with {answer.returncode} when asked for its version"
    return refusal(answer.stdout + answer.stderr, wanted_version)


def _checked(candidate: Candidate, program: products.Program, wanted_version: str) -> Candidate:
    modified = candidate.path.stat().st_mtime_ns
    reason = _remembered_refusal(candidate.path, modified, program, wanted_version)
    return dataclasses.replace(candidate, refusal=reason)


@functools.cache
def _remembered_refusal(path: Path, _modified: int, program: products.Program, wanted_version: str) -> str | None:
    return version_refusal(path, program, wanted_version)
