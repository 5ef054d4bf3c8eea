"""Make groups, nodes, guests and sleepers; a test sets what matters."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from autoscaler.kube.objects import Key
from autoscaler.machines import decide
from autoscaler.machines.model import (
    Command,
    DeleteSleeper,
    Group,
    Guest,
    MachineType,
    Node,
    OpenGuest,
    OpenSleeper,
    Phase,
    Plan,
    PromiseGuest,
    Reason,
    RecordTried,
    Sleeper,
)

NOW: Final = 1_000_000.0
ONE: Final[Mapping[str, int]] = {"cpu": 1000, "pods": 1}
"""What a machine of every type requests, unless a test says otherwise."""


def machine_type(name: str = "small", maximum: int = 1, requests: Mapping[str, int] = ONE) -> MachineType:
    return MachineType(name=name, maximum=maximum, requests=requests)


def node(
    name: str = "a", *, types: Iterable[str] = ("small",), cpu: int = 1000, used: int = 0, **rest: Any
) -> Node:  # fields of a node
    return Node(
        name=name,
        types=frozenset(types),
        allocatable={"cpu": cpu, "pods": 100},
        used={"cpu": used},
        **rest,
    )


def guest(name: str = "g", **rest: Any) -> Guest:  # fields of a guest
    fields: dict[str, Any] = {
        "key": Key("team", name),
        "uid": f"uid-{name}",
        "version": 1,
        "type": "small",
        "created_at": NOW - 100,
        "phase": Phase.GATED,
        "requests": ONE,
    }
    return Guest(**{**fields, **rest})


def trying(name: str = "g", *, for_seconds: float = 1.0, **rest: Any) -> Guest:  # fields of a guest
    """Make a guest that is open, has no node and was not refused yet."""
    return guest(name, phase=Phase.OPEN, trying_since=NOW - for_seconds, **rest)


def refused(name: str = "g", **rest: Any) -> Guest:  # fields of a guest
    """Make a guest that is open, and whose time was over."""
    return guest(name, phase=Phase.OPEN, unschedulable_since=NOW - 100, **rest)


def bound(name: str = "g", at: str = "a", **rest: Any) -> Guest:  # fields of a guest
    return guest(name, phase=Phase.BOUND, node=at, **rest)


def sleeper(ordinal: int = 0, *, at: str = "", phase: Phase | None = None, type: str = "small", **rest: Any) -> Sleeper:  # noqa: A002  # the field's name
    """Make a sleeper: bound where it is said to be, gated if nowhere."""
    return Sleeper(
        **{
            "key": Key("sluice", f"{type}-general-{ordinal}"),
            "uid": f"uid-{type}-{ordinal}",
            "version": 1,
            "type": type,
            "ordinal": ordinal,
            "phase": phase or (Phase.BOUND if at else Phase.GATED),
            "requests": ONE,
            "node": at,
            **rest,
        }
    )


def group(**rest: Any) -> Group:  # fields of a group
    fields: dict[str, Any] = {"name": "general", "types": (machine_type(),)}
    return Group(**{**fields, **rest})


def plan_of(**rest: Any) -> Plan:  # fields of a group
    return decide.decide(group(**rest), now=NOW)


def done(**rest: Any) -> list[str]:  # fields of a group
    """Decide about a group, and say in short what is done."""
    return [short(each) for each in plan_of(**rest).writes]


def reasons(plan: Plan) -> dict[str, Reason]:
    return {each.guest.key.name: each.reason for each in plan.waiting}


def short(command: Command) -> str:
    match command:
        case PromiseGuest():
            return f"promise {command.guest.key.name} {command.node}"
        case OpenGuest():
            return f"open {command.guest.key.name}"
        case RecordTried():
            return f"tried {command.guest.key.name} {','.join(sorted(command.nodes))}"
        case DeleteSleeper():
            return f"delete {command.sleeper.type}-{command.sleeper.ordinal}"
        case OpenSleeper():
            return f"open {command.sleeper.type}-{command.sleeper.ordinal} {command.node}"
