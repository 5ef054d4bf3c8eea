"""What `make up`, `make preview`, `make upgrade` and `make destroy` do. Each may be repeated.

Stack `local` is on the plane of a directory, in the engine of tools/engine. Only an upgrade touches other stacks: with
the `pulumi` command of whoever runs it, which asks before it does anything.
"""

import shlex
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Final

from tools.engine import engine, layout
from tools.engine.results import Result
from tools.local.plane import Plane
from tools.stack import replicas

STACK: Final = "local"
DEFINITIONS_FIRST: Final = ("--target", "**.definitions**")
"""How `pulumi up` is told to bring the definitions alone: all that has this in its name, their provider included."""


def up(directory: Path) -> int:
    """Bring the stack up on the running plane, and start the runtime."""
    plane = Plane.attach(directory)
    print(f"pulumi up of stack {STACK}", flush=True)
    started = time.monotonic()
    result = _open(plane).up(STACK, listener=_progress)
    print(f"stack {STACK} is up after {time.monotonic() - started:.1f} s: {_summary(result)}", flush=True)
    addresses = replicas.start(plane, replicas.deployment(plane))
    _add_environment(directory, addresses[0])
    print(_next_steps(directory, addresses))
    return 0


def upgrade(directory: Path, stack: str) -> int:
    """Bring a stack of an older release to this one: definitions first, as previews go by those in the cluster."""
    if stack != STACK:
        for options in (DEFINITIONS_FIRST, ()):
            code = subprocess.run(["pulumi", "up", "--stack", stack, *options], check=False).returncode
            if code != 0:
                return code
        return 0
    print(f"pulumi up of the definitions of stack {STACK}", flush=True)
    _open(Plane.attach(directory)).up(STACK, *DEFINITIONS_FIRST, listener=_progress)
    return up(directory)


def preview(directory: Path, stack: str) -> int:
    """Show what `up` would change; a stack that lives elsewhere is previewed as if nothing were there yet."""
    if stack == STACK:
        _open(Plane.attach(directory)).preview(stack, "--diff", listener=_show)
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        nowhere = engine.Engine.open(Path(scratch), layout.Surroundings.nowhere())
        nowhere.preview(stack, listener=_show)
    return 0


def destroy(directory: Path) -> int:
    """Take the stack down and leave the plane running."""
    plane = Plane.attach(directory)
    started = time.monotonic()
    result = _open(plane).destroy(STACK, listener=_progress)
    plane.stop_guests()
    print(
        f"stack {STACK} is gone after {time.monotonic() - started:.1f} s: {len(result.of('delete'))} resources deleted"
    )
    return 0


def _open(plane: Plane) -> engine.Engine:
    """Open the engine of this plane; its state goes with the plane's data, for it speaks of that cluster alone."""
    return engine.Engine.open(plane.paths.data / "engine", layout.Surroundings.of_plane(plane))


def _progress(line: str) -> None:
    """Show what happens to resources, and what the program and the engine say."""
    if line.strip():
        print(f"  {line}", flush=True)


def _show(line: str) -> None:
    print(line, flush=True)


def _summary(result: Result) -> str:
    changes = len(result.changes)
    return f"{len(result.steps)} resources, {changes} of them changed" if changes else f"{len(result.steps)} resources"


def _add_environment(directory: Path, address: str) -> None:
    file = directory / "env"
    kept = [line for line in file.read_text().splitlines() if not line.startswith("export SLUICE_URL=")]
    file.write_text("\n".join([*kept, f"export SLUICE_URL={shlex.quote(address)}"]) + "\n")


def _next_steps(directory: Path, addresses: tuple[str, ...]) -> str:
    return "\n".join(
        (
            "",
            f"  source {directory / 'env'}       # kubectl and the AWS tools now speak to this plane",
            "  kubectl get sluice            # pools, scopes, queues, as the stack declares them",
            "  kubectl get nodes -L node.type,topology.kubernetes.io/zone",
            "  make preview                  # what another `make up` would change",
            "  make down",
            "",
            f"the runtime answers at {', '.join(addresses)}; logs in {directory / 'logs'}",
        )
    )
