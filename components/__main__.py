"""What can be done with a stack's file without the engine: check it, show what it makes, describe what it may say."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from autoscaler.api import manifests
from autoscaler.api.settings.node_groups import NodeGroups
from components import loading
from components.config import problems, reading, reference
from components.nodes import grid
from components.objects import declarations
from components.runtime import deployment


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    arguments = _parser().parse_args(argv)
    try:
        match arguments.command:
            case "check":
                return _check(arguments.file)
            case "nodegroups":
                print(_node_groups(arguments.file, arguments.cluster, arguments.format))
            case "objects":
                print(_objects(arguments.file, arguments.cluster), end="")
            case "scaling":
                print(_scaling(arguments.file, arguments.cluster))
            case "queuedjobs":
                print(_queued_jobs(arguments.file, arguments.cluster))
            case "schema":
                print(reference.editors_schema(), end="")
            case _:
                print(reference.page(), end="")
    except (problems.ConfigError, _UsageError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


class _UsageError(Exception):
    """The command line asks for something that is not there."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m components", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    check = commands.add_parser("check", help="check stacks' files as `pulumi up` would, before anything is made")
    check.add_argument("file", nargs="+", type=Path, metavar="FILE", help="such as stacks/Pulumi.dev.yaml")
    groups = commands.add_parser("nodegroups", help="show the node groups that a stack makes")
    groups.add_argument("file", type=Path, metavar="FILE", help="such as stacks/Pulumi.dev.yaml")
    groups.add_argument("--cluster", help="the cluster's key, for json; default: the only one")
    groups.add_argument(
        "--format",
        choices=("json", "markdown"),
        default="json",
        help="json: one cluster, for simulations; markdown: all of them, for people (default %(default)s)",
    )
    objects = commands.add_parser("objects", help="show the objects that a stack declares in its cluster, as YAML")
    objects.add_argument("file", type=Path, metavar="FILE", help="such as stacks/Pulumi.dev.yaml")
    objects.add_argument("--cluster", help="the cluster's key; default: the only one")
    scaling = commands.add_parser("scaling", help="show how a stack wants its nodes scaled, prices included, as JSON")
    scaling.add_argument("file", type=Path, metavar="FILE", help="such as stacks/Pulumi.dev.yaml")
    scaling.add_argument("--cluster", help="the cluster's key; default: the only one")
    jobs = commands.add_parser("queuedjobs", help="show how a stack wants queued jobs handled, as JSON")
    jobs.add_argument("file", type=Path, metavar="FILE", help="such as stacks/Pulumi.dev.yaml")
    jobs.add_argument("--cluster", help="the cluster's key; default: the only one")
    commands.add_parser("schema", help="print the JSON schema of a stack's file, for editors")
    commands.add_parser("reference", help="print the page that describes every key")
    return parser


def _check(files: Sequence[Path]) -> int:
    wrong = 0
    for file in files:
        try:
            loaded = loading.load(reading.of_file(file))
        except OSError as error:
            wrong += 1
            print(error, file=sys.stderr)
        except problems.ConfigError as error:
            wrong += 1
            print(f"{file}: {error}", file=sys.stderr)
        else:
            print(f"{file}: fine, {loaded.groups} Auto Scaling groups")
            for warning in loaded.warnings:
                print(f"{file}: warning: {warning}", file=sys.stderr)
    return 1 if wrong else 0


def _node_groups(file: Path, cluster: str | None, form: str) -> str:
    loaded = loading.load(reading.of_file(file))
    if form == "markdown":
        return grid.markdown({loaded.stack.cluster_name(key): made for key, made in loaded.grids.items()})
    key = _chosen(loaded, cluster)
    name = loaded.stack.cluster_name(key)
    return NodeGroups(cluster=name, region=loaded.stack.region, groups=loaded.grids[key].groups).to_json()


def _objects(file: Path, cluster: str | None) -> str:
    loaded = loading.load(reading.of_file(file))
    key = _chosen(loaded, cluster)
    config, region = loaded.stack.config.clusters[key], loaded.stack.region
    return manifests.dump(declarations.objects(config, region, loaded.grids[key]))


def _scaling(file: Path, cluster: str | None) -> str:
    loaded = loading.load(reading.of_file(file))
    key = _chosen(loaded, cluster)
    wanted = deployment.scaling(loaded.stack.config.clusters[key].autoscaler, loaded.prices[key])
    return wanted.model_dump_json(by_alias=True, indent=1)


def _queued_jobs(file: Path, cluster: str | None) -> str:
    loaded = loading.load(reading.of_file(file))
    wanted = deployment.queued_jobs(loaded.stack.config.clusters[_chosen(loaded, cluster)].autoscaler)
    return wanted.model_dump_json(by_alias=True, indent=1)


def _chosen(loaded: loading.Loaded, cluster: str | None) -> str:
    known = ", ".join(sorted(loaded.grids))
    if cluster is None and len(loaded.grids) == 1:
        return next(iter(loaded.grids))
    if cluster is None:
        raise _UsageError(f"--cluster must be given: there are {known}")
    if cluster not in loaded.grids:
        raise _UsageError(f"--cluster: there is no cluster {cluster}; there are {known}")
    return cluster


if __name__ == "__main__":
    sys.exit(main())
