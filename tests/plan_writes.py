"""Compare what a plan says with what was written then: both as objects that are created, patched or deleted."""

import re
from collections.abc import Iterable
from typing import Any

from autoscaler.control.plans import Command

Written = tuple[str, str]
"""A verb of the API server's, and an object: `pod a/b`, `node n1`. Of a new worker, its pool: `pod a/pool-*`."""
VERBS = {"open": "patch", "promise": "patch", "record tried nodes of": "patch", "taint": "patch", "untaint": "patch"}
_OBJECT = re.compile(r"(\w+) (\S+)")
_GROWN = re.compile(r"(\d+) pods of workerpool (\S+)")
_PATH = re.compile(
    r"/(?:api|apis/[^/]+)/v[^/]+(?:/namespaces/(?P<namespace>[^/]+))?/(?P<plural>[a-z]+)"
    r"(?:/(?P<name>[^/]+))?(?:/(?P<part>[a-z]+))?"
)
_METHODS = {"POST": "create", "PATCH": "patch", "DELETE": "delete"}
_TOLD = {"events", "leases"}
_STATED = {"instancepool", "scope", "provideraccount"}
"""Kinds whose status is in the plan. What is done in a cycle may change it once more."""


def of_command(command: Command) -> list[Written]:
    """Return the writes that a command of a plan stands for; none where it is a call to the cloud or an event."""
    if grown := _GROWN.fullmatch(command.what):
        return [("create", f"pod {grown[2]}-*")] * int(grown[1])
    if command.verb in {"resize", "terminate", "tell"}:
        return []
    what = command.what.rpartition(" to ")[2] if command.verb == "promise" else command.what  # of a node to a pod
    found = _OBJECT.match(what)
    assert found is not None, command
    return [(VERBS.get(command.verb, command.verb), found[0])]


def of_commands(commands: Iterable[Command]) -> list[Written]:
    return sorted(each for command in commands for each in of_command(command))


def is_stated(written: Written) -> bool:
    """Tell whether something is told by a status, and nothing else is done."""
    return written[0] == "patch status of" and written[1].partition(" ")[0] in _STATED


def compare(want: list[Written], written: list[Written]) -> None:
    """See that all that was planned was written, and, but for statuses, nothing else first."""
    done = [each for each in written if not is_stated(each)]
    commands = [each for each in want if not is_stated(each)]
    assert sorted(done[: len(commands)]) == commands, f"planned {want}, done {written}"
    assert {each for each in want if is_stated(each)} <= set(written), f"planned {want}, done {written}"


def of_request(method: str, path: str, body: dict[str, Any]) -> Written | None:
    """Return what a request writes; None: it reads, or tells of something by another status, an event or a Lease."""
    found = _PATH.fullmatch(path)
    if method not in _METHODS or found is None or found["plural"] in _TOLD:
        return None
    kind, verb = found["plural"].removesuffix("s"), _METHODS[method]
    if found["part"] == "eviction":
        verb = "evict"
    elif found["part"] == "status":
        if kind not in {"instance", *_STATED} and "admission" not in body["status"]:
            return None
        verb = "patch status of"
    name = found["name"] or body["metadata"]["name"]
    if verb == "create" and kind == "pod":
        name = f"{name.rpartition('-')[0]}-*"
    return verb, f"{kind} {found['namespace']}/{name}" if found["namespace"] else f"{kind} {name}"
