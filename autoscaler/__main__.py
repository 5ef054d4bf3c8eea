"""The command line. It parses, calls one thing and prints; it must not decide anything."""

import argparse
import signal
import sys
from collections.abc import Sequence

from autoscaler.api import crds, manifests, policies, resources, version
from autoscaler.runtime import assembly, run, settings


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    arguments = _parser().parse_args(argv)
    match arguments.command:
        case "crds":
            print(manifests.dump(_crds(arguments.kind)), end="")
        case "run":
            return _run(arguments)
        case "policies":
            print(manifests.dump(policies.manifests()), end="")
        case _:
            print(version.VERSION)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m autoscaler", description="Sluice's runtime and its tools.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run_command = commands.add_parser(
        "run",
        help="run the controllers",
        description="Run the controllers until SIGTERM. A flag may be given as the environment variable in brackets.",
    )
    settings.add_arguments(run_command, assembly.CONTROLLERS)
    crds_command = commands.add_parser(
        "crds",
        help="print the custom resource definitions as YAML",
        description="Print the custom resource definitions as YAML, ready for `kubectl apply --server-side -f -`.",
    )
    crds_command.add_argument(
        "--kind", choices=crds.names(), metavar="KIND", help=f"only this kind: {', '.join(crds.names())}"
    )
    commands.add_parser(
        "policies",
        help="print the admission policies as YAML",
        description="Print the admission policies as YAML. The custom resource definitions must be there first.",
    )
    commands.add_parser("version", help="print the version")
    return parser


def _run(arguments: argparse.Namespace) -> int:
    try:
        chosen = settings.read(arguments, assembly.CONTROLLERS)
    except settings.SettingsError as error:
        print(f"cannot run:\n{error}", file=sys.stderr)
        return 2
    return run.run(chosen, assembly.registrations(chosen))


def _crds(kind: str | None) -> list[manifests.Manifest]:
    return [crds.crd(model) for model in resources.KINDS if kind in (None, model.__name__)]


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `… | head` ends us quietly
    sys.exit(main())
