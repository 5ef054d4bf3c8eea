"""A real control plane on this computer: etcd, Kubernetes, KWOK nodes, Ray's operator, and moto in the place of AWS."""

import argparse
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from tools.local import api, commands, components, kubeconfig, plane, tokens
from tools.toolchain import finding

DEFAULTS = components.Options()


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, _unwind)
    try:
        return int(options.run(options))
    except (plane.PlaneError, finding.NotBuiltError, api.ApiError, OSError) as error:
        print(error, file=sys.stderr)
        return 1


def _unwind(number: int, _: object) -> None:
    """End once, in good order: a half-made plane is taken down, a registrar just ends. Impatience changes nothing."""
    for other in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(other, signal.SIG_IGN)
    sys.exit(128 + number)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.local", description=__doc__)
    verbs = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_up(verbs.add_parser("up", help="start a plane and leave it running; says what to type next"))
    down = _placed(verbs.add_parser("down", help="stop the plane of a directory and remove its data; logs are kept"))
    down.set_defaults(run=lambda options: commands.down(options.directory))
    status = _placed(verbs.add_parser("status", help="show each process; exit code 0 if all run"))
    status.set_defaults(run=lambda options: commands.status(options.directory))
    _add_token(verbs.add_parser("token", help="mint a ServiceAccount's token and write a kubeconfig for it"))
    _add_scale(verbs.add_parser("scale", help="set the size of an Auto Scaling group, made first if there is none"))
    _add_registrar(
        verbs.add_parser("node-registrar", help="turn instances of moto's groups into nodes (started by `up`)")
    )
    _add_kuberay(verbs.add_parser("kuberay", help="become Ray's operator, its definitions first (started by `up`)"))
    return parser


def _placed(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument(
        "--directory",
        type=Path,
        default=commands.DEFAULT_DIRECTORY,
        help="where the plane keeps its files (default %(default)s)",
    )
    return parser


def _add_up(parser: argparse.ArgumentParser) -> None:
    _placed(parser)
    parser.add_argument(
        "--boot-seconds",
        type=float,
        default=DEFAULTS.boot_seconds,
        help="from an instance's launch to its node (default %(default)s)",
    )
    parser.add_argument("--region", default=DEFAULTS.region, help="the AWS region moto plays (default %(default)s)")
    parser.add_argument("--audit", action="store_true", help="write logs/audit.jsonl: every request, writes with body")
    parser.add_argument(
        "--fast-node-failure", action="store_true", help="a node without heartbeats is NotReady after 12 s, not 50 s"
    )
    parser.set_defaults(run=_up)


def _add_token(parser: argparse.ArgumentParser) -> None:
    _placed(parser)
    parser.add_argument("service_account", metavar="SERVICE_ACCOUNT", help="must exist: kubectl create serviceaccount")
    parser.add_argument("--namespace", default="default", help="its namespace (default %(default)s)")
    parser.add_argument(
        "--seconds", type=int, default=tokens.LIFETIME_SECONDS, help="lifetime, 600 at least (default %(default)s)"
    )
    parser.add_argument("--kubeconfig", type=Path, help="write a kubeconfig there instead of printing the token")
    parser.set_defaults(run=_token)


def _add_scale(parser: argparse.ArgumentParser) -> None:
    _placed(parser)
    parser.add_argument("name", metavar="NAME", help="the group; its nodes carry the label group=NAME")
    parser.add_argument("size", metavar="SIZE", type=int, help="how many instances it should have")
    parser.add_argument("--type", default="m5.large", help="a new group's instance type (default %(default)s)")
    parser.add_argument("--zone", default="a", help="a new group's zone, as the region's letter (default %(default)s)")
    parser.set_defaults(run=_scale)


def _add_registrar(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kubeconfig", type=Path, required=True, help="who may create and delete nodes")
    parser.add_argument("--aws-endpoint", required=True, help="where moto listens, such as http://127.0.0.1:5000")
    parser.add_argument("--region", default=DEFAULTS.region, help="default %(default)s")
    parser.add_argument("--boot-seconds", type=float, default=DEFAULTS.boot_seconds, help="default %(default)s")
    parser.add_argument(
        "--interval", type=float, default=DEFAULTS.registrar_interval_seconds, help="seconds (default %(default)s)"
    )
    parser.set_defaults(run=_registrar)


def _add_kuberay(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kubeconfig", type=Path, required=True, help="who may define kinds and make pods")
    parser.set_defaults(run=_kuberay)


def _up(options: argparse.Namespace) -> int:
    wanted = components.Options(
        components=frozenset(components.Component),
        audit=options.audit,
        fast_node_failure=options.fast_node_failure,
        region=options.region,
        boot_seconds=options.boot_seconds,
    )
    return commands.up(options.directory, wanted)


def _token(options: argparse.Namespace) -> int:
    client = plane.Plane.attach(options.directory).api
    account = {"namespace": options.namespace, "service_account": options.service_account}
    if options.kubeconfig is None:
        print(tokens.mint(client, **account, lifetime_seconds=options.seconds))
    else:
        tokens.write_kubeconfig(client, options.kubeconfig, **account, lifetime_seconds=options.seconds)
        print(f"wrote {options.kubeconfig}")
    return 0


def _scale(options: argparse.Namespace) -> int:
    from tools.local import groups  # noqa: PLC0415 - boto3 takes long to import

    running = plane.Plane.attach(options.directory)
    if not 0 <= options.size <= groups.LARGEST:
        raise plane.PlaneError(f"SIZE must be from 0 to {groups.LARGEST}, not {options.size}")
    if not groups.NAME.fullmatch(options.name):
        raise plane.PlaneError(f"NAME must be 3 to 63 lower-case letters, digits and dashes, not {options.name!r}")
    os.environ |= components.CREDENTIALS
    known = groups.Groups(endpoint=running.aws_endpoint, region=running.region)
    if not known.exists(options.name):
        try:
            known.require(instance_type=options.type, zone=f"{running.region}{options.zone}")
        except groups.UnknownError as error:
            raise plane.PlaneError(str(error)) from error
        known.create(options.name, instance_type=options.type, zone=f"{running.region}{options.zone}")
    known.set_desired(options.name, options.size)
    print(
        f"{options.name} should have {options.size} instances: kubectl get nodes -l {groups.GROUP_LABEL}={options.name}"
    )
    return 0


def _registrar(options: argparse.Namespace) -> int:
    from tools.local.registrar import node_registrar, registrar_cloud  # noqa: PLC0415 - boto3 takes long to import

    os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s", stream=sys.stdout)
    logging.getLogger("botocore").setLevel(logging.WARNING)
    client = api.Api(kubeconfig.read(options.kubeconfig))
    node_registrar.run(
        node_registrar.NodeRegistrar(
            cloud=registrar_cloud.Cloud(options.aws_endpoint, options.region),
            cluster=node_registrar.ApiCluster(client),
            region=options.region,
            boot_seconds=options.boot_seconds,
        ),
        interval_seconds=options.interval,
    )
    return 0


def _kuberay(options: argparse.Namespace) -> NoReturn:
    from tools.local import kuberay  # noqa: PLC0415 - the others need none of it

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    kuberay.run(options.kubeconfig, os.environ)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
