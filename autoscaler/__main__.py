"""The command line. It parses, calls one thing and prints; it must not decide anything.

Each command imports what it needs: whoever asks for an explanation should not wait for what the runtime needs.
"""

import argparse
import dataclasses
import gc
import re
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from autoscaler.api import crds, keys, manifests, policies, resources, version
from autoscaler.api.policies import identities, leaving
from autoscaler.kube import objects
from autoscaler.runtime import settings

_LABEL: Final = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    arguments = _parser().parse_args(argv)
    return _COMMANDS[arguments.command](arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m autoscaler", description="Sluice's runtime and its tools.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run_command = commands.add_parser(
        "run",
        help="run the controllers",
        description="Run the controllers until SIGTERM. A flag may be given as the environment variable in brackets.",
    )
    settings.add_arguments(run_command, settings.CONTROLLERS)
    _add_plan(commands.add_parser("plan", help="print what all controllers would do now, and why"))
    _add_status(commands.add_parser("status", help="print how the whole system is, and what is wrong"))
    _add_usage(commands.add_parser("usage", help="print what was used in a month, by pool and scope"))
    explain_command = commands.add_parser(
        "explain",
        help="say why a pod, a job or a Workload waits",
        description="Say why a job or its Workload waits for quota, or why a pod waits and what every node group says "
        "to it. It only reads the cluster.",
    )
    explain_command.add_argument("kind", choices=("pod", "job", "workload"), help="what to explain")
    explain_command.add_argument("name", metavar="NAMESPACE/NAME", help="which one")
    _add_cluster(explain_command)
    _add_simulate(
        commands.add_parser("simulate", help="play a day of work on a stack: what it costs, how long work waits")
    )
    _add_release(commands.add_parser("release", help="free a cluster whose runtime cannot come back"))
    crds_command = commands.add_parser(
        "crds",
        help="print the custom resource definitions as YAML",
        description="Print the custom resource definitions as YAML, ready for `kubectl apply --server-side -f -`.",
    )
    crds_command.add_argument(
        "--kind", choices=crds.names(), metavar="KIND", help=f"only this kind: {', '.join(crds.names())}"
    )
    _add_policies(commands.add_parser("policies", help="print the admission policies as YAML"))
    commands.add_parser("version", help="print the version")
    return parser


def _add_plan(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Print what all controllers would do now, and why: the next step for each object. The leader is asked, through "
        "the API server; nothing is written."
    )
    command.add_argument("-o", "--output", choices=("text", "json"), default="text", help="default: text")
    command.add_argument("--url", type=_url, help="where the runtime listens, if it is no pod: http://HOST:PORT")
    command.add_argument("--namespace", help="the runtime's namespace; default: that of the leader's pod")
    _add_cluster(command)


def _add_cluster(command: argparse.ArgumentParser) -> None:
    """Add how whoever only reads finds the cluster."""
    command.add_argument("--kubeconfig", help="default: ~/.kube/config, or in a pod its ServiceAccount [KUBECONFIG]")
    command.add_argument("--context", help="the context in the kubeconfig; default: its current one")


def _add_status(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Print worker pools, instance pools, scopes, queues and machines with their numbers, how many pods wait, and "
        "what conditions say is wrong. It only reads the cluster."
    )
    command.add_argument("-o", "--output", choices=("text", "json"), default="text", help="default: text")
    _add_cluster(command)


def _add_usage(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Print for how long instances of each pool existed in a month, which scopes worked on them, and what that "
        "cost. It only reads the cluster."
    )
    command.add_argument("--month", type=_month, help="such as 2026-11 (UTC); 13 are kept; default: the present one")
    command.add_argument("-o", "--output", choices=("text", "json", "csv"), default="text", help="default: text")
    _add_cluster(command)


def _add_simulate(command: argparse.ArgumentParser) -> None:
    command.description = "Play a day of work on a stack, with the real controllers on a simulated cluster and cloud."
    command.add_argument("--stack", type=Path, required=True, help="such as stacks/Pulumi.prod.yaml")
    command.add_argument("--trace", type=Path, required=True, help="the day: such as examples/traces/day.yaml")
    command.add_argument(
        "--against",
        type=Path,
        metavar="STACK",
        help="another stack, such as the main branch's: play the same day on both, and print what --stack changes",
    )
    command.add_argument("--cluster", help="the cluster's key in the stack; default: the only one")
    command.add_argument(
        *("-o", "--format", "--output"),
        choices=("text", "json", "markdown"),
        default="text",
        dest="format",
        help="markdown is for a comment on a pull request; default: text",
    )


def _add_policies(command: argparse.ArgumentParser) -> None:
    command.description = "Print the admission policies as YAML. The custom resource definitions must be there first."
    command.add_argument(
        "--runtime-account",
        metavar="NAMESPACE/NAME",
        type=_account,
        help="the runtime's ServiceAccount, which alone may create Workloads and delete Instances; "
        "without it, the policies about the runtime are left out",
    )
    whom = "who may delete the ConfigMap sluice-leaving, which drains all pools and ends the runtime; may be repeated"
    command.add_argument("--deployer-user", metavar="USER", action="append", help=f"a user {whom}")
    command.add_argument(
        "--deployer-group", metavar="GROUP", action="append", help=f"a group {whom}; default: {keys.DEPLOYERS_GROUP}"
    )


def _add_release(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Take every finalizer, gate and mark of ours off whatever carries one, so that nothing hangs on a runtime that "
        "cannot come back. It drains nothing. A runtime that lives leaves by itself: destroy the stack."
    )
    command.add_argument("--force", action="store_true", help="say that you mean it")
    command.add_argument("--even-if-running", action="store_true", help="do it although a runtime holds its Lease")
    command.add_argument("--namespace", help="the runtime's namespace; default: any")
    command.add_argument("--kubeconfig", help="default: the pod's ServiceAccount [KUBECONFIG]")
    command.add_argument("--context", help="the context in the kubeconfig; default: its current one")


def _run(arguments: argparse.Namespace) -> int:
    from autoscaler.runtime import controllers  # noqa: PLC0415  # see above
    from autoscaler.runtime.commands import run  # noqa: PLC0415  # see above

    try:
        chosen = settings.read(arguments, settings.CONTROLLERS)
    except settings.SettingsError as error:
        print(f"cannot run:\n{error}", file=sys.stderr)
        return 2
    return run.run(chosen, controllers.registrations)


def _plan(arguments: argparse.Namespace) -> int:
    from autoscaler.runtime.commands import plan  # noqa: PLC0415  # see above
    from autoscaler.runtime.plans import plan_document  # noqa: PLC0415  # see above

    try:
        origin = None if arguments.url else settings.read_origin(arguments, is_home_read=True)
        found = plan.plan(plan.Place(origin=origin, namespace=arguments.namespace, url=arguments.url or ""))
    except (settings.SettingsError, plan.PlanError) as error:
        print(error, file=sys.stderr)
        return 1
    print(plan_document.as_json(found) if arguments.output == "json" else plan_document.text(found))
    return 0


def _explain(arguments: argparse.Namespace) -> int:
    from autoscaler.runtime.commands import explain  # noqa: PLC0415  # see above

    namespace, _, name = arguments.name.partition("/")
    if not namespace or not name or "/" in name:
        print(f"{arguments.name!r} must be NAMESPACE/NAME", file=sys.stderr)
        return 2
    try:
        print(
            explain.explain(
                settings.read_origin(arguments, is_home_read=True), arguments.kind, objects.Key(namespace, name)
            )
        )
    except (settings.SettingsError, explain.ExplainError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _status(arguments: argparse.Namespace) -> int:
    from autoscaler.runtime.commands import status, status_tables  # noqa: PLC0415  # see above

    try:
        seen = status.status(settings.read_origin(arguments, is_home_read=True))
    except (settings.SettingsError, status.StatusError) as error:
        print(error, file=sys.stderr)
        return 1
    print(status_tables.as_json(seen) if arguments.output == "json" else status_tables.text(seen))
    return 0


def _usage(arguments: argparse.Namespace) -> int:
    from autoscaler.capacity.reporting import usage  # noqa: PLC0415  # see above
    from autoscaler.runtime.commands import usage as command  # noqa: PLC0415  # see above

    try:
        found = command.read(settings.read_origin(arguments, is_home_read=True), arguments.month)
    except (settings.SettingsError, usage.UsageError) as error:
        print(error, file=sys.stderr)
        return 1
    print({"text": usage.text, "json": usage.as_json, "csv": usage.as_csv}[arguments.output](found))
    return 0


def _release(arguments: argparse.Namespace) -> int:
    from autoscaler.runtime.commands import release  # noqa: PLC0415  # see above

    if not arguments.force:
        print("release frees a cluster of all that is ours, and drains nothing: say --force", file=sys.stderr)
        return 2
    scope = release.Scope(namespace=arguments.namespace, even_if_running=arguments.even_if_running)
    try:
        failures = release.release(settings.read_origin(arguments), scope, partial(print, flush=True))
    except (settings.SettingsError, release.ReleaseError) as error:
        print(error, file=sys.stderr)
        return 2
    for failure in failures:
        print(f"not freed: {failure}", file=sys.stderr)
    return 1 if failures else 0


def _simulate(arguments: argparse.Namespace) -> int:
    if find_spec("autoscaler.simulate") is None:
        print("simulate is not part of the runtime's image: run it in a checkout of Sluice", file=sys.stderr)
        return 1
    from autoscaler.runtime.commands import run  # noqa: PLC0415  # see above
    from autoscaler.simulate import command as simulate  # noqa: PLC0415  # see above

    gc.freeze()  # as `run` does: what was imported stays, and most objects of a day live long
    gc.set_threshold(run.YOUNG_OBJECTS)
    say = partial(print, flush=True)
    request = simulate.Request(
        stack=arguments.stack,
        trace=arguments.trace,
        against=arguments.against,
        cluster=arguments.cluster,
        format=arguments.format,
    )
    try:
        seconds = simulate.simulate(request, say)
    except simulate.SimulateError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"\nThe day took {seconds:.0f} s to play.", file=sys.stderr)
    return 0


def _policies(arguments: argparse.Namespace) -> int:
    runtime: policies.Runtime | None = arguments.runtime_account
    users, groups = arguments.deployer_user, arguments.deployer_group
    if runtime is None and (users or groups):
        print("deployers end a runtime: say which one by --runtime-account NAMESPACE/NAME", file=sys.stderr)
        return 2
    if runtime is not None:
        known = leaving.Deployers(users=tuple(users or ()), groups=tuple(groups or (keys.DEPLOYERS_GROUP,)))
        runtime = dataclasses.replace(runtime, deployers=known)
    print(manifests.dump(policies.manifests(runtime)), end="")
    return 0


def _account(given: str) -> policies.Runtime:
    """Read a ServiceAccount, written either way; one that is none would make policies that nobody can satisfy."""
    bare = given.removeprefix(identities.ACCOUNT_PREFIX)
    namespace, _, name = bare.partition("/" if bare == given else ":")
    if re.fullmatch(_LABEL, namespace) and re.fullmatch(rf"{_LABEL}(\.{_LABEL})*", name):
        return policies.Runtime(namespace=namespace, service_account=name)
    raise argparse.ArgumentTypeError(
        f"{given!r} is no ServiceAccount: give NAMESPACE/NAME, such as sluice-system/sluice, or its user name,"
        f" {identities.account_user('NAMESPACE', 'NAME')}"
    )


def _month(given: str) -> str:
    if re.fullmatch(r"20[0-9]{2}-(0[1-9]|1[0-2])", given):
        return given
    raise argparse.ArgumentTypeError(f"{given!r} is no month: give one such as 2026-11")


def _url(given: str) -> str:
    if re.fullmatch(r"https?://[^\s/]+(/\S*)?", given):
        return given
    raise argparse.ArgumentTypeError(f"{given!r} is no URL: give one such as http://127.0.0.1:8080")


def _crds(arguments: argparse.Namespace) -> int:
    chosen = [crds.crd(model) for model in resources.KINDS if arguments.kind in (None, model.__name__)]
    print(manifests.dump(chosen), end="")
    return 0


def _version(_: argparse.Namespace) -> int:
    print(version.VERSION)
    return 0


_COMMANDS: Final[Mapping[str, Callable[[argparse.Namespace], int]]] = {
    "run": _run,
    "plan": _plan,
    "status": _status,
    "usage": _usage,
    "explain": _explain,
    "simulate": _simulate,
    "release": _release,
    "crds": _crds,
    "policies": _policies,
    "version": _version,
}


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `… | head` ends us quietly
    sys.exit(main())
