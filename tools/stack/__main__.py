"""The stack on this computer: the real Pulumi engine, on the plane that `python -m tools.local up` started."""

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.engine import engine
from tools.local import api
from tools.local import commands as planes
from tools.local.plane import PlaneError
from tools.stack import commands, hosting
from tools.toolchain import finding


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))  # both end the engine in good order
    try:
        return int(options.run(options))
    except (
        PlaneError,
        engine.EngineError,
        hosting.HostingError,
        finding.NotBuiltError,
        api.ApiError,
        OSError,
    ) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.stack", description=__doc__)
    verbs = parser.add_subparsers(required=True, metavar="COMMAND")
    up = _placed(
        verbs.add_parser("up", help="`pulumi up` of stack local, then start the runtime as its Deployment says")
    )
    up.set_defaults(run=lambda options: commands.up(options.directory))
    preview = _placed(verbs.add_parser("preview", help="`pulumi preview` of a stack; any but local needs no plane"))
    preview.add_argument("stack", nargs="?", default=commands.STACK, metavar="STACK", help="default: %(default)s")
    preview.set_defaults(run=lambda options: commands.preview(options.directory, options.stack))
    upgrade = _placed(
        verbs.add_parser(
            "upgrade",
            help="`pulumi up` of a stack's definitions, then of all of it; any but local with your own `pulumi`",
        )
    )
    upgrade.add_argument("stack", nargs="?", default=commands.STACK, metavar="STACK", help="default: %(default)s")
    upgrade.set_defaults(run=lambda options: commands.upgrade(options.directory, options.stack))
    destroy = _placed(verbs.add_parser("destroy", help="`pulumi destroy` of stack local; the plane stays"))
    destroy.set_defaults(run=lambda options: commands.destroy(options.directory))
    return parser


def _placed(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument(
        "--directory", type=Path, default=planes.DEFAULT_DIRECTORY, help="the plane's directory (default %(default)s)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
