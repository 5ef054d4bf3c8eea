"""What can be done with a stack's file without the engine: check it, show what it makes, describe what it may say."""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from autoscaler.api import manifests
from autoscaler.api.settings.node_groups import NodeGroups
from autoscaler.api.settings.queued_jobs import QueuedJobs
from autoscaler.api.settings.scaling import Scaling
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
            case "simulation":
                print(_simulation(arguments.file, arguments.cluster))
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
    simulation = commands.add_parser("simulation", help="show all of these as one JSON, for simulations")
    simulation.add_argument("file", type=Path, metavar="FILE", help="such as stacks/Pulumi.dev.yaml")
    simulation.add_argument("--cluster", help="the cluster's key; default: the only one")
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
        except problems.IncompleteError as error:
            print(f"{file}: cannot be checked without its environment; `pulumi preview` can: {error}", file=sys.stderr)
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
    return _groups_of(loaded, _chosen(loaded, cluster)).to_json()


def _objects(file: Path, cluster: str | None) -> str:
    loaded = loading.load(reading.of_file(file))
    return manifests.dump(_objects_of(loaded, _chosen(loaded, cluster)))


def _scaling(file: Path, cluster: str | None) -> str:
    loaded = loading.load(reading.of_file(file))
    return _scaling_of(loaded, _chosen(loaded, cluster)).model_dump_json(by_alias=True, indent=1)


def _queued_jobs(file: Path, cluster: str | None) -> str:
    loaded = loading.load(reading.of_file(file))
    return _queued_jobs_of(loaded, _chosen(loaded, cluster)).model_dump_json(by_alias=True, indent=1)


def _simulation(file: Path, cluster: str | None) -> str:
    loaded = loading.load(reading.of_file(file))
    key = _chosen(loaded, cluster)
    shown = {
        "groups": json.loads(_groups_of(loaded, key).to_json()),
        "scaling": _scaling_of(loaded, key).model_dump(mode="json", by_alias=True),
        "queuedJobs": _queued_jobs_of(loaded, key).model_dump(mode="json", by_alias=True),
        "objects": list(_objects_of(loaded, key)),
    }
    return json.dumps(shown)


def _groups_of(loaded: loading.Loaded, key: str) -> NodeGroups:
    name, region = loaded.stack.cluster_name(key), loaded.stack.region
    return NodeGroups(cluster=name, region=region, groups=loaded.grids[key].groups)


def _objects_of(loaded: loading.Loaded, key: str) -> Iterable[manifests.Manifest]:
    return declarations.objects(loaded.stack.config.clusters[key], loaded.stack.region, loaded.grids[key])


def _scaling_of(loaded: loading.Loaded, key: str) -> Scaling:
    return deployment.scaling(loaded.stack.config.clusters[key].autoscaler, loaded.prices[key])


def _queued_jobs_of(loaded: loading.Loaded, key: str) -> QueuedJobs:
    return deployment.queued_jobs(loaded.stack.config.clusters[key].autoscaler)


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
