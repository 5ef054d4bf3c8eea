"""Build a product with go, show progress, and put it into the cache in one step, so that nothing half done is found."""

import collections
import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tools.toolchain import finding, go, locking, products
from tools.toolchain.locking import Say

TAIL_LINES = 40


class BuildError(Exception):
    """A build failed; the message has the end of go's output and what to do next."""


@dataclasses.dataclass(slots=True, kw_only=True)
class GoOutput:
    """What a running go command has said so far. Written by one reader thread, read by the one that shows progress."""

    packages: frozenset[str] = frozenset()
    compiled: int = 0
    modules: int = 0
    remarks: collections.deque[str] = dataclasses.field(default_factory=lambda: collections.deque(maxlen=TAIL_LINES))

    def read(self, line: str) -> None:
        text = line.rstrip()
        if text in self.packages:
            self.compiled += 1
        elif text.startswith("go: downloading "):
            self.modules += 1
        elif text:
            self.remarks.append(text)

    def progress(self) -> str:
        if self.packages:
            return f"{self.compiled} of {len(self.packages)} packages compiled"
        return f"{self.modules} modules downloaded"


def build(product: products.Product, environment: Mapping[str, str], say: Say) -> Path:
    """Return the directory with the product's programs, building them if nobody has."""
    recipe = products.recipe(product, finding.host_platform())
    target = finding.binary_directory(recipe, environment)
    if is_complete(target, product):
        return target
    with locking.held(target.parent.with_suffix(".lock"), product.name, say):
        if not is_complete(target, product):
            _build_into(target.parent, recipe, environment, say)
    return target


def is_complete(binaries: Path, product: products.Product) -> bool:
    return all(finding.is_intact(binaries / program.name) for program in product.programs)


def _build_into(target: Path, recipe: products.Recipe, environment: Mapping[str, str], say: Say) -> None:
    """Build beside the target and rename. The caller holds the lock, so what lies there unfinished is nobody's."""
    product = recipe.product
    for unfinished in target.parent.glob(f".{target.name}.*"):
        shutil.rmtree(unfinished)
    go_command = go.find_or_install(environment, say)
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        run = GoRun(
            product=product,
            go=go_command,
            environment=go.build_environment(environment, recipe.platform, go_command),
            say=say,
        )
        _compile(run, recipe, scratch / "bin")
        _copy_definitions(run, scratch / finding.DEFINITIONS)
        _verify(recipe, scratch / "bin")
        sizes = {path.name: path.stat().st_size for path in (scratch / "bin").iterdir()}
        (scratch / finding.SIZES).write_text(json.dumps(sizes))
        scratch.chmod(0o755)
        shutil.rmtree(target, ignore_errors=True)
        scratch.rename(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GoRun:
    """Where and with what the go commands of one product run."""

    product: products.Product
    go: Path
    environment: Mapping[str, str]
    say: Say

    def __call__(self, arguments: Sequence[str], output: GoOutput, *, stdout: int) -> str:
        """Run go to its end, saying every few seconds how far it is; return its standard output if piped."""
        started = time.monotonic()
        answer: list[str] = []
        with subprocess.Popen(
            [self.go, *arguments],
            cwd=products.MODULES_DIRECTORY / self.product.name,
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        ) as process:
            readers = [threading.Thread(target=_each_line, args=(process.stderr, output.read), daemon=True)]
            if process.stdout is not None:
                readers.append(threading.Thread(target=_each_line, args=(process.stdout, answer.append), daemon=True))
            for reader in readers:
                reader.start()
            with _ended(process):
                while not _has_ended_within(process, locking.PROGRESS_SECONDS):
                    elapsed = round(time.monotonic() - started)
                    self.say(f"{self.product.name}: {output.progress()}, {elapsed} s")
            for reader in readers:
                reader.join()
        if process.returncode != 0:
            raise BuildError(_failure(self.product, arguments, process.returncode, output))
        return "".join(answer)


def _compile(run: GoRun, recipe: products.Recipe, binaries: Path) -> None:
    product = recipe.product
    packages = [program.package for program in product.programs]
    run.say(f"{product.name} {recipe.version}: looking at its modules")
    listed = run(
        ["list", *recipe.build_arguments[:-1], "-deps", *packages], GoOutput(), stdout=subprocess.PIPE
    )  # the last argument is -ldflags, which list does not know
    output = GoOutput(packages=frozenset(listed.split()))
    run.say(f"{product.name}: compiling {', '.join(program.name for program in product.programs)}")
    binaries.mkdir()
    # One program may be named unlike its package (etcd); several are built in one go, which links them side by side.
    target = f"{binaries}{os.sep}" if len(packages) > 1 else str(binaries / product.programs[0].name)
    run(
        ["build", "-v", "-trimpath", *recipe.build_arguments, "-o", target, *packages],
        output,
        stdout=subprocess.DEVNULL,
    )


def _copy_definitions(run: GoRun, target: Path) -> None:
    """Keep the product's custom resource definitions: those of the very version that was built."""
    product = run.product
    if not product.definitions:
        return
    listed = run(["list", "-m", "-f", "{{.Dir}}", product.module], GoOutput(), stdout=subprocess.PIPE)
    target.mkdir()
    for file in product.definitions:
        shutil.copyfile(Path(listed.strip()) / file, target / Path(file).name)


def _verify(recipe: products.Recipe, binaries: Path) -> None:
    for program in recipe.product.programs:
        path = binaries / program.name
        is_askable = bool(program.version_arguments)
        if is_askable and (reason := finding.version_refusal(path, program, recipe.version)):
            raise BuildError(f"{program.name} was built, but {reason}; check its flags in tools/toolchain/products.py")
        with path.open("rb") as file:
            os.fsync(file.fileno())


@contextlib.contextmanager
def _ended(process: subprocess.Popen[str]) -> Iterator[None]:
    """Leave no go command behind when we are interrupted."""
    try:
        yield
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()


def _has_ended_within(process: subprocess.Popen[str], seconds: float) -> bool:
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _each_line(stream: Iterator[str] | None, take: Callable[[str], None]) -> None:
    for line in stream or ():
        take(line)


def _failure(product: products.Product, arguments: Sequence[str], code: int, output: GoOutput) -> str:
    remarks = "\n".join(f"  {line}" for line in output.remarks) or "  (go said nothing)"
    attempted = f"`go {' '.join(arguments)}` in tools/{product.name}"
    advice = (
        "If a download failed, check the network and GOPROXY and run the same command again: it goes on where it "
        "stopped. If a package does not compile, check the pins in go.mod. If the disk is full: Go's caches need 10 GB."
    )
    return f"{product.name}: {attempted} ended with {code} after {output.progress()}:\n{remarks}\n{advice}"
