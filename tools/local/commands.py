"""What `up`, `down` and `status` do for the plane of one directory. Each may be repeated, also after a crash."""

import contextlib
import fcntl
import os
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tools.local import components, leftovers
from tools.local.plane import FOREIGN_VARIABLES, Plane, PlaneError
from tools.toolchain import finding

DEFAULT_DIRECTORY = Path(".local")


def up(directory: Path, options: components.Options) -> int:
    """Start a plane that outlives this command, unless it runs already."""
    root = directory.absolute()
    with _one_at_a_time(root):
        leftovers.clean(os.environ)  # first: a whole plane whose owner was killed must not be taken for ours
        running = _healthy(root)
        if running is None:
            _remove_remains(root)
            running = _start(root, options)
        elif running.blueprint.options != options:
            print("a plane with other options runs here already and is left as it is; `down` first to change them")
        else:
            print(f"already running in {directory}")
        _write_environment(running)
    print(_next_steps(directory, running))
    return 0


def down(directory: Path) -> int:
    """Stop the plane of a directory; none there is fine."""
    root = directory.absolute()
    abandoned = [entry for entry in leftovers.clean(os.environ) if entry.directory == root]
    if not root.exists():
        print(f"nothing runs in {directory}")
        return 0
    with _one_at_a_time(root):
        found = _remove_remains(root) or bool(abandoned)
    print(f"stopped; logs are in {directory / 'logs'}" if found else f"nothing runs in {directory}")
    return 0


def status(directory: Path) -> int:
    """Show each process of the plane; 0 if all run."""
    running = Plane.attach(directory)
    alive = running.processes()
    for component in components.Component:
        if component in running.blueprint.options.components:
            known = alive.get(component)
            state = f"pid {known.pid}" if known else "not running"
            print(f"{component:<24} {state:<14} {running.paths.log(component)}")
    if running.is_complete():
        return 0
    print("not everything runs; `up` starts it anew")
    return 1


def _start(root: Path, options: components.Options) -> Plane:
    print(f"starting {', '.join(name for name in components.Component if name in options.components)}", flush=True)
    started = time.monotonic()
    plane = Plane.start(root, options)
    plane.detach()
    print(f"ready after {time.monotonic() - started:.1f} s", flush=True)
    return plane


def _healthy(root: Path) -> Plane | None:
    """Return the plane of this directory if all of it runs and answers."""
    with contextlib.suppress(PlaneError, FileNotFoundError):
        found = Plane.attach(root)
        if found.is_complete():
            found.wait_ready(within_seconds=10)
            return found
    return None


def _remove_remains(root: Path) -> bool:
    """Stop whatever still runs of this directory's planes, however it got there."""
    found = leftovers.of_directory(root, os.environ)
    for entry in found:
        # In good order if that is possible; without tools or certificates the registry alone is enough.
        with contextlib.suppress(PlaneError, finding.NotBuiltError, FileNotFoundError):
            Plane.attach(root).stop()
        leftovers.release(entry)
    for name in ("kubeconfig", "env"):
        (root / name).unlink(missing_ok=True)
    return bool(found)


def _write_environment(plane: Plane) -> None:
    kept = {"PATH", "NO_PROXY", "no_proxy"}
    lines = [f"export {name}={shlex.quote(value)}" for name, value in plane.environment.items() if name not in kept]
    lines += [f'export {name}="{plane.environment[name]}${{{name}:+,${name}}}"' for name in ("NO_PROXY", "no_proxy")]
    # A sourced file must not freeze the PATH of the moment at which it was written.
    tools = plane.environment["PATH"].split(os.pathsep)[0]
    lines += [f"export PATH={shlex.quote(tools)}:$PATH", f"unset {' '.join(FOREIGN_VARIABLES)}"]
    (plane.paths.root / "env").write_text("\n".join(lines) + "\n")


def _next_steps(directory: Path, plane: Plane) -> str:
    return "\n".join(
        (
            "",
            f"  source {directory / 'env'}       # kubectl and the AWS tools now speak to this plane",
            "  kubectl get nodes             # none yet:",
            f"  {_python()} -m tools.local scale demo 2",
            f"  {_stop(directory)}",
            "",
            f"API server {plane.blueprint.api_url}, AWS {plane.aws_endpoint} ({plane.region})",
            f"logs in {directory / 'logs'}",
        )
    )


def _python() -> str:
    """Name the interpreter as a person in the checkout would."""
    here = Path(sys.executable)
    return str(here.relative_to(Path.cwd())) if here.is_relative_to(Path.cwd()) else str(here)


def _stop(directory: Path) -> str:
    return "make down" if directory == DEFAULT_DIRECTORY else f"{_python()} -m tools.local down --directory {directory}"


@contextlib.contextmanager
def _one_at_a_time(root: Path) -> Iterator[None]:
    root.mkdir(parents=True, exist_ok=True)
    with (root / ".lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another up or down of this directory is running; waiting for it", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
