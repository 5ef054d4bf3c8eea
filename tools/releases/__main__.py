"""`python -m tools.releases`: record what a release prints and what it leaves in a state, as fixtures for upgrades.

Run it in a checkout of the release, once, when it is made; or give the release's checkout with --program. The stacks
are brought up in the real engine, each on a plane of its own with the stand-in providers, and nothing leaves this
machine. The recorded files have no machine's paths, ports, certificates or secrets in them.
"""

import argparse
import base64
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import yaml

from tools.engine import engine, layout
from tools.engine.providers.aws import settings
from tools.local.plane import Plane
from tools.releases import fixtures, scrubbing

COMMAND_SECONDS: Final = 60
ENDPOINT: Final = "https://127.0.0.1:6443"
AWS_ENDPOINT: Final = "http://127.0.0.1:5000"
AUTHORITY: Final = base64.b64encode(b"the certificate authority of a plane").decode()


def main(argv: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    program: Path = options.program.absolute()
    version = _run(program, "-c", "from autoscaler.api import version; print(version.VERSION)").strip()
    release = fixtures.Release(directory=options.directory / version)
    release.directory.mkdir(parents=True, exist_ok=True)
    release.definitions_file.write_text(_run(program, "-m", "autoscaler", "crds"))
    release.policies_file.write_text(_run(program, "-m", "autoscaler", "policies"))
    for stack in options.stack or fixtures.STACKS:
        _record(release, stack, program)
    for file in sorted(release.directory.iterdir()):
        print(f"{file}: {file.stat().st_size / 1000:.0f} kB")
    return 0


def _record(release: fixtures.Release, stack: str, program: Path) -> None:
    """Bring a stack up on a plane, and keep its state and the file that it was made from."""
    document = _playable((program / "stacks" / f"Pulumi.{stack}.yaml").read_text())
    release.stack_file(stack).write_text(document)
    with tempfile.TemporaryDirectory() as directory, Plane.start(Path(directory) / "plane") as plane:
        made = engine.Engine.open(Path(directory) / "engine", layout.Surroundings.of_plane(plane), program=program)
        made.write_stack(stack, yaml.safe_load(document))
        made.up(stack, listener=print)
        access = plane.api.access
        foreign = {
            access.server: ENDPOINT,
            plane.aws_endpoint: AWS_ENDPOINT,
            base64.b64encode(access.authority_pem).decode(): AUTHORITY,
            **_paths(directory, program),
        }
        state = scrubbing.scrubbed(made.state(stack, show_secrets=True), foreign)
    release.state_file(stack).write_text(fixtures.written_state(state))


def _paths(directory: str, program: Path) -> dict[str, str]:
    """Name the paths of this machine; in good order none of them is in a state."""
    own = (directory, program, fixtures.REPOSITORY, sys.prefix, sys.base_prefix, Path.home())
    return {f"{path}/": "/somewhere/" for path in own}


def _playable(text: str) -> str:
    """Give a stack's file the account that moto plays: the stack refuses to work in another one."""
    account = yaml.safe_load(text)["config"]["sluice:accountId"]
    return text.replace(account, settings.MOTO_ACCOUNT)


def _run(program: Path, *arguments: str) -> str:
    answer = subprocess.run(
        [sys.executable, *arguments], cwd=program, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=True
    )
    return answer.stdout


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.releases", description=__doc__)
    parser.add_argument(
        "--program", type=Path, default=fixtures.REPOSITORY, help="a checkout of the release (default: this one)"
    )
    parser.add_argument("--stack", action="append", help=f"record this stack alone (default {fixtures.STACKS})")
    parser.add_argument("--directory", type=Path, default=fixtures.RELEASES, help="where to (default %(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
